"""What the strictest provider of Chat Completions refuses, each rule with the reason that the answer gives.

Not one provider has all of these rules, but each rule has a provider: a request that passes here is taken by all.
"""

from __future__ import annotations

import base64
import re

from tests.kit.json_object import JsonObject, parse_object
from tests.kit.request import text_of

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,([A-Za-z0-9+/=]+)")
CALL_ID = re.compile(r"[!-~]{1,64}")
BODY_KEYS = (
    {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options"}
    | {"temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed"}
    | {"reasoning_effort", "user"}
)
MESSAGE_KEYS = {
    "system": frozenset({"role", "content"}),
    "developer": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_calls", "reasoning_content"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}


class IllFormed(Exception):
    """The request breaks a rule; the message says which, and where."""


def problem_of(body: JsonObject) -> str | None:
    """Why this body is refused, or None."""
    try:
        _check_body(body)
        _check_tools(body)
        _check_messages(body["messages"])
    except IllFormed as problem:
        return str(problem)
    return None


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise IllFormed(problem)


def _object(value: object, problem: str) -> JsonObject:
    """The value as an object, or the problem that it is none."""
    if not isinstance(value, dict):
        raise IllFormed(problem)
    return value


def _name(value: object, problem: str) -> str:
    """The value as the name of a tool, or the problem that it cannot be one."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise IllFormed(f"{problem} {value!r}")
    return value


def _check_body(body: JsonObject) -> None:
    unknown = sorted(set(body) - BODY_KEYS)
    _require(not unknown, f"unknown parameters {unknown}")
    _require(isinstance(body.get("model"), str) and bool(body["model"]), "model is missing")
    _require(isinstance(body.get("messages"), list) and bool(body["messages"]), "messages is empty")
    _require("stream_options" not in body or body.get("stream") is True, "stream_options without stream")


def _check_tools(body: JsonObject) -> None:
    if "tools" not in body:
        lonely = [key for key in ("tool_choice", "parallel_tool_calls") if key in body]
        _require(not lonely, f"{lonely} without tools")
        return
    tools = body["tools"]
    _require(isinstance(tools, list) and bool(tools), "tools is not a list with at least one tool")
    names = [_tool_name(tool) for tool in tools]
    for name in names:
        _require(names.count(name) == 1, f"tool {name!r} is defined twice")


def _tool_name(tool: object) -> str:
    tool = _object(tool, "a tool is not an object")
    _require(tool.get("type") == "function", "a tool is not of type function")
    function = _object(tool.get("function"), "a tool has no function")
    name = _name(function.get("name"), "a tool has the name")
    _require(isinstance(function.get("description"), str), f"tool {name!r} has no description")
    parameters = _object(function.get("parameters"), f"tool {name!r} has no parameters")
    _require(parameters.get("type") == "object", f"parameters of tool {name!r} are not the schema of an object")
    return name


def _check_messages(messages: list[object]) -> None:
    seen: set[str] = set()  # ids of all calls so far
    waiting: list[str] = []  # ids of the calls that the next tool messages must answer, in order
    role = ""
    for i, value in enumerate(messages):
        where = f"messages[{i}]"
        message = _object(value, f"{where} is not an object")
        role = str(message.get("role"))
        _require(role in MESSAGE_KEYS, f"{where} has the unknown role {role!r}")
        where = f"{where} ({role})"
        unknown = sorted(set(message) - MESSAGE_KEYS[role])
        _require(not unknown, f"{where} has unknown keys {unknown}")
        _check_content(message, where)
        if role == "tool":
            _require(bool(waiting), f"{where} answers no call of the message before")
            expected, got = waiting.pop(0), message.get("tool_call_id")
            _require(got == expected, f"{where} answers {got!r}, expected {expected!r}")
            continue
        _require(not waiting, f"{where} stands before the result of call {waiting[:1]}")
        _require(role not in ("system", "developer") or i == 0, f"{where} does not stand at the beginning")
        if role == "assistant":
            waiting = _call_ids(message, where, seen)
    _require(not waiting, f"the last message leaves call {waiting[:1]} without a result")
    _require(role in ("user", "tool"), f"the last message is of role {role}: nothing to answer")


def _check_content(message: JsonObject, where: str) -> None:
    content = message.get("content")
    if content is None:
        _require(message["role"] == "assistant" and bool(message.get("tool_calls")), f"{where} has no content")
        return
    _require(isinstance(content, str | list), f"{where} has a {type(content).__name__} as content")
    if isinstance(content, list):
        well_formed = [isinstance(part, dict) and isinstance(part.get("type"), str) for part in content]
        _require(all(well_formed), f"{where} has an ill-formed part of content")
        for part in content:
            _check_part(part, message["role"], where)
    if not message.get("tool_calls"):
        _require(bool(text_of(message).strip()), f"{where} is empty")


def _check_part(part: JsonObject, role: object, where: str) -> None:
    kind = part["type"]
    _require(kind in ("text", "image_url"), f"{where} has a part of the type {kind!r}")
    if kind == "text":
        _require(isinstance(part.get("text"), str), f"{where} has a text part without text")
        return
    _require(role == "user", f"{where} has an image, which only user messages may have")
    url = str(_object(part.get("image_url"), f"{where} has an image part without image_url").get("url"))
    found = IMAGE.fullmatch(url)
    _require(found is not None, f"{where} has an image that is no data address of a known kind: {url[:40]}")
    try:
        base64.b64decode(found[2] if found else "", validate=True)
    except ValueError as error:
        raise IllFormed(f"{where} has an image that is no base64: {error}") from error


def _call_ids(message: JsonObject, where: str, seen: set[str]) -> list[str]:
    """Check the calls of an assistant message and return their ids in order."""
    if "tool_calls" not in message:
        return []
    calls = message["tool_calls"]
    _require(isinstance(calls, list) and bool(calls), f"{where} has tool_calls that are no list with a call")
    ids = []
    for call in calls:
        call = _object(call, f"{where} has a call that is not an object")
        _require(call.get("type") == "function", f"{where} has a call that is not of type function")
        unknown = sorted(set(call) - {"id", "type", "function"})  # `index` belongs to the chunks of an answer
        _require(not unknown, f"{where} has a call with unknown keys {unknown}")
        ident = call.get("id")
        if not isinstance(ident, str) or not CALL_ID.fullmatch(ident):
            raise IllFormed(f"{where} has a call with the id {ident!r}")
        _require(ident not in seen, f"{where} repeats the call id {ident!r}")
        seen.add(ident)
        ids.append(ident)
        _check_function(_object(call.get("function"), f"{where} has a call without a function"), where)
    return ids


def _check_function(function: JsonObject, where: str) -> None:
    name, arguments = _name(function.get("name"), f"{where} has a call of the name"), function.get("arguments")
    if not isinstance(arguments, str):
        raise IllFormed(f"{where} has arguments of {name} that are no string")
    try:
        parse_object(arguments)
    except ValueError as error:
        raise IllFormed(f"{where} has arguments of {name}: {error}") from error
