"""One answer: asked again while nothing was shown, and cleaned whatever the borders of its chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import FailureKind, ModelFailure
from agent.model_turn import ATTEMPTS_MAX, ModelTurn, Retry
from agent.provider.assembly import Reply
from agent.provider.base import Chunk, ModelRequest
from memory.text import SECRET_REMOVED, TextCleaner

REQUEST = ModelRequest("m", [], [])
KEY = "sk-live-0123456789"
BUSY = ModelFailure(FailureKind.OVERLOADED, "busy", retryable=True)

Part = str | ModelFailure | Chunk


def chunk(text: str, finish: str | None = None) -> Chunk:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


def call_chunk(call_id: str, name: str, arguments: str) -> Chunk:
    call = {"index": 0, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}


@dataclass
class Model:
    """Answers each request with the next list of parts: text, a failure, or a whole chunk."""

    answers: Sequence[Sequence[Part]]
    asked: int = 0
    closed: int = 0
    name: str = "m"
    kind: str = "m"

    async def stream(self, _request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        parts = self.answers[self.asked]
        self.asked += 1
        try:
            for part in parts:
                if isinstance(part, ModelFailure):
                    raise part
                yield chunk(part) if isinstance(part, str) else part
        finally:
            self.closed += 1

    async def close(self) -> None: ...

    def prepare(self) -> None: ...


@dataclass
class Asked:
    """What came of one question."""

    outcome: Reply | ModelFailure | None = None
    shown: list[str] = field(default_factory=list)
    retries: list[Retry] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


def ask(model: Model, *, secrets: Sequence[str] = (), taken: Sequence[str] = ()) -> Asked:
    asked = Asked()

    async def wait(seconds: float) -> None:
        asked.waits.append(seconds)

    turn = ModelTurn(model, TextCleaner(secrets), sleep=wait, jitter=lambda: 1.0)
    try:
        asked.outcome = asyncio.run(
            turn.ask(REQUEST, on_text=asked.shown.append, on_retry=asked.retries.append, taken=taken.__contains__)
        )
    except ModelFailure as failure:
        asked.outcome = failure
    return asked


END = chunk("", "stop")


def test_the_text_is_shown_piece_by_piece_and_comes_back_whole() -> None:
    asked = ask(Model([["Hel", "lo", END]]))
    assert (asked.shown, asked.outcome) == (["Hel", "lo"], Reply("Hello", (), "stop"))


def test_a_failure_before_anything_was_shown_is_asked_again_with_growing_waits() -> None:
    model = Model([[BUSY], [chunk(""), BUSY], [BUSY], ["fine", END]])
    asked = ask(model)
    assert isinstance(asked.outcome, Reply)
    assert (asked.outcome.text, asked.waits) == ("fine", [0.5, 1.0, 2.0])
    assert asked.retries == [Retry(1, 0.5, "busy"), Retry(2, 1.0, "busy"), Retry(3, 2.0, "busy")]
    assert model.closed == model.asked == 4


def test_there_is_an_end_to_asking_again() -> None:
    model = Model([[BUSY]] * 10)
    assert (ask(model).outcome, model.asked) == (BUSY, ATTEMPTS_MAX)


@pytest.mark.parametrize(
    "failure",
    [
        ModelFailure(FailureKind.AUTHENTICATION, "no key"),
        ModelFailure(FailureKind.CONTEXT_TOO_LONG, "too long"),
        ModelFailure(FailureKind.RATE_LIMITED, "tomorrow", retryable=True, retry_after_s=3600),
    ],
)
def test_what_cannot_help_soon_is_told_at_once(failure: ModelFailure) -> None:
    model = Model([[failure], ["fine", END]])
    asked = ask(model)
    assert (asked.outcome, asked.waits, model.asked) == (failure, [], 1)


def test_the_wait_that_the_service_asks_for_is_kept() -> None:
    asked = ask(Model([[ModelFailure(FailureKind.RATE_LIMITED, "soon", retryable=True, retry_after_s=7)], ["x", END]]))
    assert asked.waits == [7]


def test_an_answer_that_was_shown_in_part_is_never_asked_for_again() -> None:
    """K29: the user would see two beginnings, and pay for both."""
    model = Model([["Hel", BUSY], ["Hello", END]])
    asked = ask(model)
    assert (asked.outcome, asked.shown, model.asked) == (BUSY, ["Hel"], 1)


def test_an_answer_that_ends_without_a_finish_reason_is_no_answer() -> None:
    broken = ask(Model([["Hel"]])).outcome
    assert isinstance(broken, ModelFailure) and broken.kind is FailureKind.STREAM_BROKEN
    retried = ask(Model([[], ["fine", END]]))
    assert isinstance(retried.outcome, Reply) and retried.outcome.text == "fine"


def test_a_call_id_that_was_used_before_gets_another() -> None:
    outcome = ask(Model([[call_chunk("c1", "Read", "{}")]]), taken=["c1"]).outcome
    assert isinstance(outcome, Reply)
    (call,) = outcome.tool_calls
    assert (call.id != "c1", call.name, call.arguments) == (True, "Read", "{}")


def test_the_key_is_removed_from_names_and_arguments_of_calls() -> None:
    outcome = ask(Model([[call_chunk("c1", f"x{KEY}", f'{{"command": "echo {KEY}"}}')]]), secrets=[KEY]).outcome
    assert isinstance(outcome, Reply)
    (call,) = outcome.tool_calls
    assert (call.name, call.arguments) == (f"x{SECRET_REMOVED}", f'{{"command": "echo {SECRET_REMOVED}"}}')


@given(before=st.text(max_size=8), after=st.text(max_size=8), cuts=st.lists(st.integers(0, 40), max_size=6))
def test_a_key_is_removed_whatever_the_chunks_that_it_comes_in(before: str, after: str, cuts: list[int]) -> None:
    text = before + KEY + after
    places = sorted({cut for cut in cuts if cut < len(text)} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    asked = ask(Model([[*pieces, END]]), secrets=[KEY])
    assert isinstance(asked.outcome, Reply)
    assert asked.outcome.text == TextCleaner([KEY]).clean(text) == "".join(asked.shown)
    assert KEY not in "".join(asked.shown)


def test_half_a_character_waits_for_its_other_half() -> None:
    """K05: an emoji cut between two chunks."""
    asked = ask(Model([["a\ud83d", "\ude00b", END]]))
    assert isinstance(asked.outcome, Reply)
    assert ("".join(asked.shown), asked.outcome.text) == ("a😀b", "a😀b")
    lonely = ask(Model([["a\ud83d", "b", END]]))
    assert isinstance(lonely.outcome, Reply)
    assert (lonely.shown, lonely.outcome.text) == (["a", "\ufffdb"], "a\ufffdb")


def test_an_interruption_closes_the_stream() -> None:
    begun = asyncio.Event()

    class Hanging(Model):
        async def stream(self, _request: ModelRequest) -> AsyncGenerator[Chunk, None]:
            try:
                yield chunk("Hel")
                begun.set()
                await asyncio.Event().wait()
            finally:
                self.closed += 1

    model = Hanging([])
    shown: list[str] = []

    async def play() -> None:
        turn = ModelTurn(model, TextCleaner(), jitter=lambda: 1.0)
        task = asyncio.create_task(turn.ask(REQUEST, on_text=shown.append, on_retry=lambda _retry: None))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert (shown, model.closed) == (["Hel"], 1)
