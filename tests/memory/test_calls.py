"""What is known of each call after a crash, and that the next request is valid (promises 4 to 6)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from memory.events import LifecyclePayload, Payload, Reason, TerminalPayload, ToolCall
from memory.fold import LOST_RESULT_TEXT, NOT_RUN_TEXT, ORPHAN_TEXT, UNKNOWN_TEXT
from memory.state import ResumeState, UncertainAction
from tests.memory.memory_kit import (
    Place,
    answers,
    asks,
    compacted,
    decided,
    done,
    in_run,
    life,
    record,
    says,
    shown,
    transition,
    user,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def missing(state: ResumeState) -> list[str]:
    return [one.call.id for one in state.missing_results]


def pending(state: ResumeState) -> list[str]:
    return [one.call.id for one in state.pending_tool_calls]


def uncertain(state: ResumeState) -> list[str]:
    return [one.action_id for one in state.uncertain_actions]


def test_a_killed_turn_knows_what_is_finished_what_ran_and_what_never_began(place: Place) -> None:
    """K01 and K09: three calls, the process dies in the second."""
    running = life("b", "requested", "started")
    place.write(("run-1", 0, user("go")), *in_run("run-1", 1, asks("a", "b", "c"), *done("a"), *running))
    state = place.load()
    assert shown(state) == [("user", "go"), ("assistant", ""), ("tool a", "result of a")]
    assert (missing(state), pending(state)) == (["b", "c"], ["c"])
    assert state.uncertain_actions == (
        UncertainAction(
            tool_name="Bash",
            tool_call_id="b",
            action_id="act-b",
            run_id="run-1",
            step=1,
            started_at="2026-01-31T12:00:07.000Z",
            payload={"command": "do b"},
            arguments="{}",
            replay_allowed=False,
        ),
    )


LIVES: list[tuple[list[Payload], list[str], list[str], list[str]]] = [
    # records                                        uncertain  missing pending
    ([], [], ["c"], ["c"]),
    (life("c", "requested"), [], ["c"], ["c"]),
    (life("c", "requested", "started"), ["act-c"], ["c"], []),
    (life("c", "started"), ["act-c"], ["c"], []),
    (life("c", "requested", "started", "completed"), [], ["c"], []),
    (life("c", "requested", "started", "failed"), [], ["c"], []),
    ([*life("c", "requested", "started"), decided("act-c")], [], ["c"], []),
    (done("c"), [], [], []),
    ([*life("c", "requested", "started"), answers("c", "told")], [], [], []),
    ([*life("c", "requested", "failed"), answers("c")], [], [], []),
]


@pytest.mark.parametrize(("records", "open_actions", "without_result", "never_began"), LIVES, ids=range(len(LIVES)))
def test_every_place_of_a_kill_is_told_apart(
    place: Place, records: list[Payload], open_actions: list[str], without_result: list[str], never_began: list[str]
) -> None:
    """K09."""
    place.write(*in_run("run-1", 1, asks("c"), *records))
    state = place.load()
    assert (uncertain(state), missing(state), pending(state)) == (open_actions, without_result, never_began)


def test_a_refused_call_that_never_started_is_not_uncertain_and_keeps_its_result(place: Place) -> None:
    place.write(*in_run("run-1", 1, asks("c"), *life("c", "requested", "failed", result="no"), answers("c")))
    assert shown(place.load())[-1] == ("tool c", "no")


def test_the_first_outcome_of_an_action_counts(place: Place) -> None:
    """K09: no action ever has two."""
    twice = [*life("c", "requested", "started", "completed", result="first"), *life("c", "failed", result="second")]
    place.write(*in_run("run-1", 1, asks("c"), *twice, answers("c")))
    assert shown(place.load())[-1] == ("tool c", "first")


def test_of_a_failure_without_result_the_message_of_the_error_is_the_result(place: Place) -> None:
    failed = LifecyclePayload("Bash", "c", "failed", "act-c", error={"code": "INTERNAL", "message": "it broke"})
    place.write(*in_run("run-1", 1, asks("c"), failed, answers("c")))
    assert shown(place.load())[-1] == ("tool c", "it broke")


def test_an_orphan_in_the_middle_gets_its_one_result_in_call_order(place: Place) -> None:
    """K01, variant: two later user turns were written already."""
    place.write(
        *in_run("run-1", 1, asks("a", "b", "c", "d"), *done("a"), *life("b", "requested", "started")),
        *in_run("run-1", 1, *life("c", "requested"), *life("d", "requested", "started", "completed")),
        *in_run("run-2", 0, user("go on"), says("well")),
        *in_run("run-3", 0, user("and on")),
    )
    state = place.load()
    assert shown(state) == [
        ("assistant", ""),
        ("tool a", "result of a"),
        ("tool b", UNKNOWN_TEXT),
        ("tool c", NOT_RUN_TEXT),
        ("tool d", "result of d"),
        ("user", "go on"),
        ("assistant", "well"),
        ("user", "and on"),
    ]
    assert (uncertain(state), missing(state)) == (["act-b"], [])


def test_results_written_out_of_order_and_doubled_are_put_in_order_once(place: Place) -> None:
    """K10."""
    out = [answers("b", "B"), answers("a", "A"), answers("b", "again")]
    place.write(*in_run("run-1", 1, asks("a", "b"), *out, user("next")))
    assert shown(place.load()) == [("assistant", ""), ("tool a", "A"), ("tool b", "B"), ("user", "next")]


def test_a_lost_result_before_one_that_is_there_is_made_good_at_once(place: Place) -> None:
    """Results are written in call order, so the first one is lost, not owed."""
    place.write(*in_run("run-1", 1, asks("a", "b", "c"), *life("a", "requested", "started", "completed"), *done("b")))
    state = place.load()
    assert shown(state) == [("assistant", ""), ("tool a", "result of a"), ("tool b", "result of b")]
    assert missing(state) == ["c"]


def test_a_result_that_was_made_good_counts_where_a_load_begins_at_a_checkpoint(place: Place) -> None:
    place.write(*in_run("run-1", 1, user("go"), asks("a", "b"), *done("b")))
    session = place.open()
    facts = session.checkpoint_facts()
    record(session, ("run-1", 1, msgspec.structs.replace(compacted(7, 4), **msgspec.structs.asdict(facts))))
    session.close()
    state = place.load()
    assert (state.messages_before, shown(state)) == (4, [])


def test_a_result_whose_outcome_is_lost_says_so(place: Place) -> None:
    place.write(*in_run("run-1", 1, asks("c"), *life("c", "requested", "started"), answers("c")))
    state = place.load()
    assert (shown(state)[-1], uncertain(state)) == (("tool c", LOST_RESULT_TEXT), [])


def test_results_without_their_request_never_part_a_message_from_its_results(place: Place) -> None:
    """The second assistant message is lost; then another is, while calls are open."""
    place.write(*in_run("run-1", 1, asks("a"), *done("a"), answers("x", "X"), user("next")))
    after = [("assistant", ""), ("tool a", "result of a"), ("user", f"{ORPHAN_TEXT}X")]
    assert shown(place.load()) == [*after, ("user", "next")]
    place.write(*in_run("run-2", 1, asks("b"), answers("y", "Y"), *done("b")))
    before = [("user", f"{ORPHAN_TEXT}Y"), ("assistant", ""), ("tool b", "result of b")]
    assert shown(place.load()) == [*after, ("user", "next"), *before]


def test_call_ids_that_come_again_belong_to_their_own_message(place: Place) -> None:
    """Providers begin anew with call_0 in every answer; the actions are told apart."""
    for run in ("run-1", "run-2"):
        for step in (1, 2):
            text = f"{run} {step}"
            calls = life("c", "requested", "started", "completed", result=text, action_id=f"act-{text}")
            place.write(*in_run(run, step, asks("c"), *calls, answers("c")))
    place.write(*in_run("run-2", 3, asks("c"), *life("c", "requested", "started", action_id="act-open")))
    state = place.load()
    texts = [text for role, text in shown(state) if role == "tool c"]
    assert texts == ["run-1 1", "run-1 2", "run-2 1", "run-2 2"]
    assert (uncertain(state), missing(state)) == (["act-open"], ["c"])


def test_an_action_stays_uncertain_through_later_turns_until_it_is_decided(place: Place) -> None:
    place.write(*in_run("run-1", 1, asks("c"), *life("c", "started", action_id="act-1")))
    place.write(*in_run("run-2", 1, user("next"), asks("c"), *done("c"), says("done")))
    assert uncertain(place.load()) == ["act-1"]
    place.write(("run-1", 1, decided("act-1")))
    assert uncertain(place.load()) == []


def test_a_decision_about_an_earlier_run_does_not_begin_that_run_again(place: Place) -> None:
    place.write(*in_run("run-1", 1, asks("c"), *life("c", "started")))
    world = transition(Reason.RUN_STARTED, date="2026-01-31")
    place.write(*in_run("run-2", 0, world, user("next"), says("done"), TerminalPayload("completed")))
    before = place.load().run
    place.write(("run-1", 1, decided("act-c")))
    assert (place.load().run, place.load().runs) == (before, 2)
    assert before is not None and (before.run_id, before.ended, before.answer) == ("run-2", "completed", "done")


def test_a_redo_is_the_newest_action_of_its_call(place: Place) -> None:
    place.write(*in_run("run-1", 1, asks("c"), *life("c", "started"), decided("act-c", "redo")))
    place.write(*in_run("run-1", 1, *life("c", "requested", "started", action_id="act-2")))
    assert uncertain(place.load()) == ["act-2"]
    place.write(*in_run("run-1", 1, *life("c", "completed", result="again", action_id="act-2"), answers("c")))
    assert (uncertain(place.load()), shown(place.load())[-1]) == ([], ("tool c", "again"))


def test_the_arguments_are_those_of_the_message_even_where_they_are_no_json(place: Place) -> None:
    """K28: the raw text stays for audit."""
    raw = '{"command": "cd x && "abc}\x00'
    place.write(*in_run("run-1", 1, asks("c", arguments=raw), *life("c", "requested", "started")))
    state = place.load()
    assert state.history_messages[0].tool_calls == (ToolCall("c", "Bash", raw),)
    assert [one.arguments for one in state.uncertain_actions] == [raw]


@pytest.mark.parametrize("retained", range(1, 13))
def test_a_checkpoint_never_parts_a_call_from_its_results(place: Place, retained: int) -> None:
    """K02: wherever the cut falls."""
    place.write(("run-1", 0, user("go")), *in_run("run-1", 1, asks("a", "b"), *done("a"), *done("b"), says("done")))
    place.write(("run-1", 2, compacted(retained, 1)))
    state = place.load()
    whole = [
        ("user", "go"),
        ("assistant", ""),
        ("tool a", "result of a"),
        ("tool b", "result of b"),
        ("assistant", "done"),
    ]
    kept = 5 if retained == 1 else 4 if retained == 2 else 1 if retained <= 11 else 0
    assert shown(state) == whole[5 - kept :]
    assert state.messages_before == 5 - kept
    assert state.checkpoint is not None and state.checkpoint.summary == "so far"
