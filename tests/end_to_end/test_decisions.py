"""What a user decides about an interrupted action happens, once; what must not be decided is not offered."""

from __future__ import annotations

import json
import re
import stat
import time

import pytest

from tests.conftest import NewProgram, NewServer
from tests.end_to_end.crashed import (
    ANSWER,
    COMMAND,
    NEW,
    NEXT,
    OLD,
    assert_settled_once,
    begun,
    cut_after,
    cut_behind,
    decide,
    decided,
    edited,
    holding,
    left,
    not_edited,
    resumed,
    rewrite,
    shown_choices,
    told,
)
from tests.kit.program import Program
from tests.kit.script import Script, call, say
from tests.kit.side_by_side import side_by_side
from tests.kit.terminal import Terminal
from tests.kit.transcript import breaches, end_of, read_records

# -- Edit and Write


def test_an_applied_edit_can_be_kept_reverted_verified_and_shown(program: NewProgram) -> None:
    cases = (
        ((), "keep", NEW, "go on from it"),
        (("1 show", "1 verify"), "verify", NEW, "Check what is really there"),
        (("1 revert",), "revert", OLD, "taken back"),
        (("1 revert", "1 keep"), "keep", NEW, "go on from it"),
    )

    def one(case: tuple[tuple[str, ...], str, str, str]) -> None:
        typed, choice, content, words = case
        user = program()
        session_id = edited(user)
        screen = decide(user, session_id, *typed)
        assert "APPLIED: the file has the planned content" in screen
        assert shown_choices(screen) == ["keep", "revert", "verify", "show"]
        assert ("sha256_planned:" in screen) is ("1 show" in typed)
        assert user.read("a.txt") == content
        assert stat.S_IMODE((user.workspace / "a.txt").stat().st_mode) == 0o751
        records = user.records()
        assert decided(records) == [("applied", choice)]
        assert words in told(records)
        assert_settled_once(records)
        assert breaches(user.transcript()) == []
        assert [path.name for path in user.workspace.iterdir()] == ["a.txt"]

    side_by_side(one, cases)


def test_a_revert_that_a_crash_cut_short_is_told_as_done_and_not_taken_back_again(program: NewProgram) -> None:
    user = program()
    session_id = edited(user)
    decide(user, session_id, "1 revert")
    cut_behind(user, lambda record: record.is_action("started") and bool(record.payload.get("reverts")))
    assert user.read("a.txt") == OLD
    terminal = resumed(user, session_id, "--mode", "auto")
    assert "APPLIED" in terminal.text()
    assert "content from before again" in terminal.text()
    assert shown_choices(terminal.text()) == ["keep", "verify", "show"]
    terminal.enter("1 revert")
    terminal.wait_for(r"\[1\] can be: keep · verify · show")
    terminal.enter(NEXT)
    terminal.wait_for(ANSWER)
    left(terminal)
    assert user.read("a.txt") == OLD
    records = user.records()
    assert decided(records) == [("applied", "revert"), ("applied", "keep")]
    assert "from before again" in told(records)
    assert "go on from it" not in told(records)
    assert_settled_once(records)
    assert user.recover(session_id)["uncertain_actions"] == []


def test_reverting_a_new_file_removes_it(program: NewProgram) -> None:
    user = program()
    session_id = cut_after(user, "create a file new.txt with the text hello", "Write")
    assert user.read("new.txt") == "hello\n"
    decide(user, session_id, "1 revert")
    assert list(user.workspace.iterdir()) == []
    assert decided(user.records()) == [("applied", "revert")]
    assert "Removed new.txt" in told(user.records())
    assert_settled_once(user.records())


def test_a_file_that_held_the_key_is_not_kept_so_no_revert_is_offered(server: NewServer, program: NewProgram) -> None:
    script: Script = {
        "EDIT": [
            call("Read", {"file_path": "a.txt"}),
            call("Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}),
            say("edited"),
        ],
        NEXT: [say(ANSWER)],
    }
    user = program(server(script))
    user.write("a.txt", OLD + user.key)
    session_id = cut_after(user, "EDIT", "Edit")
    terminal = resumed(user, session_id)
    assert shown_choices(terminal.text()) == ["keep", "verify", "show"]
    terminal.enter("1 revert")
    terminal.wait_for(r"\[1\] can be: keep · verify · show")
    terminal.enter(NEXT)
    terminal.wait_for(ANSWER)
    left(terminal)
    assert user.read("a.txt") == NEW + user.key
    assert decided(user.records()) == [("applied", "keep")]
    assert holding(user.state, user.key) == []


def test_an_edit_of_a_file_that_somebody_changed_since_is_verified_and_never_reverted(program: NewProgram) -> None:
    user = program()
    session_id = edited(user)
    user.write("a.txt", "theirs\n")
    screen = decide(user, session_id, "1 revert")
    assert "CHANGED SINCE: the file has neither" in screen
    assert shown_choices(screen) == ["verify", "skip", "redo", "show"]
    assert "[1] can be: verify · skip · redo · show" in screen
    assert user.read("a.txt") == "theirs\n"
    assert decided(user.records()) == [("changed_since", "verify")]
    assert "Check what is really there" in told(user.records())


def test_a_file_that_somebody_changes_between_decision_and_revert_is_left_alone(program: NewProgram) -> None:
    user = program()
    session_id = edited(user)
    terminal = resumed(user, session_id, "--mode", "auto")
    terminal.enter("1 revert")
    terminal.wait_for("as soon as you go on")
    user.write("a.txt", "theirs\n")
    terminal.enter(NEXT)
    terminal.wait_for(ANSWER)
    left(terminal)
    assert user.read("a.txt") == "theirs\n"
    assert "was not reverted" in told(user.records())
    assert_settled_once(user.records())


def test_a_redone_edit_is_an_action_like_any_other_question_included(program: NewProgram) -> None:
    def one(answer: str) -> None:
        user = program()
        session_id = not_edited(user)
        terminal = resumed(user, session_id)
        assert "NOT APPLIED: the file has the content from before" in terminal.text()
        assert shown_choices(terminal.text()) == ["skip", "redo", "show"]
        terminal.enter("1 redo")
        terminal.wait_for("as soon as you go on")
        terminal.enter(NEXT)
        terminal.wait_for(r"Allow Edit\?")
        terminal.wait_for(r"-the old text\s+\+the new text")
        terminal.enter(answer)
        terminal.wait_for(ANSWER)
        left(terminal)
        records = user.records()
        assert user.read("a.txt") == (NEW if answer == "y" else OLD)
        assert decided(records) == [("not_applied", "redo")]
        first, *rest = [r.payload["action_id"] for r in records if r.is_action("requested", "Edit")]
        (again,) = rest
        (outcome,) = [
            r.payload
            for r in records
            if r.payload.get("action_id") == again and r.payload.get("status") in ("completed", "failed")
        ]
        assert (outcome["redo_of"], outcome["status"]) == (first, "completed" if answer == "y" else "failed")
        assert_settled_once(records)
        assert breaches(user.transcript()) == []

    side_by_side(one, ("y", "n"))


# -- Bash


def test_a_finished_command_is_used_or_run_again_once(program: NewProgram) -> None:
    def one(choice: str) -> None:
        user = program()
        session_id = cut_after(user, f"run {COMMAND}", "Bash")
        screen = decide(user, session_id, f"1 {choice}")
        assert re.search(r"FINISHED: exit 3 at \d\d:\d\d:\d\d, 11 bytes of output", screen)
        assert user.read("effects.log").split() == ["begun"] * (2 if choice == "redo" else 1)
        records = user.records()
        assert decided(records) == [("finished", choice)]
        assert "the output" in told(records)
        assert "exit code 3" in told(records)
        assert_settled_once(records)
        assert user.recover(session_id)["uncertain_actions"] == []

    side_by_side(one, ("use", "redo"))


def test_a_redo_that_is_refused_does_not_hide_that_the_command_ran_before(program: NewProgram) -> None:
    user = program()
    session_id = cut_after(user, f"run {COMMAND}", "Bash")
    terminal = resumed(user, session_id)
    terminal.enter("1 redo")
    terminal.wait_for("as soon as you go on")
    terminal.enter(NEXT)
    terminal.wait_for(r"Allow Bash\?")
    terminal.enter("n")
    terminal.wait_for(ANSWER)
    left(terminal)
    assert user.read("effects.log") == "begun\n"
    assert "Verdict: finished: exit 3" in told(user.records())
    assert "did not allow" in told(user.records())
    assert_settled_once(user.records())


@pytest.mark.parametrize("tool", ["Bash", "Edit"])
def test_a_crash_before_the_second_attempt_begins_does_not_hide_what_the_first_did(
    program: NewProgram, tool: str
) -> None:
    user = program()
    session_id = edited(user) if tool == "Edit" else cut_after(user, f"run {COMMAND}", "Bash")
    decide(user, session_id, "1 revert" if tool == "Edit" else "1 redo")
    cut_behind(user, lambda record: record.is_action("requested", tool))
    if tool == "Edit":
        user.write("a.txt", NEW)
    assert user.resume(session_id, NEXT).code == 0
    said = told(user.records())
    assert "had no effect" not in said
    assert f"Verdict: {'applied' if tool == 'Edit' else 'finished'}" in said
    assert "did not begin" in said
    assert_settled_once(user.records())


def test_a_revert_that_did_not_come_to_pass_is_tried_again_as_a_revert(program: NewProgram) -> None:
    user = program()
    session_id = edited(user)
    decide(user, session_id, "1 revert")
    cut_behind(user, lambda record: record.is_action("started") and bool(record.payload.get("reverts")))
    user.write("a.txt", NEW)
    screen = decide(user, session_id, "1 redo")
    assert "NOT APPLIED: the change was not taken back, the file has it still" in screen
    assert user.read("a.txt") == OLD
    assert decided(user.records()) == [("applied", "revert"), ("not_applied", "redo")]
    assert "Gave a.txt its content from before again." in told(user.records())
    assert_settled_once(user.records())


# -- a command that still runs


def running(user: Program, command: str) -> str:
    """Killed while the command runs; the session's id."""
    process = user.start("-p", f"run {command}", "--mode", "auto")
    wait_for_line(user, "begun")
    process.kill()
    return user.session_id()


def wait_for_line(user: Program, text: str, timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while text not in user.read("effects.log"):
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_running_command_is_stopped_with_its_whole_tree(program: NewProgram) -> None:
    user = program()
    stubborn = "setsid sh -c 'trap \"\" TERM; echo begun >> effects.log; while :; do sleep 0.1; done'"
    session_id = running(user, f"{stubborn} & wait; echo ended >> effects.log")
    screen = decide(user, session_id, "1 stop")
    assert re.search(r"RUNNING: it still runs under its supervisor \(pid \d+\): pid \d+", screen)
    assert shown_choices(screen) == ["wait", "stop", "show"]
    user.assert_gone()
    assert user.read("effects.log") == "begun\n"
    assert decided(user.records()) == [("killed", "stop")]
    assert "Verdict: killed: ended because it was told to stop" in told(user.records())
    assert_settled_once(user.records())


def test_a_wait_survives_ctrl_c_and_kill_9_and_the_result_is_used_once(program: NewProgram) -> None:
    user = program()
    user.write("effects.log", "")
    waiting = "echo begun >> effects.log; while [ ! -e go ]; do sleep 0.05; done"
    session_id = running(user, f"{waiting}; echo ended >> effects.log; echo the output; exit 3")
    terminal = waits(user, session_id)
    terminal.press("ctrl-c")
    terminal.wait_for_prompt()
    terminal.enter(NEXT)  # which means to wait on
    terminal.close()
    assert decided(user.records()) == []
    terminal = waits(user, session_id)
    terminal.close()
    assert decided(user.records()) == []
    terminal = waits(user, session_id)
    user.write("go", "")
    terminal.wait_for(ANSWER)
    left(terminal)
    assert user.read("effects.log").split() == ["begun", "ended"]
    assert decided(user.records()) == [("finished", "use")]
    assert "the output" in told(user.records())
    assert "exit code 3" in told(user.records())
    assert_settled_once(user.records())
    user.assert_gone()


def waits(user: Program, session_id: str) -> Terminal:
    """A terminal on which the user has said to wait, and gone on."""
    terminal = resumed(user, session_id, "--mode", "auto")
    assert "RUNNING" in terminal.text()
    terminal.enter("1 wait")
    terminal.wait_for("as soon as you go on")
    terminal.enter(NEXT)
    terminal.wait_for(f"› {NEXT}")
    return terminal


@pytest.mark.parametrize("place", ["claim", "intent"])
def test_a_command_of_another_boot_is_unknown_and_never_redone_by_a_policy(program: NewProgram, place: str) -> None:
    user = program()
    session_id = cut_after(user, f"run {COMMAND}", "Bash")
    (outputs,) = user.state.glob("projects/*/memory/outputs/*/*")
    (outputs / "outcome").unlink()
    claim = json.loads((outputs / "claim").read_text())
    if place == "claim":
        (outputs / "claim").write_text(json.dumps(claim | {"boot_id": "another-boot"}))
    else:
        (outputs / "claim").unlink()
        rewrite(user, begun("Bash"), lambda payload: payload["intent"].update(boot_id="another-boot"))
    rewrite(user, lambda r: r.is_transition("session_opened"), lambda p: p["details"].update(boot_id="another-boot"))
    done = user.resume(session_id, NEXT, "--on-uncertain", "redo-safe")
    assert done.code == 0
    assert "UNKNOWN: " in done.err
    assert "restarted" in done.err
    assert user.read("effects.log") == "begun\n"
    assert decided(user.records()) == [("unknown", "verify")]
    assert "Check what is really there" in told(user.records())
    notes = [
        r.payload["content"] for r in user.records() if r.is_message("user") and "[Recovery]" in r.payload["content"]
    ]
    assert ["The machine has restarted since" in note for note in notes] == [True]


# -- a subagent


def subagent_cut_short(user: Program) -> str:
    """Killed while a command of the subagent runs, which then comes to its end; the session's id."""
    task = "ask a subagent to run echo begun >> effects.log; sleep 0.4; echo the output"
    process = user.start("-p", task, "--mode", "auto")
    wait_for_line(user, "begun")
    process.kill()
    user.assert_gone()
    return user.session_id()


def test_an_interrupted_subagent_goes_on_or_its_report_is_used_or_left(program: NewProgram) -> None:
    def one(choice: str) -> None:
        user = program()
        session_id = subagent_cut_short(user)
        (child,) = [path for path in user.transcripts() if "subagent-" in path.name]
        before = child.read_bytes()
        screen = decide(user, session_id, f"1 {choice}")
        assert "INTERRUPTED: the subagent was cut short" in screen
        assert re.search(r"· Bash  echo begun .*\n\s+FINISHED: exit 0", screen)
        assert shown_choices(screen) == ["resume", "use", "skip", "show"]
        assert user.read("effects.log") == "begun\n"
        assert decided(user.records(session_id)) == [("interrupted", choice)]
        assert_settled_once(user.records(session_id))
        assert [path for path in user.transcripts() if "subagent-" in path.name] == [child]
        assert child.read_bytes().startswith(before)
        of_child = read_records(child)
        if choice == "resume":
            assert "The command gave:" in told(user.records(session_id))
            assert "the output" in told(user.records(session_id))
            assert (decided(of_child), end_of(of_child)) == ([("finished", "use")], "completed")
            assert_settled_once(of_child)
        else:
            assert child.read_bytes() == before
            assert "Verdict: interrupted" in told(user.records(session_id))
        assert all(breaches(path) == [] for path in user.transcripts())

    side_by_side(one, ("resume", "use", "skip"))


def test_a_subagent_that_went_on_and_was_cut_off_again_by_a_crash_is_not_sent_on_a_third_time(
    program: NewProgram,
) -> None:
    user = program()
    session_id = subagent_cut_short(user)
    decide(user, session_id, "1 resume")
    cut_behind(user, begun("Task"), session_id)
    (child,) = [path for path in user.transcripts() if "subagent-" in path.name]
    before = child.read_bytes()
    screen = decide(user, session_id)
    assert "COMPLETED: the subagent had given its answer" in screen
    assert decided(user.records(session_id)) == [("interrupted", "resume"), ("completed", "use")]
    assert "The command gave:" in told(user.records(session_id))
    assert_settled_once(user.records(session_id))
    assert child.read_bytes() == before


# -- a fork


def test_a_fork_of_a_crashed_session_offers_no_decision_and_changes_nothing(program: NewProgram) -> None:
    user = program()
    session_id = not_edited(user)
    before = user.transcript().read_bytes()
    terminal = resumed(user, session_id, "--fork", "--mode", "auto")
    assert "[1] Edit" not in terminal.text()
    terminal.enter("1 redo")  # an ordinary prompt here, which the demo model does not understand
    terminal.wait_for("I am the demo model")
    left(terminal)
    forked = user.resume(session_id, NEXT, "--fork", "--on-uncertain", "redo-safe", "--output-format", "json").json()
    assert (forked["exit_code"], forked["uncertain_actions"]) == (0, [])
    assert user.read("a.txt") == OLD
    assert user.transcript(session_id).read_bytes() == before
    assert decided(user.records(forked["session_id"])) == []
    assert [one["verdict"] for one in user.recover(session_id)["uncertain_actions"]] == ["not_applied"]
