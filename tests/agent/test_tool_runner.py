"""The life of an action that nothing interrupts: every order of outcomes."""

from __future__ import annotations

import asyncio

import pytest

from agent.permissions import Answer, Mode, NobodyToAsk, PermissionGate, Rule
from agent.tool_runner import (
    DENIED,
    PLAN_MODE,
    UNANSWERED,
    Emit,
)
from memory.events import JsonObject, LifecyclePayload, ToolCall
from memory.text import SECRET_REMOVED
from tests.agent.tool_kit import KEY, STATE, Desk, Effect, Look, a_call, code_and_result, lived, refusing
from tests.kit.in_process import Answers
from tools.base import Action, CallRefused, ErrorCode, ToolResult

# -- one action, undisturbed


def test_an_effect_lives_through_requested_started_completed_and_its_message() -> None:
    desk = lived(Desk([Effect()]), a_call(arguments='{"text": "x"}'))
    assert desk.said == [
        LifecyclePayload("Effect", "c1", "requested", "act-1"),
        LifecyclePayload(
            "Effect",
            "c1",
            "started",
            "act-1",
            permission={"rule": "mode auto", "answer": "allowed"},
            intent={"what": "the x"},
        ),
        LifecyclePayload(
            "Effect",
            "c1",
            "completed",
            "act-1",
            result="did it",
            file_states=({"path": "/f", "sha256": "aa", "size": 1, "mtime_ns": 2},),
            cwd="/here",
            exit_code=0,
            duration_ms=0,
        ),
    ]
    assert desk.messages == [("c1", "did it")]


def test_a_replay_safe_call_asks_nobody() -> None:
    approver = Answers(Answer.DENIED)
    desk = lived(Desk([Look()], PermissionGate(Mode.PLAN, approver)), a_call(name="Look"))
    assert (desk.story()[-1], approver.questions) == (("c1", "completed", None), [])
    assert desk.said[1].permission is None


def test_a_result_with_an_error_code_is_a_failure() -> None:
    async def timed_out(_action: Action) -> ToolResult:
        return ToolResult("\n" + "x" * 400 + "\nmore", ErrorCode.TIMEOUT)

    desk = lived(Desk([Effect(timed_out)]))
    assert desk.story() == [("c1", "requested", None), ("c1", "started", None), ("c1", "failed", "TIMEOUT")]
    assert desk.said[-1].error == {"code": "TIMEOUT", "message": "x" * 300 + "…"}
    assert desk.messages == [("c1", "\n" + "x" * 400 + "\nmore")]


def test_a_plan_that_changes_nothing_completes_without_a_start_and_without_a_question() -> None:
    approver = Answers(Answer.DENIED)
    tool = Effect(nothing_to_do=ToolResult("it is so already"))
    desk = lived(Desk([tool], PermissionGate(Mode.ASK, approver)))
    assert desk.story() == [("c1", "requested", None), ("c1", "completed", None)]
    assert (desk.messages, tool.acted, approver.questions) == ([("c1", "it is so already")], [], [])


@pytest.mark.parametrize(
    ("tool", "story"),
    [
        (Effect(plan=refusing(ErrorCode.NOT_READ, "read it")), ["requested", "failed"]),
        (Effect(intent=refusing(ErrorCode.NOT_READ, "read it")), ["requested", "failed"]),
    ],
)
def test_a_refusal_before_the_start_fails_without_one(tool: Effect, story: list[str]) -> None:
    desk = lived(Desk([tool]))
    assert [one.status for one in desk.said] == story
    assert code_and_result(desk) == ({"code": "NOT_READ", "message": "read it"}, "read it")
    assert (desk.messages, tool.acted) == ([("c1", "read it")], [])


def test_a_refusal_right_before_the_change_fails_behind_its_start() -> None:
    async def refuse(_action: Action) -> ToolResult:
        raise CallRefused(ErrorCode.CHANGED_SINCE_READ, "now it holds x", (STATE,))

    desk = lived(Desk([Effect(refuse)]))
    assert [one.status for one in desk.said] == ["requested", "started", "failed"]
    assert code_and_result(desk) == ({"code": "CHANGED_SINCE_READ", "message": "now it holds x"}, "now it holds x")


def test_a_file_that_a_refusal_shows_counts_as_read() -> None:
    desk = lived(Desk([Effect(plan=refusing(ErrorCode.CHANGED_SINCE_READ, "x"))]))
    assert desk.said[-1].file_states == ({"path": "/f", "sha256": "aa", "size": 1, "mtime_ns": 2},)


@pytest.mark.parametrize(
    ("gate", "text", "permission", "unanswered"),
    [
        (PermissionGate(Mode.ASK, Answers(Answer.DENIED)), DENIED, {"rule": "asked", "answer": "denied"}, False),
        (PermissionGate(Mode.ASK, NobodyToAsk()), UNANSWERED, {"rule": "asked", "answer": "unanswered"}, True),
        (PermissionGate(Mode.PLAN, NobodyToAsk()), PLAN_MODE, {"rule": "mode plan", "answer": "denied"}, False),
        (
            PermissionGate(Mode.AUTO, NobodyToAsk(), deny=[Rule("Effect")]),
            DENIED,
            {"rule": "deny Effect", "answer": "denied"},
            False,
        ),
    ],
)
def test_a_denied_call_goes_from_requested_to_failed_and_is_listed(
    gate: PermissionGate, text: str, permission: JsonObject, unanswered: bool
) -> None:
    tool = Effect()
    desk = lived(Desk([tool], gate))
    assert desk.story() == [("c1", "requested", None), ("c1", "failed", "PERMISSION_DENIED")]
    assert (desk.messages, tool.acted, desk.said[-1].permission) == ([("c1", text)], [], permission)
    assert desk.runner.denials == [
        {"tool_name": "Effect", "tool_call_id": "c1", "subject": "the ", **permission},
    ]
    assert desk.runner.unanswered is unanswered


def test_the_question_shows_the_plan_and_the_start_holds_the_answer() -> None:
    approver = Answers(Answer.ALWAYS)
    desk = lived(Desk([Effect()], PermissionGate(Mode.ASK, approver)), a_call("c1", arguments='{"text": "x"}'))
    (question,) = approver.questions
    assert (question.tool_name, question.subject, question.preview) == ("Effect", "the x", "preview x")
    assert desk.said[1].permission == {"rule": "Effect(the x)", "answer": "always"}
    lived(desk, a_call("c2", arguments='{"text": "x"}'))
    assert (len(approver.questions), desk.said[-2].permission) == (
        1,
        {"rule": "allow Effect(the x)", "answer": "allowed"},
    )


@pytest.mark.parametrize(
    ("call", "code", "beginning"),
    [
        (a_call(name="Efect"), "UNKNOWN_TOOL", "There is no tool 'Efect'. The tools are Effect."),
        (a_call(name=""), "UNKNOWN_TOOL", "There is no tool ''"),
        (a_call(arguments='{"text": 1}'), "INVALID_ARGUMENTS", "Text: "),
        (a_call(arguments='{"a": 1}{"b": 2}'), "INVALID_ARGUMENTS", "The arguments are not one JSON object"),
        (a_call(arguments=""), "INVALID_ARGUMENTS", "The arguments are not one JSON object"),
    ],
)
def test_a_wrong_call_gets_one_result_that_says_how_to_call_it_right(call: ToolCall, code: str, beginning: str) -> None:
    approver = Answers(Answer.DENIED)
    desk = lived(Desk([Effect()], PermissionGate(Mode.ASK, approver)), call)
    assert (desk.story(), approver.questions) == ([("c1", "requested", None), ("c1", "failed", code)], [])
    ((_, text),) = desk.messages
    assert text.startswith(beginning)


def test_a_fault_of_the_tool_is_told_to_the_model_and_the_next_call_runs() -> None:
    async def broken(_action: Action) -> ToolResult:
        raise ZeroDivisionError("oops")

    desk = lived(Desk([Effect(broken), Look()]), a_call("c1"), a_call("c2", "Look"))
    assert desk.story()[2:] == [
        ("c1", "started", None),
        ("c1", "failed", "INTERNAL"),
        ("c2", "started", None),
        ("c2", "completed", None),
    ]
    assert desk.messages == [
        ("c1", "Internal error of the tool (ZeroDivisionError: oops). It may have done part of its work."),
        ("c2", "did it"),
    ]


def test_the_key_is_removed_from_results_progress_and_questions() -> None:
    async def tells(action: Action) -> ToolResult:
        action.progress(f"at work with {KEY}")
        return ToolResult(f"it is {KEY}")

    approver = Answers(Answer.ALLOWED)
    desk = lived(
        Desk([Effect(tells)], PermissionGate(Mode.ASK, approver)),
        a_call(arguments='{"text": "sk-0123456789\\u002dkey"}'),
    )
    (question,) = approver.questions
    assert (question.subject, question.preview) == (f"the {SECRET_REMOVED}", f"preview {SECRET_REMOVED}")
    assert desk.messages == [("c1", f"it is {SECRET_REMOVED}")]
    assert KEY not in repr(desk.observed)


# -- several calls


def test_adjacent_replay_safe_calls_overlap_and_are_answered_in_call_order() -> None:
    first_may_end = asyncio.Event()

    async def act(action: Action) -> ToolResult:
        if action.tool_call_id == "c1":
            await first_may_end.wait()
        else:
            first_may_end.set()
        return ToolResult(f"result of {action.tool_call_id}")

    desk = lived(Desk([Look(act)]), a_call("c1", "Look"), a_call("c2", "Look"), a_call("c3", "Look"))
    assert desk.story() == [
        ("c1", "requested", None),
        ("c2", "requested", None),
        ("c3", "requested", None),
        ("c1", "started", None),
        ("c2", "started", None),
        ("c2", "completed", None),
        ("c3", "started", None),
        ("c3", "completed", None),
        ("c1", "completed", None),
    ]
    assert desk.messages == [("c1", "result of c1"), ("c2", "result of c2"), ("c3", "result of c3")]


def test_a_call_with_an_effect_waits_for_those_before_and_holds_up_those_behind() -> None:
    desk = lived(Desk([Effect(), Look()]), a_call("c1", "Look"), a_call("c2"), a_call("c3"), a_call("c4", "Look"))
    behind_requests = [(call, status) for call, status, _ in desk.story()[4:]]
    assert behind_requests == [
        (call, status) for call in ("c1", "c2", "c3", "c4") for status in ("started", "completed")
    ]
    assert [call for call, _ in desk.messages] == ["c1", "c2", "c3", "c4"]


# -- redo


def test_a_redone_call_is_an_action_of_its_own_that_names_the_old_one() -> None:
    desk = Desk([Effect()])
    asyncio.run(desk.runner.redo(a_call(), "act-old", Emit(desk.emit, desk.say_tool)))
    assert [(one.action_id, one.redo_of, one.status) for one in desk.said] == [
        ("act-1", "act-old", status) for status in ("requested", "started", "completed")
    ]
    assert desk.messages == [("c1", "did it")]
