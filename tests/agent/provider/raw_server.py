"""A loopback server that sends exact bytes, whatever was asked, and remembers the requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from enum import Enum
from types import TracebackType
from typing import NamedTuple


class Then(Enum):
    """What follows the bytes of an answer."""

    CLOSE = "close"
    HANG = "hang"  # send nothing more, wait until the client goes


class Answer(NamedTuple):
    pieces: tuple[bytes, ...]
    then: Then = Then.CLOSE


class Request(NamedTuple):
    line: str
    headers: dict[str, str]
    body: dict[str, object]


def stream(*pieces: bytes, then: Then = Then.CLOSE, content_type: bytes = b"text/event-stream") -> Answer:
    """A response without a length: its end is the end of the connection."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: " + content_type + b"\r\nconnection: close\r\n\r\n"
    return Answer((head, *pieces), then)


def page(status: int, body: bytes | Mapping[str, object], **headers: str) -> Answer:
    """A whole response with a length. Header names are written with _ for -."""
    if isinstance(body, Mapping):
        body, headers = json.dumps(body).encode(), {"content_type": "application/json", **headers}
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Answer(("\r\n".join(lines).encode() + b"\r\n\r\n", body))


def data(*chunks: object) -> bytes:
    """Chunks as server-sent events."""
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


class RawServer:
    """`answers` are given in order, the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []
        self.asked = asyncio.Event()  # a request is there
        self.client_left = asyncio.Event()  # a hanging answer saw the client go

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._receive(reader)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            for piece in answer.pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)  # so that pieces arrive as such, as far as the kernel lets them
            if answer.then is Then.HANG:
                await reader.read()  # end of file: the client has closed its side
                self.client_left.set()
        except ConnectionError:
            self.client_left.set()
        finally:
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append(Request(head[0], headers, json.loads(body)))
        self.asked.set()
