"""The scripted model answers like a real one: streams, odd dialects, faults; and finds its place in the script."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import httpx
import pytest

from tests.conftest import NewServer
from tests.kit.json_object import JsonObject, parse_object
from tests.kit.model_server import ModelServer
from tests.kit.request import Request
from tests.kit.script import Call, Dialect, Reply, Usage, bash, call, fault, say, with_dialect

TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object"}}}
    for name in ("Bash", "Read")
]


def body_of(*texts: str, **more: object) -> JsonObject:
    """A request whose messages are by turns of the user and of the assistant."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"model": "scripted", "messages": messages, "tools": TOOLS, **more}


def post(model: ModelServer, *texts: str, **more: object) -> httpx.Response:
    return httpx.post(f"{model.url}/chat/completions", json=body_of(*texts, **more), timeout=10)


def answer(model: ModelServer, *texts: str) -> str:
    return str(post(model, *texts).json()["choices"][0]["message"]["content"])


def events(response: httpx.Response) -> list[JsonObject]:
    """The data of each server-sent event but the end mark."""
    data = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert data.pop() == "[DONE]"
    return [parse_object(text) for text in data]


def fragments(model: ModelServer) -> list[JsonObject]:
    """The fragments of tool calls in a streamed answer."""
    deltas = [event["choices"][0]["delta"] for event in events(post(model, "go", stream=True))]
    return [fragment for delta in deltas for fragment in delta.get("tool_calls", [])]


# -- the script


def test_the_last_marker_picks_the_list_and_the_answers_after_it_pick_the_step(server: NewServer) -> None:
    model = server({"PLAN-A": [say("a0"), say("a1")], "PLAN-B": [say("b0")]})
    got = [
        answer(model, "PLAN-A"),
        answer(model, "PLAN-A", "a0", "go on"),
        answer(model, "PLAN-A", "a0", "PLAN-B after PLAN-A"),
        answer(model, "PLAN-B PLAN-A"),
        answer(model, "PLAN-B", "b0", "more"),
        answer(model, "nothing"),
    ]
    assert got == ["a0", "a1", "a0", "a0", "done", "done"]


def test_a_list_gives_one_step_for_each_request(server: NewServer) -> None:
    model = server([say("first"), lambda request: say(f"second of {request.texts('user')}")])
    assert [answer(model, "x"), answer(model, "y"), answer(model, "z")] == ["first", "second of ['y']", "done"]


def test_a_function_gets_number_and_request(server: NewServer) -> None:
    model = server(lambda number, request: say(f"{number} {request.tool_names}"))
    assert [answer(model, "x"), answer(model, "x")] == ["0 ['Bash', 'Read']", "1 ['Bash', 'Read']"]


def test_an_error_in_a_function_of_the_script_is_kept_for_the_test(server: NewServer) -> None:
    def broken(_number: int, _request: Request) -> Reply:
        raise LookupError("a fault of the test")

    model = server(broken)
    post(model, "x")
    assert [str(error) for error in model.script_errors] == ["a fault of the test"]
    model.script_errors.clear()


def test_a_request_without_tools_is_kept_apart(server: NewServer) -> None:
    model = server([say("of the loop")], side=say("a summary"))
    texts = [answer(model, "loop")]
    body = {"model": "scripted", "messages": [{"role": "user", "content": "sum up"}]}
    texts.append(httpx.post(f"{model.url}/chat/completions", json=body).json()["choices"][0]["message"]["content"])
    assert texts == ["of the loop", "a summary"]
    assert ([r.texts() for r in model.requests], [r.texts() for r in model.side_requests]) == ([["loop"]], [["sum up"]])


# -- what is kept of requests


def test_a_request_is_kept_with_bytes_headers_and_history(server: NewServer) -> None:
    model = server([])
    messages = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "Read", "arguments": '{"n": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "the result"},
    ]
    raw = json.dumps({"model": "m", "messages": messages, "tools": TOOLS}).encode()
    httpx.post(f"{model.url}/chat/completions", content=raw, headers={"Authorization": "Bearer k"})
    (request,) = model.requests
    assert (request.raw, request.headers["authorization"], request.messages) == (raw, "Bearer k", messages)
    assert ([c.arguments for c in request.calls()], request.results()) == (['{"n": 1}'], {"a": "the result"})
    assert (request.result_of("Read"), request.result_of('"n"')) == ("the result", "the result")
    assert (request.has("res", "tool"), request.has("res", "user"), model.last("go")) == (True, False, request)


def test_a_test_can_wait_for_a_request(server: NewServer) -> None:
    model = server([])
    sender = threading.Thread(target=post, args=(model, "the one"))
    sender.start()
    assert model.wait_for(lambda request: request.has("the one")).number == 0
    sender.join()
    with pytest.raises(AssertionError, match="no such request among 1"):
        model.wait_for(lambda request: request.has("another"), timeout_s=0.01)


def test_above_the_limit_of_the_context_a_request_is_refused(server: NewServer) -> None:
    model = server([], limit_tokens=1000)
    assert post(model, "short").status_code == 200
    error = post(model, "long " * 1000).json()["error"]
    assert (error["code"], "maximum context length is 1000 tokens" in error["message"]) == (
        "context_length_exceeded",
        True,
    )


# -- the stream


def test_a_stream_carries_text_and_calls_in_pieces_and_usage_when_asked(server: NewServer) -> None:
    reply = Reply("héllo!", (Call("Bash", {"n": 1}, "c1"),), usage=Usage(7, 3, 2), reasoning="hm", pieces=2)
    response = post(server([reply]), "go", stream=True, stream_options={"include_usage": True})
    *answers, last = events(response)
    deltas = [event["choices"][0]["delta"] for event in answers]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "h"},
        {"reasoning_content": "m"},
        {"content": "hél"},
        {"content": "lo!"},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "Bash", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"n"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        {},
    ]
    assert [event["choices"][0]["finish_reason"] for event in answers] == [None] * 8 + ["tool_calls"]
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 10)
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}


def test_without_being_asked_a_stream_carries_no_usage(server: NewServer) -> None:
    assert all(event["choices"] for event in events(post(server([say("x")]), "go", stream=True)))


def test_an_answer_that_is_not_streamed_has_the_same_content(server: NewServer) -> None:
    choice = post(server([Reply("text", (Call("Bash", {"n": 1}, "c1"),))]), "go").json()["choices"][0]
    called = {"id": "c1", "type": "function", "function": {"name": "Bash", "arguments": '{"n": 1}'}}
    message = {"role": "assistant", "content": "text", "tool_calls": [called]}
    assert choice == {"index": 0, "message": message, "finish_reason": "tool_calls"}


TWO = Reply(calls=(Call("Bash", {"n": 1}, "c1"), Call("Read", {}, "c2")), pieces=1)


def head(name: str, ident: str | None, arguments: object = "", **place: object) -> JsonObject:
    identity = {} if ident is None else {"id": ident}
    return {**place, **identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def part(arguments: str, **place: object) -> JsonObject:
    return {**place, "function": {"arguments": arguments}}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (Dialect.NO_INDEX, [head("Bash", "c1"), part('{"n": 1}'), head("Read", "c2"), part("{}")]),
        (
            Dialect.INDEX_FROM_ONE,
            [
                head("Bash", "c1", index=1),
                part('{"n": 1}', index=1),
                head("Read", "c2", index=2),
                part("{}", index=2),
            ],
        ),
        (
            Dialect.SAME_INDEX,
            [
                head("Bash", "c1", index=0),
                part('{"n": 1}', index=0),
                head("Read", "c2", index=0),
                part("{}", index=0),
            ],
        ),
        (
            Dialect.NO_ID,
            [
                head("Bash", None, index=0),
                part('{"n": 1}', index=0),
                head("Read", None, index=1),
                part("{}", index=1),
            ],
        ),
        (
            Dialect.NAME_REPEATED,
            [
                head("Bash", "c1", index=0),
                {"index": 0, "id": "c1", "function": {"name": "Bash", "arguments": '{"n": 1}'}},
                head("Read", "c2", index=1),
                {"index": 1, "id": "c2", "function": {"name": "Read", "arguments": "{}"}},
            ],
        ),
        (
            Dialect.ARGUMENTS_AS_OBJECT,
            [head("Bash", "c1", {"n": 1}, index=0), head("Read", "c2", {}, index=1)],
        ),
    ],
)
def test_each_dialect_streams_calls_in_its_way(server: NewServer, dialect: Dialect, expected: list[JsonObject]) -> None:
    assert fragments(server([with_dialect(TWO, dialect)])) == expected


def test_a_dialect_can_finish_with_stop_although_there_are_calls(server: NewServer) -> None:
    last = events(post(server([with_dialect(TWO, Dialect.FINISH_STOP)]), "go", stream=True))[-1]
    assert last["choices"][0]["finish_reason"] == "stop"


def test_calls_without_an_id_of_their_own_never_get_the_same_one_twice(server: NewServer) -> None:
    model = server(lambda _number, _request: call("Bash", {}))
    idents = {fragment["id"] for _ in range(5) for fragment in fragments(model) if "id" in fragment}
    assert len(idents) == 5


# -- faults


def test_a_fault_is_an_http_error_with_headers(server: NewServer) -> None:
    response = post(server([fault(429, "slow down", code="rate_limit", retry_after="2")]), "go")
    error = {"message": "slow down", "type": "server_error", "code": "rate_limit"}
    assert (response.status_code, response.headers["retry-after"], response.json()) == (429, "2", {"error": error})


def test_an_answer_can_be_cut_in_the_middle(server: NewServer) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(server([replace(say("a long text"), cut_after_chunks=2)]), "go", stream=True)


def test_an_answer_can_end_in_order_but_unfinished(server: NewServer) -> None:
    text = post(server([replace(say("abc"), end_after_chunks=2)]), "go", stream=True).text
    assert (text.count("data: "), '"content": "a"' in text, "[DONE]" in text) == (2, True, False)


def test_an_answer_can_fall_silent_until_the_server_is_closed(server: NewServer) -> None:
    model = server([replace(say("abc"), hang_after_chunks=3)])
    with httpx.stream("POST", f"{model.url}/chat/completions", json=body_of("go", stream=True), timeout=10) as response:
        chunks = response.iter_text()
        got = [next(chunks) for _ in range(3)]
        model.close()
        with pytest.raises(httpx.RemoteProtocolError):
            next(chunks)
    assert ['"content": "b"' in text for text in got] == [False, False, True]


def test_raw_bytes_go_out_as_they_are(server: NewServer) -> None:
    assert post(server([Reply(raw=b"data: <html>\n\n")]), "go", stream=True).content == b"data: <html>\n\n"


def test_a_closed_server_refuses_connections(server: NewServer) -> None:
    model = server([bash("true")])
    model.close()
    with pytest.raises(httpx.ConnectError):
        post(model, "go")


def test_it_lists_its_model_and_knows_no_other_path(server: NewServer) -> None:
    model = server([])
    assert [entry["id"] for entry in httpx.get(f"{model.url}/models").json()["data"]] == ["scripted"]
    assert httpx.post(f"{model.url}/completions", json={}).status_code == 404
