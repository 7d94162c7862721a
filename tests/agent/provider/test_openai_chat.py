from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from pathlib import Path

import pytest

from agent.errors import FailureKind, ModelFailure
from agent.provider.assembly import Reply, ReplyAssembler, ToolCall, Usage
from agent.provider.base import ChatMessage, ModelRequest
from agent.provider.openai_chat import OpenAIChatProvider
from agent.provider.transport import HttpxTransport, SdkTransport, Transport
from tests.agent.provider.raw_server import Answer, RawServer, Then, data, page, stream

KEY = "sk-secret-0123456789"
TOOL = {"type": "function", "function": {"name": "Read", "parameters": {"type": "object", "properties": {}}}}
REQUEST = ModelRequest("m", [ChatMessage(role="user", content="hi 你")], [])
CHECKOUT = Path(__file__).parents[3]


def delta(content: Mapping[str, object], finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


STOP = delta({}, "stop")
USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
DONE = b"data: [DONE]\n\n"
GOOD = stream(data(delta({"content": "Hel"}), delta({"content": "lo"}), STOP, USAGE), DONE)
HELLO = Reply("Hello", (), "stop", Usage(5, 0, 2))


class Chosen:
    """The transport that the tests run with."""

    transport: Callable[[str, float], Transport] = HttpxTransport


@pytest.fixture(autouse=True, params=[HttpxTransport, SdkTransport])
def each_transport(request: pytest.FixtureRequest) -> None:
    Chosen.transport = request.param


def provider_of(
    address: str, key: str | None = KEY, *, idle_s: float = 20.0, chunk_s: float = 20.0, tail_s: float = 20.0
) -> OpenAIChatProvider:
    return OpenAIChatProvider(
        address, key, "m", transport=Chosen.transport, idle_s=idle_s, chunk_s=chunk_s, tail_s=tail_s
    )


async def ask(provider: OpenAIChatProvider, request: ModelRequest = REQUEST) -> Reply:
    assembler = ReplyAssembler(new_id=lambda: "made")
    async with aclosing(provider.stream(request)) as chunks:
        async for chunk in chunks:
            assembler.feed(chunk)
    return assembler.finish()


def exchange(
    *answers: Answer,
    key: str | None = KEY,
    request: ModelRequest = REQUEST,
    times: int = 1,
    idle_s: float = 20.0,
    chunk_s: float = 20.0,
    tail_s: float = 20.0,
) -> tuple[list[Reply | ModelFailure], RawServer]:
    """Ask a server that gives these answers; failures are results too."""

    async def run() -> tuple[list[Reply | ModelFailure], RawServer]:
        results: list[Reply | ModelFailure] = []
        async with RawServer(*answers) as server:
            provider = provider_of(server.base_url, key, idle_s=idle_s, chunk_s=chunk_s, tail_s=tail_s)
            for _ in range(times):
                try:
                    results.append(await ask(provider, request))
                except ModelFailure as failure:
                    results.append(failure)
            await provider.close()
        return results, server

    return asyncio.run(asyncio.wait_for(run(), 60))


def reply_to(*answers: Answer) -> Reply:
    (result,), _ = exchange(*answers)
    assert isinstance(result, Reply), result
    return result


def failure_of(*answers: Answer, idle_s: float = 20.0, chunk_s: float = 20.0) -> ModelFailure:
    (result,), _ = exchange(*answers, idle_s=idle_s, chunk_s=chunk_s)
    assert isinstance(result, ModelFailure), result
    assert KEY not in result.message
    assert "\n" not in result.message
    return result


# -- the request


def test_the_request_is_a_streamed_chat_completion_with_the_key() -> None:
    request = ModelRequest("m", [ChatMessage(role="user", content="hi 你")], [TOOL], max_output_tokens=9)
    results, server = exchange(GOOD, request=request)
    (sent,) = server.requests
    assert results == [HELLO]
    assert sent.line == "POST /v1/chat/completions HTTP/1.1"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["content-type"] == "application/json"
    assert sent.body == {
        "model": "m",
        "messages": [ChatMessage(role="user", content="hi 你")],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [TOOL],
        "max_tokens": 9,
    }


def test_without_tools_and_limit_neither_is_sent() -> None:
    _, server = exchange(GOOD)
    assert set(server.requests[0].body) == {"model", "messages", "stream", "stream_options"}


def test_without_a_key_none_is_sent() -> None:
    results, server = exchange(GOOD, key=None)
    assert results == [HELLO]
    assert "authorization" not in server.requests[0].headers


def test_what_the_sdk_finds_in_the_environment_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK reads these itself: they are no argument that a test could hand in."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "ambient")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: ambient\nauthorization: Bearer ambient")
    results, server = exchange(GOOD, key=None)
    assert results == [HELLO]
    assert "ambient" not in json.dumps(server.requests)


PICTURED = [
    ChatMessage(role="user", content="hi"),
    ChatMessage(
        role="user",
        content=[
            {"type": "text", "text": "[Images: a.png]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        ],
    ),
]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "scripted-7b is not a multimodal model"),
        (400, "messages[1]: unknown variant `image_url`, expected `text`"),
        (400, "image exceeds 5 MB maximum"),
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (413, "Request Entity Too Large"),
    ],
)
def test_a_service_that_refuses_images_is_asked_without_them_from_then_on(status: int, words: str) -> None:
    refusal = page(status, {"error": {"message": words}})
    results, server = exchange(refusal, GOOD, GOOD, request=ModelRequest("m", PICTURED, []), times=2)
    assert results == [HELLO, HELLO]
    plain = "[Images: a.png]\n[Left out: the service did not take it.]"
    bodies = [sent.body["messages"] for sent in server.requests]
    without = [PICTURED[0], {"role": "user", "content": plain}]
    assert bodies == [PICTURED, without, without]


def pictured(name: str) -> ChatMessage:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name}=="}}
    return ChatMessage(role="user", content=[{"type": "text", "text": name}, part])


def shown_in(body: Mapping[str, object]) -> list[str]:
    """The names of the images that a request holds."""
    messages = body["messages"]
    assert isinstance(messages, list)
    return [message["content"][0]["text"] for message in messages if isinstance(message["content"], list)]


def test_the_newest_image_is_left_out_first_and_all_when_that_does_not_help() -> None:
    refusal = page(400, {"error": {"message": "Could not process image"}})
    request = ModelRequest("m", [pictured(name) for name in ("a", "b", "c")], [])
    results, server = exchange(refusal, GOOD, GOOD, request=request, times=2)
    assert results == [HELLO] * 2
    assert [shown_in(sent.body) for sent in server.requests] == [["a", "b", "c"], ["a", "b"], ["a", "b"]]
    results, server = exchange(refusal, refusal, GOOD, GOOD, request=request, times=2)
    assert results == [HELLO] * 2
    assert [shown_in(sent.body) for sent in server.requests] == [["a", "b", "c"], ["a", "b"], [], []]


def test_a_refusal_that_speaks_of_images_is_told_where_none_were_sent() -> None:
    (result,), server = exchange(page(400, {"error": {"message": "no image model of this name"}}))
    assert isinstance(result, ModelFailure) and len(server.requests) == 1


def test_a_server_that_does_not_know_stream_options_is_asked_without_them_from_then_on() -> None:
    refusal = page(400, {"error": {"message": "Unrecognized request argument: stream_options"}})
    results, server = exchange(refusal, GOOD, times=2)
    assert results == [HELLO, HELLO]
    assert ["stream_options" in sent.body for sent in server.requests] == [True, False, False]


def test_a_model_that_wants_the_other_name_of_the_limit_gets_it() -> None:
    words = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    request = ModelRequest("m", REQUEST.messages, [], max_output_tokens=9)
    results, server = exchange(page(400, {"error": {"message": words}}), GOOD, request=request)
    assert results == [HELLO]
    assert (server.requests[1].body.get("max_tokens"), server.requests[1].body["max_completion_tokens"]) == (None, 9)


def test_a_refusal_that_cannot_be_met_is_not_asked_again() -> None:
    _, server = exchange(page(400, {"error": {"message": "Unknown argument stream_options"}}))
    assert len(server.requests) == 2


def test_the_name_tells_model_and_host() -> None:
    assert OpenAIChatProvider("https://api.test:8443/v1/", KEY, "gpt-x").name == "gpt-x @ api.test:8443"


# -- good answers in odd shapes


@pytest.mark.parametrize(
    "answer",
    [
        stream(b"retry: 3000\n\n", data(delta({"content": "Hello"}), STOP, USAGE), DONE),
        stream(*(b"id: 1\n" + data(c) + b": ping\n\n" for c in (delta({"content": "Hello"}), STOP, USAGE))),
        stream(b"data:\n\n", data(delta({"content": "Hello"})), b"data: \n\n", data(STOP, USAGE), DONE),
        stream(*[b": keep-alive\n\n"] * 20, data(delta({"content": "Hello"}), STOP, USAGE)),
        stream(data(delta({"content": "Hello"}), STOP, USAGE).replace(b"\n", b"\r\n"), DONE),
        stream(data(delta({"content": "Hello"}), STOP, USAGE).rstrip(b"\n")),
        stream(data(delta({"content": "Hello"}), STOP, USAGE), DONE, content_type=b"text/plain"),
        stream(*(bytes([byte]) for byte in data(delta({"content": "Hello"}), STOP, USAGE) + DONE)),
        page(200, gzip.compress(data(delta({"content": "Hello"}), STOP, USAGE) + DONE), content_encoding="gzip"),
    ],
    ids=["retry first", "ids and pings", "empty data", "comments", "crlf", "no end", "text/plain", "bytes", "gzip"],
)  # fmt: skip
def test_control_events_and_other_shapes_of_a_stream_change_nothing(answer: Answer) -> None:
    """K30."""
    assert reply_to(answer) == HELLO


def test_a_call_comes_through_in_fragments() -> None:
    first = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "Read", "arguments": '{"file_'}}]}
    second = {"tool_calls": [{"index": 0, "function": {"arguments": 'path": "a"}'}}]}
    answer = stream(data(delta(first), delta(second), delta({}, "tool_calls")), DONE)
    assert reply_to(answer) == Reply("", (ToolCall("c1", "Read", '{"file_path": "a"}'),), "tool_calls")


def test_half_a_character_in_a_chunk_is_joined_with_the_other_half() -> None:
    """K05 (b)."""
    assert reply_to(stream(data(delta({"content": "\ud83d"}), delta({"content": "\ude00"}), STOP), DONE)).text == "😀"


def test_a_server_that_does_not_stream_is_understood() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Hello", "tool_calls": [call]}
    completion = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE["usage"]}
    assert reply_to(page(200, completion)) == Reply("Hello", (ToolCall("c1", "Read", "{}"),), "stop", Usage(5, 0, 2))


@pytest.mark.parametrize("last", [STOP, USAGE], ids=["without usage", "with usage"])
def test_a_break_after_the_finish_reason_loses_nothing(last: dict[str, object]) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n"
    answer = Answer((head, data(delta({"content": "Hello"}), STOP, last)))
    assert reply_to(answer).text == "Hello"


def test_after_done_nothing_is_waited_for() -> None:
    """A server that keeps the line open; without the rule this would last as long as the limit for chunks."""
    answer = stream(data(delta({"content": "Hello"}), STOP, USAGE), DONE, then=Then.HANG)
    assert reply_to(answer) == HELLO


def test_a_whole_answer_does_not_wait_for_ever_for_its_usage() -> None:
    """A server that sends neither usage nor [DONE] and keeps the line open."""
    results, _ = exchange(stream(data(delta({"content": "Hello"}), STOP), then=Then.HANG), tail_s=0.2)
    assert results == [Reply("Hello", (), "stop")]


# -- answers that do not come to their end (K29)


@pytest.mark.parametrize(
    "answer",
    [
        stream(data(delta({"content": "half"}))),
        stream(data(delta({"content": "half"})), DONE),
        stream(b'data: {"choices":[{"delta":{"conte'),
        stream(),
        stream(b": ping\n\n"),
        stream(DONE),
        Answer((b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n", data(delta({"content": "half"})))),
        Answer((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"5\r\ndata:")),
        Answer(()),
        Answer((b"HTTP/1.1 200 OK\r\n",)),
        stream(b"data: not json\n\n", data(STOP)),
        stream(b"data: [1]\n\n", data(STOP)),
        stream(b"data: <html>\n\n"),
        page(200, b"no gzip at all", content_encoding="gzip"),
    ],
    ids=[
        "clean end",
        "done without a reason",
        "half a chunk",
        "empty body",
        "only a comment",
        "only done",
        "cut below its length",
        "cut in a piece",
        "closed before the first byte",
        "closed in the headers",
        "no json",
        "no object",
        "html as data",
        "no gzip",
    ],
)
def test_an_answer_that_breaks_off_is_broken_and_may_be_asked_again(answer: Answer) -> None:
    failure = failure_of(answer)
    assert (failure.kind, failure.retryable) == (FailureKind.STREAM_BROKEN, True)


# -- failures


@pytest.mark.parametrize(
    ("answer", "kind", "retryable"),
    [
        (page(401, {"error": {"message": f"Incorrect key {KEY}"}}), FailureKind.AUTHENTICATION, False),
        (page(404, {"error": {"code": "model_not_found"}}), FailureKind.MODEL_NOT_FOUND, False),
        (page(404, b"<html>nginx</html>", content_type="text/html"), FailureKind.ADDRESS, False),
        (page(404, b""), FailureKind.ADDRESS, False),
        (page(500, {"error": {"message": "oops"}}), FailureKind.OVERLOADED, True),
        (page(503, b"no json {"), FailureKind.OVERLOADED, True),
        (page(400, {"error": {"code": "context_length_exceeded"}}), FailureKind.CONTEXT_TOO_LONG, False),
        (page(400, {"error": {"message": "bad tool"}}), FailureKind.BAD_REQUEST, False),
        (page(200, b"<!doctype html><html></html>", content_type="text/html"), FailureKind.ADDRESS, False),
        (page(200, b"\n <html>", content_type="text/event-stream"), FailureKind.ADDRESS, False),
        (page(200, {"hello": "world"}), FailureKind.ADDRESS, False),
        (page(200, {"error": {"message": "Overloaded", "type": "overloaded_error"}}), FailureKind.OVERLOADED, True),
        (stream(data({"error": {"message": "boom"}})), FailureKind.STREAM_BROKEN, True),
        (stream(data(delta({"content": "x"}), {"error": {"code": 429}})), FailureKind.RATE_LIMITED, True),
        (stream(b'event: error\ndata: {"message": "Overloaded"}\n\n'), FailureKind.OVERLOADED, True),
        (Answer((b"SSH-2.0-OpenSSH\r\n",)), FailureKind.STREAM_BROKEN, True),
    ],
)  # fmt: skip
def test_what_a_server_answers_wrongly_has_a_kind(answer: Answer, kind: FailureKind, retryable: bool) -> None:
    failure = failure_of(answer)
    assert (failure.kind, failure.retryable) == (kind, retryable)


def test_a_rate_limit_tells_how_long_to_wait() -> None:
    failure = failure_of(page(429, {"error": {"message": "slow down"}}, retry_after="7"))
    assert (failure.kind, failure.retryable, failure.retry_after_s, failure.status) == (
        FailureKind.RATE_LIMITED,
        True,
        7.0,
        429,
    )


def test_the_page_of_a_proxy_is_not_quoted() -> None:
    failure = failure_of(page(502, b"<html><b>Bad gateway</b></html>", content_type="text/html"))
    assert "<" not in failure.message


@pytest.mark.parametrize("pieces", [(), (b"HTTP/1.1 200 OK\r\n\r\n",), (b"HTTP/1.1 200 OK\r\n\r\n", b": ping\n\n")])
def test_a_silent_server_times_out(pieces: tuple[bytes, ...]) -> None:
    failure = failure_of(Answer(pieces, Then.HANG), idle_s=0.3)
    assert (failure.kind, failure.retryable) == (FailureKind.TIMEOUT, True)
    assert "sent nothing for 0.3 s" in failure.message


def test_keep_alives_alone_are_no_answer_for_ever() -> None:
    failure = failure_of(stream(b": ping\n\n", then=Then.HANG), chunk_s=0.3)
    assert (failure.kind, failure.retryable) == (FailureKind.TIMEOUT, True)
    assert "no answer for 0.3 s" in failure.message


def ask_once(base_url: str) -> ModelFailure:
    async def run() -> ModelFailure:
        with pytest.raises(ModelFailure) as caught:
            await ask(provider_of(base_url))
        return caught.value

    return asyncio.run(run())


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    async def free_port() -> str:
        async with RawServer(GOOD) as server:
            return server.base_url

    failure = ask_once(asyncio.run(free_port()))
    assert (failure.kind, failure.retryable) == (FailureKind.UNREACHABLE, True)
    assert "OPENAI_BASE_URL" in failure.message


def test_an_unknown_host_is_unreachable() -> None:
    failure = ask_once("http://an..impossible.name/v1")  # refused by the resolver itself, without any network
    assert (failure.kind, failure.retryable) == (FailureKind.UNREACHABLE, True)
    assert "its name is unknown" in failure.message


def test_a_name_that_cannot_be_one_is_a_wrong_address() -> None:
    failure = ask_once("http://xn--0.test/v1")
    assert (failure.kind, failure.retryable) == (FailureKind.ADDRESS, False)


def test_tls_with_a_server_that_speaks_none_is_a_wrong_address() -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def run() -> ModelFailure:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ModelFailure) as caught:
                await ask(provider_of(f"https://127.0.0.1:{port}/v1"))
            return caught.value

    failure = asyncio.run(run())
    assert (failure.kind, failure.retryable) == (FailureKind.ADDRESS, False)


def test_a_wrong_proxy_setting_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:1")
    failure = ask_once("http://127.0.0.1:9/v1")
    assert failure.kind is FailureKind.ADDRESS
    assert "proxy" in failure.message


# -- ending a request


async def first_chunk_then(
    server: RawServer, end: Callable[[OpenAIChatProvider, asyncio.Event], Coroutine[object, object, None]]
) -> Reply:
    """Begin a hanging answer, end it in some way, see that the server noticed, and use the same client again."""
    provider = provider_of(server.base_url)
    await end(provider, server.client_left)
    await asyncio.wait_for(server.client_left.wait(), 10)
    reply = await ask(provider)
    await provider.close()
    return reply


HANGS = stream(data(delta({"content": "x"})), then=Then.HANG)


def in_loop(work: Callable[[RawServer], Awaitable[Reply]], *answers: Answer) -> Reply:
    async def run() -> Reply:
        async with RawServer(*answers) as server:
            return await work(server)

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_closing_the_iterator_ends_the_request() -> None:
    async def end(provider: OpenAIChatProvider, _left: asyncio.Event) -> None:
        async with aclosing(provider.stream(REQUEST)) as chunks:
            assert await anext(chunks) == delta({"content": "x"})

    assert in_loop(lambda server: first_chunk_then(server, end), HANGS, GOOD) == HELLO


@pytest.mark.parametrize("answer", [HANGS, Answer((), Then.HANG)], ids=["in the answer", "before it"])
def test_cancelling_the_task_ends_the_request(answer: Answer) -> None:
    async def work(server: RawServer) -> Reply:
        async def end(provider: OpenAIChatProvider, _left: asyncio.Event) -> None:
            task = asyncio.create_task(ask(provider))
            await server.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        return await first_chunk_then(server, end)

    assert in_loop(work, answer, GOOD) == HELLO


# -- preparing


def test_preparing_in_many_threads_builds_one_client() -> None:
    made: list[Transport] = []

    def transport(address: str, idle_s: float) -> Transport:
        made.append(HttpxTransport(address, idle_s))
        return made[-1]

    provider = OpenAIChatProvider("http://127.0.0.1:9/v1", KEY, "m", transport=transport)
    threads = [threading.Thread(target=provider.prepare) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_neither_importing_nor_constructing_a_provider_imports_the_sdk() -> None:
    code = (
        "import sys\n"
        "from agent.config import Flags, load_settings\n"
        "from agent.provider.choose import make_provider\n"
        "settings = load_settings(Flags(model='m', base_url='http://127.0.0.1:9/v1'), {'HOME': '/nowhere'})\n"
        "make_provider(settings)\n"
        "print(sorted(set(sys.modules) & {'openai', 'httpx', 'pydantic', 'rich', 'typer'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
