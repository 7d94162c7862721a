"""Make one reply of the chunks of a streamed answer, whatever dialect the server speaks.

Servers leave out `index`, count it from 1 or send 0 for all calls, omit ids, repeat names, invent a new id for each
fragment, send arguments as objects, and finish with `stop` although there are calls (K31). A reply is complete only
with a finish reason (K29), and arguments stay exactly as the model wrote them: whoever runs them judges them (K28).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.errors import FailureKind, ModelFailure
from agent.provider.base import Chunk
from memory.text import join_surrogates


@dataclass(frozen=True)
class ToolCall:
    id: str  # never empty, unique in the reply
    name: str  # "" when the model gave none
    arguments: str  # as the model wrote it: perhaps not JSON


@dataclass(frozen=True)
class Usage:
    """Tokens as the service counts them; 0 when it does not say. `cached_tokens` are part of `input_tokens`."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """A complete answer. Calls are to be run whatever the finish reason is called."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage = Usage()
    reasoning: str | None = None  # what the model thought aloud, where the service shows it


def new_call_id() -> str:
    return f"call_{secrets.token_hex(6)}"


@dataclass
class _Call:
    """A tool call while its fragments come in."""

    index: int | None
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)

    def is_complete(self) -> bool:
        """True when the arguments are a whole JSON value: nothing can be added that leaves them one."""
        try:
            json.loads("".join(self.arguments))
        except ValueError:
            return False
        return True


@dataclass(frozen=True)
class _Fragment:
    """One entry of a `tool_calls` delta, with what is missing made plain."""

    index: int | None
    id: str
    name: str
    arguments: str

    @classmethod
    def read(cls, raw: Mapping[str, object]) -> _Fragment:
        function = raw.get("function")
        if not isinstance(function, Mapping):
            function = {}
        index, arguments = raw.get("index"), function.get("arguments")
        if isinstance(arguments, Mapping | list):
            arguments = json.dumps(arguments, ensure_ascii=False)
        return cls(
            index=index if isinstance(index, int) else None,
            id=_text(raw.get("id")),
            name=_text(function.get("name")),
            arguments=_text(arguments),
        )


class ReplyAssembler:
    """Feed it every chunk, then `finish()`.

    `new_id` makes ids for calls that came without; `taken` tells which ids the conversation has already used, since
    strict services refuse a repeated one.
    """

    def __init__(
        self, *, new_id: Callable[[], str] = new_call_id, taken: Callable[[str], bool] = lambda _id: False
    ) -> None:
        self._new_id = new_id
        self._taken = taken
        self._text: list[str] = []
        self._half_character = ""  # a high surrogate whose other half may come with the next chunk
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._finish_reason = ""
        self._usage = Usage()

    @property
    def partial_text(self) -> str:
        """The text that came so far, whole characters only."""
        return "".join(self._text)

    def feed(self, chunk: Chunk) -> str:
        """Take in one chunk and return the text that it adds to the screen, perhaps none."""
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            self._usage = _usage(usage)  # where every chunk has one it counts up: the last is the whole
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            return ""
        self._finish_reason = _text(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        self._reasoning.append(_text(delta.get("reasoning_content")) or _text(delta.get("reasoning")))
        self._take_calls(delta.get("tool_calls"))
        return self._take_text(_content(delta.get("content")) + _text(delta.get("refusal")))

    def finish(self) -> Reply:
        """Return the whole reply.

        Raises:
            ModelFailure: the stream ended before the answer did, or the answer was cut within a tool call.
        """
        self._flush_half_character()
        if not self._finish_reason:
            raise ModelFailure(
                FailureKind.STREAM_BROKEN,
                "The answer broke off: the service ended it without saying so.",
                retryable=True,
            )
        if self._finish_reason == "error":
            raise ModelFailure(FailureKind.STREAM_BROKEN, "The service broke off its answer.", retryable=True)
        if self._finish_reason == "length" and not all(call.is_complete() for call in self._calls):
            raise ModelFailure(
                FailureKind.STREAM_BROKEN,
                "The answer reached the model's length limit in the middle of a tool call; ask for smaller steps.",
            )
        return Reply(
            text=self.partial_text,
            tool_calls=tuple(self._whole_calls()),
            finish_reason=self._finish_reason,
            usage=self._usage,
            reasoning=join_surrogates("".join(self._reasoning)) or None,
        )

    # -- text

    def _take_text(self, fragment: str) -> str:
        text = self._half_character + fragment
        self._half_character = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half_character = text[:-1], text[-1]
        text = join_surrogates(text)
        if text:
            self._text.append(text)
        return text

    def _flush_half_character(self) -> None:
        if self._half_character:
            self._text.append(join_surrogates(self._half_character))
            self._half_character = ""

    # -- tool calls

    def _take_calls(self, raw_fragments: object) -> None:
        if not isinstance(raw_fragments, list):
            return
        fragments = [_Fragment.read(raw) for raw in raw_fragments if isinstance(raw, Mapping)]
        for position, fragment in enumerate(fragments):
            call = self._owner(fragment, places_from_end=len(fragments) - position)
            if call is None:
                call = _Call(fragment.index, fragment.id, fragment.name)
                self._calls.append(call)
            call.id = call.id or fragment.id
            call.name = call.name or fragment.name
            call.arguments.append(fragment.arguments)

    def _owner(self, fragment: _Fragment, places_from_end: int) -> _Call | None:
        """Find the call that a fragment continues; None when it begins a new one."""
        if fragment.index is not None:
            same_index = [call for call in self._calls if call.index == fragment.index]
            if same_index:
                return self._among(same_index, fragment)
        elif fragment.id or fragment.name:
            return self._among(self._calls, fragment, repeated_name_continues=True)
        if fragment.id or fragment.name or not self._calls:
            return None
        # Neither name nor id, and an index that tells nothing: the entries of one delta belong to the latest calls,
        # in order.
        return self._calls[-min(places_from_end, len(self._calls))]

    @staticmethod
    def _among(calls: list[_Call], fragment: _Fragment, *, repeated_name_continues: bool = False) -> _Call | None:
        """Choose between calls that the index cannot tell apart."""
        if not calls:
            return None
        same_id = [call for call in calls if fragment.id and call.id == fragment.id]
        call = same_id[-1] if same_id else calls[-1]
        if not fragment.name:
            return call  # even with an unknown id: some servers invent one for each fragment, but none omits a name
        if not same_id and fragment.id and call.id:
            return None  # a name with an id of its own begins a call
        if call.is_complete() and (fragment.arguments or repeated_name_continues):
            return None  # nothing can follow whole arguments, so this is the next call under the same id or index
        if repeated_name_continues and not same_id and fragment.name != call.name:
            return None
        return call

    def _whole_calls(self) -> Iterator[ToolCall]:
        used: set[str] = set()
        for call in self._calls:
            call_id = join_surrogates(call.id)
            while not call_id or call_id in used or self._taken(call_id):
                call_id = self._new_id()
            used.add(call_id)
            yield ToolCall(call_id, join_surrogates(call.name), join_surrogates("".join(call.arguments)))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _content(value: object) -> str:
    """The text of a delta's content: a string, or a list of parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, Mapping))
    return _text(value)


def _usage(raw: Mapping[str, object]) -> Usage:
    def count(source: Mapping[str, object], name: str) -> int:
        value = source.get(name)
        return value if isinstance(value, int) else 0

    details = raw.get("prompt_tokens_details")
    return Usage(
        input_tokens=count(raw, "prompt_tokens"),
        cached_tokens=count(details, "cached_tokens") if isinstance(details, Mapping) else 0,
        output_tokens=count(raw, "completion_tokens"),
    )
