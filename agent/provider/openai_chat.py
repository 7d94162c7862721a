"""Streamed Chat Completions of any OpenAI-compatible address.

A transport sends a body that is already encoded, and the raw response comes back: its events are read here. Whatever
goes wrong becomes a `ModelFailure` in `_translated` or `_refused`, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from agent.errors import FailureKind, ModelFailure
from agent.provider.base import ChatMessage, Chunk, ModelRequest
from agent.provider.failures import Service, asks_for_wait_s, failure_of_error, web_page
from agent.provider.sight import has_images, without_images
from agent.provider.sse import EventTooLong, SseEvent, SseParser
from agent.provider.transport import CONNECT_S, HttpxTransport, Transport

if TYPE_CHECKING:
    import httpx

IDLE_S = 120.0  # without a single byte: services that think long send keep-alive comments meanwhile
CHUNK_S = 600.0  # with bytes, but without a chunk: keep-alives alone do not count as an answer for ever
TAIL_S = 5.0  # after the finish reason only the usage and [DONE] can follow; some servers then keep the line open
DRAIN_S = 0.2  # after [DONE]: the end of the body is due at once, and having read it the connection can be used again
PLAIN_BODY_BYTES_MAX = 8 * 1024 * 1024  # of an answer that is no stream

_IMAGES = re.compile("image|vision|multi-?modal|mmproj", re.IGNORECASE)
_BROKE_OFF = "broke off the connection before the answer was complete: try again"


class OpenAIChatProvider:
    """One service and one client, made at the first use or by `prepare`.

    `api_key` None sends no key at all. `transport` makes the client of an address. `idle_s` limits the time without any
    byte, `chunk_s` the time without a chunk, `tail_s` the time that a complete answer waits for its usage.
    """

    kind = "openai_chat"

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        *,
        transport: Callable[[str, float], Transport] = HttpxTransport,
        idle_s: float = IDLE_S,
        chunk_s: float = CHUNK_S,
        tail_s: float = TAIL_S,
    ) -> None:
        self._service = Service(base_url.rstrip("/"), model, api_key)
        self._idle_s = idle_s
        self._chunk_s = chunk_s
        self._tail_s = tail_s
        self._new_transport = transport
        self._transport: Transport | None = None
        self._building = threading.Lock()
        self._asks_for_usage = True  # until a service says that it does not know `stream_options`
        self._takes_images = True  # until a service says that it does not
        self._refused_messages: list[ChatMessage] = []  # whose images it did not take
        self._in_doubt = False  # the newest of them is refused, and no request has succeeded since
        self._limit_name = "max_tokens"  # until a service says that it wants `max_completion_tokens`

    @property
    def name(self) -> str:
        return f"{self._service.model} @ {urlsplit(self._service.address).netloc}"

    def prepare(self) -> None:
        self._built()

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        if self._transport is None:
            await asyncio.to_thread(self.prepare)
        response = await self._send(request)
        try:
            async with aclosing(self._chunks(response)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await response.aclose()  # also when the task is cancelled: the server sees the end at once

    # -- the request

    def _built(self) -> Transport:
        with self._building:
            if self._transport is None:
                self._transport = self._build()
            return self._transport

    def _build(self) -> Transport:
        try:
            return self._new_transport(self._service.address, self._idle_s)
        except (ImportError, OSError, ValueError) as error:  # proxies and certificates come from the environment
            raise ModelFailure(
                FailureKind.ADDRESS,
                f"The connection cannot be set up ({self._service.quote(str(error))}): "
                "check the proxy and certificate settings of the environment.",
            ) from error

    async def _send(self, request: ModelRequest) -> httpx.Response:
        try:
            response = await self._post(request)
            self._in_doubt = False
            return response
        except ModelFailure as failure:
            if not self._can_adapt(failure, request):
                raise
        return await self._send(request)

    async def _post(self, request: ModelRequest) -> httpx.Response:
        with self._translated():
            response = await self._built().post("/chat/completions", self._body(request), self._headers())
            if response.is_success:
                return response
            try:
                raise self._refused(response, await response.aread())
            finally:
                await response.aclose()

    def _body(self, request: ModelRequest) -> bytes:
        messages = request.messages if not self._refused_messages else [self._bearable(one) for one in request.messages]
        encoded = [message.encoded for message in messages]
        body: dict[str, object] = {"model": request.model, "messages": encoded, "stream": True}
        if self._asks_for_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:
            body["tools"] = request.tools
        if request.max_output_tokens is not None:
            body[self._limit_name] = request.max_output_tokens
        return msgspec.json.encode(body)

    def _headers(self) -> dict[str, str]:
        key = self._service.api_key
        return {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "User-Agent": "mycodeagent",
            **({"Authorization": f"Bearer {key}"} if key is not None else {}),
        }

    def _can_adapt(self, failure: ModelFailure, request: ModelRequest) -> bool:
        """True when the request can be sent again in another dialect, which is then remembered."""
        if _is_about_images(failure) and self._give_up_images(request):
            return True
        if failure.status not in {400, 422}:
            return False
        if self._asks_for_usage and ("stream_options" in failure.message or "include_usage" in failure.message):
            self._asks_for_usage = False
            return True
        if self._limit_name == "max_tokens" and "max_completion_tokens" in failure.message:
            self._limit_name = "max_completion_tokens"
            return True
        return False

    def _give_up_images(self, request: ModelRequest) -> bool:
        """Leave out the newest images, and when that was not enough all of them; False when there are none left.

        One bad image would end the session otherwise, since every later request holds it.
        """
        sent = [message for message in request.messages if self._takes_images and has_images(self._bearable(message))]
        if not sent:
            return False
        self._takes_images = not self._in_doubt
        self._in_doubt = True
        self._refused_messages.append(sent[-1])
        return True

    def _bearable(self, message: ChatMessage) -> ChatMessage:
        """The message as this service takes it."""
        refused = not self._takes_images or any(message is one for one in self._refused_messages)
        return without_images(message) if refused else message

    # -- the answer

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[Chunk, None]:
        finished = False
        async with aclosing(self._events(response)) as events:
            while True:
                limit_s = self._tail_s if finished else self._chunk_s
                try:
                    with self._translated():
                        async with asyncio.timeout(limit_s):
                            event = await anext(events, None)
                except ModelFailure:
                    if finished:
                        return  # the answer is whole; only its usage may be missing
                    raise
                if event is None:
                    return
                if event.data.startswith(b"[DONE]"):
                    await self._drain(events)
                    return
                chunk = self._decoded(event)
                finished = finished or _has_finish_reason(chunk)
                yield chunk

    async def _events(self, response: httpx.Response) -> AsyncGenerator[SseEvent, None]:
        """The events of the stream. An answer that is none becomes one event, or a failure."""
        parser = SseParser()
        first = b""
        pieces = response.aiter_bytes()
        async for piece in pieces:
            # What answers is told by its first character, not by its content type: servers mistake that.
            first = first or piece.lstrip()[:1]
            if first in {b"{", b"[", b"<"}:
                yield SseEvent("", self._whole_answer(await _read_all(piece, pieces)))
                return
            for event in parser.feed(piece):
                yield event
        for event in parser.end():
            yield event

    def _whole_answer(self, body: bytes) -> bytes:
        """Turn the completion of a server that does not stream into one chunk.

        Raises:
            ModelFailure: it is an error, or no completion at all.
        """
        answer = _json(body)
        if isinstance(answer, Mapping) and answer.get("error"):
            raise failure_of_error(self._service, None, answer)
        choices = answer.get("choices") if isinstance(answer, Mapping) else None
        if not isinstance(answer, Mapping) or not isinstance(choices, list):
            raise web_page(self._service)
        as_deltas = [{**c, "delta": c.get("message")} for c in choices if isinstance(c, Mapping)]
        return json.dumps({**answer, "choices": as_deltas}).encode()

    def _decoded(self, event: SseEvent) -> Chunk:
        chunk = _json(event.data)
        if isinstance(chunk, Mapping) and (chunk.get("error") or event.event == "error"):
            raise failure_of_error(self._service, None, chunk)
        if not isinstance(chunk, Mapping):
            raise self._failure(FailureKind.STREAM_BROKEN, "sent a damaged answer: try again", retryable=True)
        return chunk

    @staticmethod
    async def _drain(events: AsyncIterator[SseEvent]) -> None:
        import httpx

        try:
            async with asyncio.timeout(DRAIN_S):
                async for _ in events:
                    pass
        except (httpx.HTTPError, EventTooLong, TimeoutError):
            pass  # the answer is whole; the connection is closed instead of being used again

    # -- what can go wrong

    def _refused(self, response: httpx.Response, body: bytes) -> ModelFailure:
        """What a response that is no success says; a proxy's page says nothing, its markup is for browsers."""
        said = _json(body)
        if said is None and not body.lstrip().startswith(b"<"):
            said = body.decode("utf-8", "replace")
        error = said.get("error", said) if isinstance(said, Mapping) else said
        return failure_of_error(self._service, response.status_code, error, asks_for_wait_s(response.headers))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate what httpx raises."""
        import httpx

        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError, EventTooLong) as error:
            raise self._of_transport(error) from error

    def _of_transport(self, error: BaseException) -> ModelFailure:
        import httpx

        failure = self._failure
        if isinstance(error, httpx.ConnectTimeout):
            return failure(FailureKind.TIMEOUT, f"cannot be reached within {CONNECT_S:g} s", retryable=True)
        if isinstance(error, httpx.TimeoutException):
            return failure(FailureKind.TIMEOUT, f"sent nothing for {self._idle_s:g} s: try again", retryable=True)
        if isinstance(error, TimeoutError):
            return failure(FailureKind.TIMEOUT, f"sent no answer for {self._chunk_s:g} s: try again", retryable=True)
        if isinstance(error, httpx.ProxyError):
            return failure(FailureKind.UNREACHABLE, "cannot be reached through the proxy: check HTTPS_PROXY")
        if isinstance(error, httpx.ConnectError):
            return self._of_connection(error)
        if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.LocalProtocolError | UnicodeError):
            return failure(FailureKind.ADDRESS, "is no address that can be asked: check OPENAI_BASE_URL or --base-url")
        return failure(FailureKind.STREAM_BROKEN, _BROKE_OFF, retryable=True)

    def _of_connection(self, error: BaseException) -> ModelFailure:
        causes = list(_causes(error))
        if any(isinstance(cause, ssl.SSLError) for cause in causes):
            said = self._service.quote(str(error))
            return self._failure(FailureKind.ADDRESS, f"has no safe connection to offer ({said}): check the address")
        why = "no server answers there"
        if any(isinstance(cause, OSError) and type(cause).__name__ == "gaierror" for cause in causes):
            why = "its name is unknown"
        advice = "is it running, and is OPENAI_BASE_URL or --base-url right?"
        return self._failure(FailureKind.UNREACHABLE, f"cannot be reached, {why}: {advice}", retryable=True)

    def _failure(self, kind: FailureKind, predicate: str, *, retryable: bool = False) -> ModelFailure:
        end = "" if predicate.endswith("?") else "."
        return ModelFailure(kind, f"{self._service.address} {predicate}{end}", retryable=retryable)


def _is_about_images(failure: ModelFailure) -> bool:
    """Whether a refusal may have images as its cause: services have many words for it."""
    return failure.status == 413 or (
        failure.status in {400, 404, 415, 422, 500} and _IMAGES.search(failure.message) is not None
    )


def _has_finish_reason(chunk: Chunk) -> bool:
    choices = chunk.get("choices")
    return isinstance(choices, list) and any(isinstance(c, Mapping) and c.get("finish_reason") for c in choices)


def _json(data: bytes) -> object:
    """Decode JSON that others wrote; None when it is none."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        pass
    try:
        return json.loads(data)  # takes half characters too, which the assembler joins or replaces
    except ValueError:
        return None


async def _read_all(first: bytes, rest: AsyncIterator[bytes]) -> bytes:
    body = bytearray(first)
    async for piece in rest:
        body += piece
        if len(body) > PLAIN_BODY_BYTES_MAX:
            break  # cut off, it will not decode
    return bytes(body)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
