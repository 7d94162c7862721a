"""What becomes of calls when the user interrupts, the transcript cannot be written, or nobody reads any more."""

from __future__ import annotations

import asyncio

import pytest

from agent.events import OutputClosed
from agent.permissions import Answer, Mode, PermissionGate
from agent.tool_runner import (
    NO_READER,
    NO_TRANSCRIPT,
    NOT_RUN,
    STOPPED,
    Emit,
)
from memory.errors import TranscriptUnavailable
from memory.events import ToolCall
from tests.agent.tool_kit import Desk, Effect, Look, a_call
from tools.base import Action, ErrorCode, Plan, ToolResult
from tools.verdict import Json

# -- interruption


def interrupted(desk: Desk, *calls: ToolCall, when: asyncio.Event, times: int = 1) -> Desk:
    """Run the calls and cancel when the event comes, several times in a row if asked; it must end as cancelled."""

    async def play() -> None:
        task = asyncio.create_task(desk.run(*calls))
        await when.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    return desk


def test_an_interrupted_question_leaves_nothing_run() -> None:
    asked = asyncio.Event()

    class Waiting:
        async def ask(self, _question: object) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            return Answer.ALLOWED

    tool = Effect()
    desk = interrupted(Desk([tool], PermissionGate(Mode.ASK, Waiting())), a_call("c1"), a_call("c2"), when=asked)
    assert desk.story()[2:] == [("c1", "failed", "NOT_RUN"), ("c2", "failed", "NOT_RUN")]
    assert (desk.messages, tool.acted) == ([("c1", NOT_RUN), ("c2", NOT_RUN)], [])


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_effect_that_has_started_is_waited_for_however_often_the_user_interrupts(times: int) -> None:
    begun = asyncio.Event()

    async def slow(action: Action) -> ToolResult:
        begun.set()
        await action.stop.wait()
        for _ in range(10):
            await asyncio.sleep(0)  # ending takes its time, in which further interruptions come
        return ToolResult("ended early", ErrorCode.INTERRUPTED, exit_code=130)

    tool = Effect(slow)
    desk = interrupted(Desk([tool]), a_call("c1"), a_call("c2"), when=begun, times=times)
    assert desk.story()[2:] == [("c1", "started", None), ("c1", "failed", "INTERRUPTED"), ("c2", "failed", "NOT_RUN")]
    assert desk.messages == [("c1", "ended early"), ("c2", NOT_RUN)]
    assert len(tool.acted) == 1


def test_an_effect_that_ends_well_after_the_interruption_is_completed_and_the_rest_is_not_run() -> None:
    begun = asyncio.Event()

    async def slow(action: Action) -> ToolResult:
        begun.set()
        await action.stop.wait()
        return ToolResult("written")

    desk = interrupted(Desk([Effect(slow)]), a_call("c1"), a_call("c2"), when=begun)
    assert desk.story()[2:] == [("c1", "started", None), ("c1", "completed", None), ("c2", "failed", "NOT_RUN")]
    assert desk.messages == [("c1", "written"), ("c2", NOT_RUN)]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_interrupted_reads_are_stopped_and_each_call_is_answered_once(times: int) -> None:
    begun = asyncio.Event()

    async def act(action: Action) -> ToolResult:
        if action.tool_call_id == "c2":
            return ToolResult("was quick")
        begun.set()
        await asyncio.Event().wait()
        return ToolResult("never")

    calls = [a_call("c1", "Look"), a_call("c2", "Look"), a_call("c3", "Look"), a_call("c4")]
    desk = interrupted(Desk([Look(act), Effect()]), *calls, when=begun, times=times)
    assert sorted(one for one in desk.story() if one[1] in ("completed", "failed")) == [
        ("c1", "failed", "INTERRUPTED"),
        ("c2", "completed", None),
        ("c3", "failed", "INTERRUPTED"),
        ("c4", "failed", "NOT_RUN"),
    ]
    assert desk.messages == [("c1", STOPPED), ("c2", "was quick"), ("c3", STOPPED), ("c4", NOT_RUN)]


def test_an_interrupted_plan_or_intent_is_a_call_that_did_not_run() -> None:
    begun = asyncio.Event()

    class Slow(Effect):
        async def intent(self, plan: Plan, action: Action) -> dict[str, Json]:
            del plan, action
            begun.set()
            await asyncio.Event().wait()
            return {}

    desk = interrupted(Desk([Slow()]), a_call(), when=begun)
    assert desk.story() == [("c1", "requested", None), ("c1", "failed", "NOT_RUN")]


# -- a transcript that cannot be written, a reader that went away


@pytest.mark.parametrize("fails_at", range(1, 13))
def test_a_transcript_that_fails_at_any_word_stops_the_run_and_still_answers_every_call_once(fails_at: int) -> None:
    tool = Effect()
    desk = Desk([tool, Look()], fails_at=fails_at)
    with pytest.raises(TranscriptUnavailable):
        asyncio.run(desk.run(a_call("c1", "Look"), a_call("c2"), a_call("c3")))
    outcomes = [(call, status) for call, status, _ in desk.story() if status in ("completed", "failed")]
    assert [call for call, _ in outcomes] == [call for call, _ in desk.messages] == ["c1", "c2", "c3"]
    assert [call for call, status, _ in desk.story() if status == "requested"] == ["c1", "c2", "c3"]
    started = [call for call, status, _ in desk.story() if status == "started"]
    told = dict(desk.messages)
    for call, status in outcomes:  # what was not done is never told as done, nor the other way round
        assert (told[call] == "did it") == (status == "completed") == (told[call] != NO_TRANSCRIPT)
    assert len(tool.acted) == sum(told[call] == "did it" for call in ("c2", "c3"))
    assert len(tool.acted) <= len(started)


def test_a_start_that_cannot_be_recorded_means_that_the_tool_is_never_touched() -> None:
    tool = Effect()
    desk = Desk([tool], fails_at=2)
    with pytest.raises(TranscriptUnavailable):
        asyncio.run(desk.run(a_call()))
    assert desk.story() == [
        ("c1", "requested", None),
        ("c1", "started", None),
        ("c1", "failed", "TRANSCRIPT_UNAVAILABLE"),
    ]
    assert (tool.acted, desk.messages) == ([], [("c1", NO_TRANSCRIPT)])


def test_a_reader_that_went_away_ends_the_run_and_is_not_called_a_broken_transcript() -> None:
    tool = Effect()
    desk = Desk([tool], fails_at=1, failure=OutputClosed())
    with pytest.raises(OutputClosed):
        asyncio.run(desk.run(a_call()))
    assert desk.story() == [("c1", "requested", None), ("c1", "failed", "NOT_RUN")]
    assert (tool.acted, desk.messages) == ([], [("c1", NO_READER)])


def test_refused_calls_get_their_outcome_and_message_without_being_looked_at() -> None:
    tool = Effect()
    desk = Desk([tool])
    desk.runner.refuse(
        [a_call("c1"), a_call("c2")],
        Emit(desk.emit, desk.say_tool),
        TranscriptUnavailable("full", recoverable=True),
    )
    assert [status for _, status, _ in desk.story()] == ["requested", "failed"] * 2
    assert (desk.messages, tool.acted) == ([("c1", NO_TRANSCRIPT), ("c2", NO_TRANSCRIPT)], [])


def test_an_interrupted_redo_has_its_outcome_and_its_message_too() -> None:
    begun = asyncio.Event()

    async def slow(action: Action) -> ToolResult:
        begun.set()
        await action.stop.wait()
        return ToolResult("ended early", ErrorCode.INTERRUPTED)

    desk = Desk([Effect(slow)])

    async def play() -> None:
        task = asyncio.create_task(desk.runner.redo(a_call(), "act-old", Emit(desk.emit, desk.say_tool)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert desk.story()[-1] == ("c1", "failed", "INTERRUPTED")
    assert desk.messages == [("c1", "ended early")]
