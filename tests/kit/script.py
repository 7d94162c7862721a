"""What the scripted model says, and how a request finds its reply.

A script is one of
    {marker: [step, ...]}   the marker that stands last in the user messages picks the list, the number of assistant
                            messages after it the step: such a script needs no memory, goes on rightly after a crash,
                            and scripts a subagent by the marker in its prompt
    [step, ...]             one step for each request
    function(n, request)    called for the n-th request, from 0
where a step is a Reply or a function of the request that returns one. Where the script has nothing more, the model says
"done".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tests.kit.request import Request, text_of


class Dialect(StrEnum):
    """Odd ways in which real servers stream tool calls."""

    NO_INDEX = "no_index"  # fragments carry no index
    INDEX_FROM_ONE = "index_from_one"
    SAME_INDEX = "same_index"  # every call has index 0, a new id begins a new call
    NO_ID = "no_id"  # calls have no id
    NAME_REPEATED = "name_repeated"  # every fragment repeats id and name
    FINISH_STOP = "finish_stop"  # finish_reason "stop" although there are calls
    ARGUMENTS_AS_OBJECT = "arguments_as_object"  # arguments as a JSON object instead of a string


@dataclass(frozen=True)
class Call:
    """One tool call. Arguments given as a string are sent as they are; without `id` the server makes one."""

    name: str
    arguments: Mapping[str, object] | str
    id: str | None = None

    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Usage:
    """What an answer is said to have cost, in tokens."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """One scripted answer: text and tool calls, or a fault. Faults of the stream count in chunks of the answer."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""  # streamed before the text, as `reasoning_content`
    usage: Usage | None = None  # None: a quarter of the request's bytes in, 10 out
    finish: str | None = None  # None: "tool_calls" or "stop", whichever fits
    pieces: int = 3  # fragments of a text, and of the arguments of a call
    dialect: frozenset[Dialect] = frozenset()

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None  # with another status than 200
    raw: bytes | None = None  # server-sent events as they are, instead of everything above
    stall_s: float = 0.0  # silence before the first byte
    pause_s: float = 0.0  # silence after each chunk
    hang_after_chunks: int | None = None  # then silence until the server is closed
    cut_after_chunks: int | None = None  # then the connection is closed, the answer unfinished
    end_after_chunks: int | None = None  # then the answer ends in order, but without finish_reason and [DONE]


Step = Reply | Callable[[Request], Reply]
Script = Mapping[str, Sequence[Step]] | Sequence[Step] | Callable[[int, Request], Reply]

DONE = Reply("done")


def say(text: str) -> Reply:
    """An answer of text alone."""
    return Reply(text)


def call(name: str, arguments: Mapping[str, object] | str, text: str = "") -> Reply:
    """An answer with one tool call. Several calls: `Reply(calls=(Call(...), Call(...)))`."""
    return Reply(text, calls=(Call(name, arguments),))


def bash(command: str, **more: object) -> Reply:
    """An answer that runs a command; `more` are further arguments of Bash."""
    return call("Bash", {"command": command, "description": "a scripted step", **more})


def fault(status: int, message: str = "scripted fault", code: str = "error", **headers: str) -> Reply:
    """An HTTP error with the usual error object; `headers` with `_` for `-` (`retry_after="1"`)."""
    body = json.dumps({"error": {"message": message, "type": "server_error", "code": code}}).encode()
    return Reply(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def with_dialect(reply: Reply, *dialect: Dialect) -> Reply:
    """The same answer, streamed in an odd way."""
    return replace(reply, dialect=frozenset(dialect))


def pick(script: Script, request: Request) -> Reply:
    """The reply that the script has for this request."""
    if callable(script):
        return script(request.number, request)
    if isinstance(script, Mapping):
        steps, index = _place(script, request)
    else:
        steps, index = script, request.number
    step = steps[index] if index < len(steps) else DONE
    return step if isinstance(step, Reply) else step(request)


def _place(script: Mapping[str, Sequence[Step]], request: Request) -> tuple[Sequence[Step], int]:
    """The list of the marker that stands last, and how many assistant messages came after it."""
    found = [
        (i, text_of(message).rfind(marker), marker)
        for i, message in enumerate(request.messages)
        if message.get("role") == "user"
        for marker in script
        if marker in text_of(message)
    ]
    if not found:
        return (), 0
    place, _, marker = max(found)
    answers = sum(message.get("role") == "assistant" for message in request.messages[place + 1 :])
    return script[marker], answers
