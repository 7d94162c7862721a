"""A process that dies before any record of a run, or of a settlement: the next one finds every call once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.host import CodeAgent
from agent.recovery.policies import Policy
from agent.recovery.settle import PolicyDecider
from memory.events import End
from tests.kit.in_process import FailingDisk, Someone, call_ids, go_on, run, until_crash
from tests.kit.script import Call, Reply, Script, say
from tests.kit.transcript import Record, breaches, outcomes, transitions

SCRIPT: Script = {
    "change it": [
        Reply(calls=(Call("Read", {"file_path": "a.txt"}), Call("Glob", {"pattern": "*"}))),
        Reply(
            "now the change",
            calls=(
                Call("Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}),
                Call("Bash", {"command": "echo once >> done.txt"}),
                Call("Edit", {"file_path": "none.txt", "old_string": "x", "new_string": "y"}),
            ),
        ),
        say("all done"),
    ]
}


def someone(folder: Path) -> Someone:
    one = Someone(folder, SCRIPT)
    one.file("a.txt", "old\n")
    return one


def undisturbed(folder: Path) -> list[Record]:
    """The records of a run that nothing cut short."""
    one = someone(folder)
    run(one.start(), "change it")
    return one.records(one.only_session())


def die_before(one: Someone, number: int) -> None:
    """Begin the session and let the process die before its n-th record."""
    agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_at=number)).services, ())
    assert until_crash(agent, agent.run("change it")) is None
    one.with_services(disk=FailingDisk())


def tool_messages(records: Sequence[Record]) -> Counter[str]:
    return Counter(str(r.payload.get("tool_call_id")) for r in records if r.is_message("tool"))


def decisions(records: Sequence[Record]) -> Counter[str]:
    return Counter(str(details["action_id"]) for details in transitions(records, "recovery_decided"))


def assert_settled(one: Someone, session_id: str) -> None:
    """One outcome or one decision for each started action, one tool message for each call, valid requests only."""
    records = one.records(session_id)
    state = one.load(session_id)
    assert breaches(one.files(session_id).transcript) == []
    assert one.provider.invalid == []
    with_outcome = {action for action, count in outcomes(records).items() if count}
    assert set(outcomes(records).values()) <= {0, 1}
    assert set(decisions(records).values()) <= {1}
    assert not with_outcome & set(decisions(records))
    assert tool_messages(records) == Counter(call_ids(state))
    assert (state.uncertain_actions, state.missing_results) == ((), ())


def effects(one: Someone) -> tuple[str, str]:
    done = one.workspace / "done.txt"
    return (one.workspace / "a.txt").read_text(), done.read_text() if done.exists() else ""


def test_a_crash_before_any_record_leaves_a_session_that_goes_on_with_every_call_answered_once(tmp_path: Path) -> None:
    records = undisturbed(tmp_path / "whole")
    begun = next(i for i, record in enumerate(records, 1) if record.is_transition("run_started"))
    ended = next(i for i, record in enumerate(records, 1) if record.event_type == "terminal")
    assert ended > 25
    for number in range(begun + 1, ended + 1):
        one = someone(tmp_path / str(number))
        die_before(one, number)
        session_id = one.only_session()
        agent = one.resume(session_id)
        assert agent.can_continue == (number > begun + 1), number  # a run whose prompt is not recorded is none
        if not agent.can_continue:
            run(agent)
            continue
        result = go_on(agent)
        assert (result.end, result.response) == (End.COMPLETED, "all done"), number
        assert_settled(one, session_id)
        text, done = effects(one)
        assert text in ("old\n", "new\n")
        assert done in ("", "once\n"), number


@pytest.mark.parametrize("policy", [Policy.VERIFY, Policy.REDO_SAFE])
@pytest.mark.parametrize("tool", ["Edit", "Bash"])
def test_a_crash_before_any_record_of_a_settlement_repeats_no_decision_and_no_message(
    tmp_path: Path, policy: Policy, tool: str
) -> None:
    """The first process died with a started action; the second dies at every record while it settles that."""
    records = undisturbed(tmp_path / "whole")
    started = next(i for i, record in enumerate(records, 1) if record.is_action("started", tool))
    decider = PolicyDecider(policy)
    for number in range(2, 10):
        one = someone(tmp_path / str(number))
        die_before(one, started + 1)
        session_id = one.only_session()
        second = one.with_services(disk=FailingDisk(crash_at=number)).resume(session_id)
        until_crash(second, second.continue_run(decider=decider))
        third = one.with_services(disk=FailingDisk()).resume(session_id)
        result = go_on(third, decider)
        assert (result.end, result.response) == (End.COMPLETED, "all done"), number
        assert_settled(one, session_id)
        assert effects(one)[1] in ("", "once\n"), number


def test_a_command_that_never_ran_is_redone_at_most_once_through_further_crashes_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    records = undisturbed(tmp_path / "whole")
    started = next(i for i, record in enumerate(records, 1) if record.is_action("started", "Bash"))
    decider = PolicyDecider(Policy.REDO_SAFE)
    for number in range(2, 9):
        one = someone(tmp_path / str(number))
        agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_after=started)).services, ())
        until_crash(agent, agent.run("change it"))
        session_id = one.only_session()
        assert effects(one) == ("new\n", "")
        for disk in (FailingDisk(crash_at=number), FailingDisk(crash_after=number + 1)):
            again = one.with_services(disk=disk).resume(session_id)
            until_crash(again, again.continue_run(decider=decider))
        result = go_on(one.with_services(disk=FailingDisk()).resume(session_id), decider)
        assert result.end is End.COMPLETED
        assert_settled(one, session_id)
        told = one.provider.requests[-1].result_of("done.txt")
        assert effects(one)[1] == ("" if "did not begin" in told or "Not run" in told else "once\n"), (number, told)
