"""kill -9 of the process that recovers, between its records: nothing is asked, settled or run twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from tests.conftest import NewProgram
from tests.end_to_end.crashed import (
    COMMAND,
    EDIT,
    NEW,
    NEXT,
    OLD,
    Snapshot,
    assert_settled_once,
    cut_after,
    decided,
    edited,
    more,
    not_edited,
    told,
)
from tests.kit.program import Program
from tests.kit.side_by_side import side_by_side
from tests.kit.transcript import breaches

Crashed = Callable[[Program], str]
Check = Callable[[Program], None]


def command_not_started(user: Program) -> str:
    """Killed before the supervisor made its claim; the session's id."""
    session_id = cut_after(user, f"run {COMMAND}", "Bash")
    (outputs,) = user.state.glob("projects/*/memory/outputs/*")
    shutil.rmtree(outputs)
    (user.workspace / "effects.log").unlink()
    return session_id


def command_finished(user: Program) -> str:
    return cut_after(user, f"run {COMMAND}", "Bash")


def assert_ran_once_or_told_that_not(user: Program) -> None:
    ran = user.read("effects.log").split().count("begun")
    assert ran <= 1
    assert ("did not begin" in told(user.records())) is (ran == 0)


def assert_edited_or_told_that_not(user: Program) -> None:
    assert user.read("a.txt") in (OLD, NEW)
    assert ("did not begin" in told(user.records())) is (user.read("a.txt") == OLD)


def assert_used(user: Program) -> None:
    assert user.read("effects.log").split() == ["begun"]
    assert decided(user.records()) == [("finished", "use")]
    assert "the output" in told(user.records())


def test_a_recovery_killed_at_any_of_its_records_is_finished_by_the_next(
    program: NewProgram, battery: Callable[[str], None]
) -> None:
    cases: tuple[tuple[Crashed, str, Check, int], ...] = (  # ... and behind every which of its records it is killed
        (command_not_started, "redo-safe", assert_ran_once_or_told_that_not, 1),
        (not_edited, "redo-safe", assert_edited_or_told_that_not, 2),
        (command_finished, "verify", assert_used, 2),
    )

    def one(case: tuple[Crashed, str, Check, int]) -> int:
        crashed, policy, check, every = case
        user = program()
        session_id = crashed(user)
        before = Snapshot(user)
        words = ("-p", NEXT, "-r", session_id, "--mode", "auto", "--on-uncertain", policy)
        done = user.run(*words)
        assert done.code == 0, done.err
        check(user)
        written = next(i for i, record in enumerate(new_records(user, before), 1) if record == "user")
        points = range(1, written + 1, every)
        for count in points:
            before.restore()
            process = user.start(*words)
            process.wait_until(more(user, count))
            process.kill()
            again = user.run(*words)
            assert again.code == 0, again.err
            check(user)
            assert_settled_once(user.records())
            assert breaches(user.transcript()) == []
            user.assert_gone()
        assert user.recover(session_id)["uncertain_actions"] == []
        return len(points)

    counts = side_by_side(one, cases)
    battery(f"kill -9 during the recovery itself: {sum(counts)} kills, between the records of {len(cases)} recoveries")


def new_records(user: Program, before: Snapshot) -> list[str]:
    """What the records since then are, in a word."""
    records = user.records()[before.records :]
    return [
        str(record.payload.get("role") or record.payload.get("status") or record.payload.get("reason"))
        for record in records
    ]


POLICIES: tuple[tuple[str, int, list[tuple[str, str]], str], ...] = (  # policy, exit code, decision, the file after
    ("verify", 0, [("not_applied", "skip")], OLD),
    ("skip", 0, [("not_applied", "skip")], OLD),
    ("redo-safe", 0, [("not_applied", "redo")], NEW),
    ("fail", 5, [], OLD),
    ("ask", 5, [], OLD),
)


def test_only_the_policy_that_says_so_makes_an_edit_again_that_was_not_applied(program: NewProgram) -> None:
    def one(case: tuple[str, int, list[tuple[str, str]], str]) -> None:
        policy, code, decision, content = case
        user = program()
        session_id = not_edited(user)
        assert user.resume(session_id, NEXT, "--on-uncertain", policy).code == code
        assert decided(user.records()) == decision
        assert user.read("a.txt") == content
        assert len(user.recover(session_id)["uncertain_actions"]) == (1 if code == 5 else 0)
        if code == 0:
            assert_settled_once(user.records())

    side_by_side(one, POLICIES)


def test_no_policy_takes_an_edit_back_or_makes_it_twice(program: NewProgram) -> None:
    def one(policy: str) -> None:
        user = program()
        session_id = edited(user)
        assert user.resume(session_id, NEXT, "--on-uncertain", policy).code == 0
        assert user.read("a.txt") == NEW
        assert_settled_once(user.records())
        assert user.resume(session_id, EDIT).code == 0  # asked for again by the user: there is nothing to replace
        assert user.read("a.txt") == NEW

    side_by_side(one, ("verify", "skip", "redo-safe"))
