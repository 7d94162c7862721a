"""Every kind of ill-formed request is refused with its reason, and only those."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import httpx
import pytest

from tests.conftest import NewServer
from tests.kit.json_object import JsonObject
from tests.kit.strict import problem_of

TOOL = {"type": "function", "function": {"name": "Bash", "description": "d", "parameters": {"type": "object"}}}


def a_call(ident: str, arguments: object = "{}", name: str = "Bash") -> JsonObject:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def second_call(messages: list[JsonObject], call: JsonObject) -> None:
    """Put another call in the place of the second one."""
    messages[2]["tool_calls"][1] = call


def well_formed() -> JsonObject:
    """A request with two calls and their results."""
    return {
        "model": "scripted",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [copy.deepcopy(TOOL)],
        "messages": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": None, "tool_calls": [a_call("a"), a_call("b", '{"x": [1, "é"]}')]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": "two"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "more"},
        ],
    }


Spoil = Callable[[JsonObject, list[JsonObject]], object]  # changes the body, whose messages it gets too

SPOILED: list[tuple[str, str, Spoil]] = [
    ("model missing", "model is missing", lambda body, _: body.pop("model")),
    ("messages empty", "messages is empty", lambda body, _: body.update(messages=[])),
    ("unknown parameter", "unknown parameters ['session_id']", lambda body, _: body.update(session_id="s")),
    ("stream options alone", "stream_options without stream", lambda body, _: body.pop("stream")),
    ("no tool in tools", "tools is not a list", lambda body, _: body.update(tools=[])),
    ("choice alone", "['tool_choice'] without tools", lambda b, _: (b.pop("tools"), b.update(tool_choice="auto"))),
    ("tool twice", "'Bash' is defined twice", lambda body, _: body["tools"].append(TOOL)),
    ("tool without schema", "'Bash' has no parameters", lambda b, _: b["tools"][0]["function"].pop("parameters")),
    ("tool name", "a tool has the name 'a b'", lambda b, _: b["tools"][0]["function"].update(name="a b")),
    ("message no object", "messages[6] is not an object", lambda body, _: body["messages"].__setitem__(6, "hi")),
    ("unknown role", "the unknown role 'robot'", lambda _, m: m[6].update(role="robot")),
    ("unknown key", "unknown keys ['metadata']", lambda _, m: m[6].update(metadata={})),
    ("late system message", "does not stand at the beginning", lambda _, m: m[6].update(role="system")),
    ("user content null", "messages[6] (user) has no content", lambda _, m: m[6].update(content=None)),
    ("user content blank", "messages[6] (user) is empty", lambda _, m: m[6].update(content=" \n")),
    ("user content number", "has a int as content", lambda _, m: m[6].update(content=7)),
    ("part without type", "ill-formed part", lambda _, m: m[1].update(content=[{"text": "go"}])),
    ("assistant empty", "messages[5] (assistant) is empty", lambda _, m: m[5].update(content="")),
    ("assistant null", "messages[5] (assistant) has no content", lambda _, m: m[5].update(content=None)),
    ("assistant last", "is of role assistant", lambda _, m: m.pop()),
    ("empty list of calls", "tool_calls that are no list", lambda _, m: m[5].update(tool_calls=[])),
    ("tool content null", "messages[4] (tool) has no content", lambda _, m: m[4].update(content=None)),
    ("tool content blank", "messages[4] (tool) is empty", lambda _, m: m[4].update(content="")),
    ("result missing", "expected 'a'", lambda _, m: m.pop(3)),
    ("last result missing", "stands before the result of call ['b']", lambda _, m: m.pop(4)),
    ("result at the end missing", "leaves call ['b'] without a result", lambda _, m: m.__delitem__(slice(4, None))),
    ("results in another order", "answers 'b', expected 'a'", lambda _, m: m.insert(3, m.pop(4))),
    ("result twice", "messages[5] (tool) answers no call", lambda _, m: m.insert(4, copy.deepcopy(m[4]))),
    ("result not right behind", "before the result of call ['a']", lambda _, m: m.insert(3, m.pop())),
    ("result of no call", "answers 'c'", lambda _, m: m[3].update(tool_call_id="c")),
    ("call id twice", "repeats the call id 'a'", lambda _, m: m[2]["tool_calls"][1].update(id="a")),
    ("call id missing", "a call with the id None", lambda _, m: m[2]["tool_calls"][1].pop("id")),
    ("call id with a blank", "a call with the id 'a b'", lambda _, m: m[2]["tool_calls"][1].update(id="a b")),
    ("index of a chunk", "unknown keys ['index']", lambda _, m: m[2]["tool_calls"][1].update(index=1)),
    ("call name", "a call of the name ''", lambda _, m: second_call(m, a_call("b", name=""))),
    ("arguments object", "that are no string", lambda _, m: second_call(m, a_call("b", {}))),
    ("arguments array", "not an object but a list", lambda _, m: second_call(m, a_call("b", "[]"))),
    ("arguments empty", "not JSON", lambda _, m: second_call(m, a_call("b", ""))),
    ("arguments torn", "not JSON", lambda _, m: second_call(m, a_call("b", '{"x": '))),
    ("arguments NaN", "NaN", lambda _, m: second_call(m, a_call("b", '{"x": NaN}'))),
    ("arguments surrogate", "lone surrogate", lambda _, m: second_call(m, a_call("b", '{"x": "\\ud83d"}'))),
]  # fmt: skip


def test_a_well_formed_request_has_no_problem() -> None:
    assert problem_of(well_formed()) is None


@pytest.mark.parametrize(("reason", "spoil"), [pytest.param(reason, spoil, id=name) for name, reason, spoil in SPOILED])
def test_an_ill_formed_request_is_refused_with_the_reason(reason: str, spoil: Spoil) -> None:
    body = well_formed()
    spoil(body, body["messages"])
    assert reason in str(problem_of(body))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"[]", "not an object but a list"),
        (b'{"model": "\xff"}', "not UTF-8"),
        (b'{"model": "\\ud83d"}', "lone surrogate"),
        (b'{"model": "m", "temperature": NaN}', "NaN"),
        (json.dumps({"model": "m"}).encode(), "messages is empty"),
    ],
)
def test_the_server_answers_400_and_remembers_why(server: NewServer, raw: bytes, reason: str) -> None:
    model = server([], refuses=True)
    answer = httpx.post(f"{model.url}/chat/completions", content=raw)
    assert (answer.status_code, reason in answer.json()["error"]["message"]) == (400, True)
    assert [reason in problem for problem in model.invalid] == [True]
    assert [request.raw for request in model.side_requests] == [raw]
