"""Resuming again and again changes nothing: K01, K09 and K10 at the transcript itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.events import MessagePayload, ToolCall
from memory.state import ResumeState
from tests.crash.kit import Ours
from tests.memory.memory_kit import Fact, answers, facts_of, in_run, life, says, user

RESUMES = 10
CALLS = ("a", "b", "c")


def parallel_calls() -> list[Fact]:
    """One answer of the model with three calls, each of which comes to its end, and what is said then."""
    asked = MessagePayload("assistant", "three at once", tuple(ToolCall(call, "Bash", "{}") for call in CALLS))
    lives = [fact for call in CALLS for fact in [*life(call, "requested", "started", "completed"), answers(call)]]
    return in_run("run-1", 1, user("go"), asked, *lives, says("all done"))


def owed(state: ResumeState) -> list[str]:
    """Calls without a result, after checking that every result stands right behind its message, in call order."""
    open_calls: list[str] = []
    for message in state.history_messages:
        if message.role == "tool":
            assert message.tool_call_id == open_calls.pop(0)
        else:
            assert open_calls == []
            open_calls = [call.id for call in message.tool_calls]
    return open_calls


@pytest.mark.parametrize("written", range(1, len(parallel_calls()) + 1))
def test_calls_cut_short_anywhere_are_answered_once_and_never_twice(
    quick: Path, written: int, battery: Callable[[str], None]
) -> None:
    """K01: calls without a result made every later request invalid. K09: what was started is uncertain, on each resume.

    A later user message stands for the orphan in the middle: results come right behind their calls all the same.
    """
    store = Ours(quick)
    facts = parallel_calls()[:written]
    writer = store.open()
    for fact in facts:
        writer.record(fact)
    writer.close()
    first = store.load()
    assert owed(first) == [missing.call.id for missing in first.missing_results]
    statuses = [getattr(payload, "status", "") for _run, _step, payload in facts]
    started, ended = statuses.count("started"), statuses.count("completed")
    assert len(first.uncertain_actions) == started - ended
    assert len(first.pending_tool_calls) == len(first.missing_results) - (started - answered(facts))
    for _ in range(RESUMES):
        assert store.opened_by_agent() == []
        assert facts_of(store.load()) | moved(first) == facts_of(first)
    writer = store.open()
    writer.record(("run-2", 0, user("later")))
    writer.close()
    assert owed(store.load()) == []
    if written == len(parallel_calls()):
        battery(f"resumed {RESUMES} times: {written} places where parallel calls were cut short")


def answered(facts: list[Fact]) -> int:
    return sum(isinstance(payload, MessagePayload) and payload.role == "tool" for _run, _step, payload in facts)


def moved(first: ResumeState) -> dict[str, object]:
    """What every opening changes of a state: the number of its last record, and who opened it."""
    return {"last_seq": first.last_seq, "opened": first.opened}


def test_resuming_without_a_word_adds_small_records_and_no_message(quick: Path) -> None:
    """K10: each resume stored the results once more, and requests grew."""
    store = Ours(quick)
    writer = store.open()
    for fact in itertools.chain.from_iterable(itertools.repeat(parallel_calls(), 5)):
        writer.record(fact)
    writer.close()
    before, size = store.load().history_messages, store.path.stat().st_size
    for _ in range(RESUMES):
        store.opened_by_agent()
    assert store.load().history_messages == before
    assert store.path.stat().st_size - size < RESUMES * 400
