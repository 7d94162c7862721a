"""One input driven to its end: limits, failures, interruptions, compaction, and what is kept of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.errors import FailureKind
from agent.events import OutputClosed, RuntimeEvent, TextDelta
from agent.host import CodeAgent
from agent.state import Limits, RunResult, Usage
from memory.events import End, EventType, HistoryMessage, LifecyclePayload, MessagePayload, ToolStatus
from tests.kit.in_process import Someone, Watcher, failing, go_on, run
from tests.kit.script import Call, Reply, Step, call, say
from tests.kit.script import Usage as Cost
from tests.kit.transcript import breaches, transitions

LOOK = call("Glob", {"pattern": "*"})


def roles(messages: Sequence[HistoryMessage]) -> list[tuple[str, str]]:
    return [(one.role, one.content) for one in messages]


def assert_recorded(one: Someone, agent: CodeAgent) -> None:
    """What the process knows is what the transcript tells, and every request was well-formed."""
    state = one.load(agent.session_id)
    assert list(agent.history_manager.messages) == list(state.history_messages)
    assert agent.context_engine.compact_store.active == state.checkpoint
    assert agent.history_manager.messages_before == state.messages_before
    assert breaches(one.files(agent.session_id).transcript) == []
    assert one.provider.invalid == []


def reasons(one: Someone, agent: CodeAgent) -> list[str]:
    """The life of the session in record types, with the reasons of transitions and ends."""
    return [
        str(record.payload.get("reason") or record.payload.get("status") or record.payload.get("role") or "checkpoint")
        for record in one.records(agent.session_id)
    ]


# -- to its end


def test_a_run_with_a_call_and_an_answer(tmp_path: Path) -> None:
    one = Someone(
        tmp_path, [Reply("looking", calls=LOOK.calls, usage=Cost(10, 5, 2)), Reply("done", usage=Cost(20, 6))]
    )
    agent = one.start()
    (result,) = run(agent, "look")
    assert result == RunResult("run-1", End.COMPLETED, "done", 2, Usage(30, 2, 11), details=result.details)
    assert (result.status, result.exit_code) == ("completed", 0)
    assert reasons(one, agent) == [
        "session_opened",
        "run_started",
        "user",
        "assistant",
        "model_returned_tool_calls",
        "requested",
        "started",
        "completed",
        "tool",
        "tools_executed",
        "assistant",
        "model_returned_final",
        "completed",
        "session_closed",
    ]
    assert_recorded(one, agent)


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    one = Someone(tmp_path, [say(""), say("later")])
    agent = one.start()
    first, second = run(agent, "x", "y")
    assert [(first.end, first.response), (second.end, second.response)] == [
        (End.COMPLETED, ""),
        (End.COMPLETED, "later"),
    ]
    assert_recorded(one, agent)


@pytest.mark.parametrize(
    ("limits", "end", "steps"),
    [
        (Limits(steps_max=2), End.MAX_STEPS, 2),
        (Limits(tokens_max=25), End.TOKEN_BUDGET, 2),
        (Limits(steps_max=9, tokens_max=10_000), End.COMPLETED, 4),
    ],
)
def test_limits_end_a_run_between_two_steps_and_continue_gives_it_as_much_again(
    tmp_path: Path, limits: Limits, end: End, steps: int
) -> None:
    looks: list[Step] = [Reply(calls=LOOK.calls, usage=Cost(10, 5))] * 3
    one = Someone(tmp_path, [*looks, say("done")]).with_services(limits=limits)
    agent = one.start()
    (result,) = run(agent, "look")
    assert (result.end, result.steps, result.exit_code) == (end, steps, 0 if end is End.COMPLETED else 3)
    assert_recorded(one, agent)
    if end is not End.COMPLETED:
        again = one.resume(agent.session_id)
        result = go_on(again)
        assert (result.run_id, result.end, result.response) == ("run-1", End.COMPLETED, "done")
        assert_recorded(one, again)


# -- failures of the model


def test_a_failed_request_ends_the_run_and_the_same_run_can_be_continued(tmp_path: Path) -> None:
    one = Someone(tmp_path, [failing(FailureKind.AUTHENTICATION, "The key is wrong."), say("done")])
    agent = one.start()
    (result,) = run(agent, "x")
    assert (result.end, result.status, result.exit_code) == (End.MODEL_ERROR, "failed", 1)
    assert (result.error_code, result.error_message) == ("authentication", "The key is wrong.")
    assert_recorded(one, agent)
    assert go_on(one.resume(agent.session_id)).response == "done"


def test_a_retry_is_recorded_and_costs_no_message(tmp_path: Path) -> None:
    one = Someone(tmp_path, [failing(FailureKind.OVERLOADED, "busy", retryable=True), say("done")])
    agent = one.start()
    (result,) = run(agent, "x")
    assert (result.response, result.steps) == ("done", 1)
    assert transitions(one.records(agent.session_id), "model_retry") == [
        {"attempt": 1, "wait_s": 0.0, "reason": "busy"}
    ]
    assert_recorded(one, agent)


def test_what_was_shown_of_a_broken_answer_is_kept_and_continue_asks_without_it(tmp_path: Path) -> None:
    one = Someone(tmp_path, [Reply("half of it is", pieces=3, cut_after_chunks=3), say("the whole")])
    agent = one.start()
    (result,) = run(agent, "x")
    assert (result.end, result.error_code) == (End.MODEL_ERROR, "stream_broken")
    assert roles(agent.history_manager.messages) == [("user", "x"), ("assistant", "half of it")]
    assert agent.history_manager.messages[-1].metadata == {"interrupted": True}
    assert_recorded(one, agent)
    again = one.resume(agent.session_id)
    assert go_on(again).response == "the whole"
    assert [m["role"] for m in one.provider.requests[-1].messages] == ["system", "user"]
    assert_recorded(one, again)


def test_a_fault_of_ours_ends_the_run_with_its_end_record(tmp_path: Path) -> None:
    def broken(_request: object) -> Reply:
        raise ZeroDivisionError("a bug")

    one = Someone(tmp_path, [broken])
    agent = one.start()
    (result,) = run(agent, "x")
    assert (result.end, result.error_code, result.error_message, result.exit_code) == (
        End.INTERNAL_ERROR,
        "internal_error",
        "a bug",
        1,
    )
    assert reasons(one, agent)[-2:] == ["internal_error", "session_closed"]


# -- interruption


def shows_text(event: RuntimeEvent) -> bool:
    return isinstance(event.payload, TextDelta)


def has_started(tool: str) -> Callable[[RuntimeEvent], bool]:
    def when(event: RuntimeEvent) -> bool:
        payload = event.payload
        return (
            isinstance(payload, LifecyclePayload) and payload.status == ToolStatus.STARTED and payload.tool_name == tool
        )

    return when


def run_interrupted(
    one: Someone, when: Callable[[RuntimeEvent], bool], end: End, *, times: int = 1, then: str = "go on"
) -> tuple[CodeAgent, RunResult, RunResult]:
    """Run "x", interrupt it at an event, send another prompt in the same process."""

    async def play() -> tuple[CodeAgent, RunResult, RunResult]:
        loop = asyncio.get_running_loop()
        interrupted: list[bool] = []

        def interrupt() -> None:
            if not interrupted:
                interrupted.append(True)
                for _ in range(times):
                    loop.call_soon(lambda: agent.interrupt(end))

        agent = one.start(Watcher(when, interrupt))
        first = await agent.run("x")
        second = await agent.run(then)
        await agent.close("completed")
        return agent, first, second

    return asyncio.run(play())


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(("end", "exit_code"), [(End.INTERRUPTED, 130), (End.TERMINATED, 143), (End.HANGUP, 129)])
def test_an_interrupted_answer_is_kept_and_the_next_prompt_works_at_once(
    tmp_path: Path, end: End, exit_code: int, times: int
) -> None:
    one = Someone(tmp_path, [Reply("half of it", pieces=2, hang_after_chunks=2), say("went on")])
    agent, first, second = run_interrupted(one, shows_text, end, times=times)
    assert (first.end, first.status, first.exit_code, first.response) == (end, "interrupted", exit_code, "")
    assert (second.run_id, second.end, second.response) == ("run-2", End.COMPLETED, "went on")
    assert roles(agent.history_manager.messages) == [
        ("user", "x"),
        ("assistant", "half "),
        ("user", "go on"),
        ("assistant", "went on"),
    ]
    assert transitions(one.records(agent.session_id), "interrupted_by_user") == [{"reason": end.value}]
    assert_recorded(one, agent)


@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupted_command_is_ended_with_its_outcome_and_the_calls_behind_it_are_not_run(
    tmp_path: Path, times: int
) -> None:
    """K01: an interrupted turn left calls without results."""
    calls = (
        Call("Glob", {"pattern": "*"}),
        Call("Bash", {"command": "sleep 60"}),
        Call("Write", {"file_path": "b.txt", "content": "b"}),
    )
    one = Someone(tmp_path, [Reply(calls=calls), say("went on")])
    agent, first, second = run_interrupted(one, has_started("Bash"), End.INTERRUPTED, times=times)
    assert (first.end, second.response) == (End.INTERRUPTED, "went on")
    outcomes = [
        (r.payload["tool_name"], r.payload["status"], (r.payload.get("error") or {}).get("code"))
        for r in one.records(agent.session_id)
        if r.is_action("completed") or r.is_action("failed")
    ]
    assert outcomes == [("Glob", "completed", None), ("Bash", "failed", "INTERRUPTED"), ("Write", "failed", "NOT_RUN")]
    assert not (one.workspace / "b.txt").exists()
    assert_recorded(one, agent)


def test_an_interruption_after_the_run_does_not_touch_its_caller(tmp_path: Path) -> None:
    """A second Ctrl+C while the program closes its files must not end it in the middle of that."""
    one = Someone(tmp_path, [say("done")])

    async def play() -> str:
        agent = one.start()
        await agent.run("x")
        asyncio.get_running_loop().call_soon(agent.interrupt, End.INTERRUPTED)
        await asyncio.sleep(0)
        await agent.close("completed")
        return agent.session_id

    session_id = asyncio.run(play())
    assert one.records(session_id)[-1].is_transition("session_closed")


def test_a_run_is_interrupted_by_nothing_but_a_user_or_a_signal(tmp_path: Path) -> None:
    one = Someone(tmp_path, [say("done")])

    async def play() -> None:
        agent = one.start(Watcher(shows_text, lambda: agent.interrupt(End.COMPLETED)))
        await agent.run("x")
        await agent.close("completed")

    asyncio.run(play())  # an observer's fault is logged; the run came to its end
    assert [r.payload["reason"] for r in one.records(one.only_session()) if r.event_type == "terminal"] == ["completed"]


# -- a reader that went away


def closed_at(when: Callable[[RuntimeEvent], bool]) -> Watcher:
    def close() -> None:
        raise OutputClosed

    return Watcher(when, close)


def is_final_answer(event: RuntimeEvent) -> bool:
    return (
        event.event_type == EventType.MESSAGE
        and isinstance(event.payload, MessagePayload)
        and (event.payload.role == "assistant" and not event.payload.tool_calls)
    )


def test_output_that_is_closed_behind_the_answer_is_a_success_and_before_it_is_none(tmp_path: Path) -> None:
    one = Someone(tmp_path, {"x": [Reply(calls=LOOK.calls), say("done")]})
    (late,) = run(one.start(closed_at(is_final_answer)), "x")
    assert (late.end, late.exit_code, late.response) == (End.OUTPUT_CLOSED, 0, "done")
    agent = one.start(closed_at(lambda event: event.event_type == EventType.TOOL_LIFECYCLE))
    (early,) = run(agent, "x")
    assert (early.end, early.exit_code, early.response) == (End.OUTPUT_CLOSED, 1, "")
    assert_recorded(one, agent)


# -- a history that outgrows the window

LONG = "many words " * 400  # about 1,100 tokens


def talker(folder: Path, script: Sequence[Step], **more: object) -> Someone:
    return Someone(folder, list(script), **more).with_services(context_tokens=8_000)  # type: ignore[arg-type]


def test_a_history_near_the_window_is_summarized_before_the_next_request(tmp_path: Path) -> None:
    one = talker(tmp_path, [say(LONG)] * 8)
    agent = one.start()
    results = run(agent, *(f"prompt {number}" for number in range(8)))
    assert [result.end for result in results] == [End.COMPLETED] * 8
    compacted = transitions(one.records(agent.session_id), "context_compacted")
    assert compacted and all(details["messages"] > 0 for details in compacted)
    assert max(len(request.raw) // 4 for request in one.provider.requests) < 8_000
    assert max(len(request.raw) // 4 for request in one.provider.side_requests) < 8_000
    newest = one.provider.requests[-1]
    assert newest.has("Summary: the scripted work goes on", "user") and newest.has("prompt 7", "user")
    assert_recorded(one, agent)


def test_a_model_that_finds_the_request_too_long_gets_a_shorter_one(tmp_path: Path) -> None:
    one = Someone(tmp_path, [say(LONG)] * 8, limit_tokens=6_500)  # the window is less than what we were told
    agent = one.start()
    results = run(agent, *(f"prompt {number}" for number in range(8)))
    assert [result.end for result in results] == [End.COMPLETED] * 8
    assert_recorded(one, agent)


@pytest.mark.parametrize("side", [failing(FailureKind.CONTEXT_TOO_LONG), failing(FailureKind.OVERLOADED), say("  ")])
def test_without_a_summary_older_messages_are_left_out_with_a_record_of_it(tmp_path: Path, side: Step) -> None:
    """K13, K32: nothing recorded that the history had been cut, and an empty summary counted as one."""
    one = talker(tmp_path, [say(LONG)] * 8, side=side)
    agent = one.start()
    results = run(agent, *(f"prompt {number}" for number in range(8)))
    assert [result.end for result in results] == [End.COMPLETED] * 8
    assert transitions(one.records(agent.session_id), "context_truncated")
    assert one.provider.requests[-1].has("No summary could be made", "user")
    assert_recorded(one, agent)


def test_a_single_exchange_that_does_not_fit_ends_in_a_clear_failure_after_few_requests(tmp_path: Path) -> None:
    one = talker(tmp_path, [say("never")], limit_tokens=4_000)
    agent = one.start()
    (result,) = run(agent, LONG * 6)
    assert (result.end, result.error_code) == (End.MODEL_ERROR, "context_too_long")
    assert len(one.provider.requests) == 1
    assert_recorded(one, agent)


def test_a_resumed_session_starts_from_its_summary_and_asks_as_the_live_one_would(tmp_path: Path) -> None:
    one = talker(tmp_path, [say(LONG)] * 9)
    agent = one.start()
    run(agent, *(f"prompt {number}" for number in range(8)))
    again = one.resume(agent.session_id)
    assert list(again.history_manager.messages) == list(agent.history_manager.messages)
    run(again, "prompt 8")
    assert one.provider.requests[-1].has("[Summary of the conversation so far", "user")
    assert_recorded(one, again)
