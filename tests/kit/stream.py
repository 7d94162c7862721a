"""A scripted reply in the form of the wire: one JSON answer, or the chunks of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.kit.json_object import JsonObject
from tests.kit.request import Request
from tests.kit.script import Dialect, Reply, Usage

DONE_EVENT = b"data: [DONE]\n\n"
CREATED = 1_700_000_000  # a fixed time: answers to equal requests are equal


def usage_of(reply: Reply, request: Request) -> JsonObject:
    """The usage object of an answer."""
    usage = reply.usage or Usage(input_tokens=len(request.raw) // 4, output_tokens=10)
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def whole_answer(reply: Reply, request: Request, ident: str) -> JsonObject:
    """The answer to a request that asked for no stream."""
    message: JsonObject = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"{ident}_{i}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_text()},
            }
            for i, call in enumerate(reply.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {**_head(request, ident, "chat.completion"), "choices": [choice], "usage": usage_of(reply, request)}


def chunks(reply: Reply, request: Request, ident: str) -> Iterator[bytes]:
    """The server-sent events of an answer up to its finish_reason: what faults of a stream count."""
    head = _head(request, ident, "chat.completion.chunk")
    for delta in _deltas(reply, ident):
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]})


def closing(reply: Reply, request: Request, ident: str) -> Iterator[bytes]:
    """What follows the finish_reason: the usage when it was asked for, and the end mark."""
    options = request.body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        head = _head(request, ident, "chat.completion.chunk")
        yield _event({**head, "choices": [], "usage": usage_of(reply, request)})
    yield DONE_EVENT


def _head(request: Request, ident: str, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{ident}", "object": kind, "created": CREATED, "model": request.body.get("model")}


def _event(data: JsonObject) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _finish(reply: Reply) -> str:
    if reply.finish is not None:
        return reply.finish
    return "tool_calls" if reply.calls and Dialect.FINISH_STOP not in reply.dialect else "stop"


def _deltas(reply: Reply, ident: str) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": ""}
    for piece in _pieces(reply.reasoning, reply.pieces):
        yield {"reasoning_content": piece}
    for piece in _pieces(reply.text, reply.pieces):
        yield {"content": piece}
    for position in range(len(reply.calls)):
        for fragment in _fragments(reply, position, ident):
            yield {"tool_calls": [fragment]}


def _fragments(reply: Reply, position: int, ident: str) -> Iterator[JsonObject]:
    """The fragments of one call: its head with empty arguments, then the arguments in pieces."""
    call, dialect = reply.calls[position], reply.dialect
    place: JsonObject = {} if Dialect.NO_INDEX in dialect else {"index": _index(position, dialect)}
    identity: JsonObject = {} if Dialect.NO_ID in dialect else {"id": call.id or f"{ident}_{position}"}
    if Dialect.ARGUMENTS_AS_OBJECT in dialect:
        arguments = json.loads(call.arguments_text())
        yield {**place, **identity, "type": "function", "function": {"name": call.name, "arguments": arguments}}
        return
    yield {**place, **identity, "type": "function", "function": {"name": call.name, "arguments": ""}}
    repeats = Dialect.NAME_REPEATED in dialect
    for piece in _pieces(call.arguments_text(), reply.pieces):
        name: JsonObject = {"name": call.name} if repeats else {}
        yield {**place, **(identity if repeats else {}), "function": {**name, "arguments": piece}}


def _index(position: int, dialect: frozenset[Dialect]) -> int:
    if Dialect.SAME_INDEX in dialect:
        return 0
    return position + 1 if Dialect.INDEX_FROM_ONE in dialect else position


def _pieces(text: str, count: int) -> list[str]:
    """The text in at most `count` parts of about equal length."""
    length = max(1, -(-len(text) // max(1, count)))
    return [text[start : start + length] for start in range(0, len(text), length)]
