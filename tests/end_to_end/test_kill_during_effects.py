"""kill -9 while an action with effects is at work: its verdict is true, and nothing is done a second time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from tests.conftest import NewProgram, NewServer
from tests.kit.json_object import JsonObject
from tests.kit.program import Process, Program
from tests.kit.script import Script, bash, call, say
from tests.kit.side_by_side import side_by_side
from tests.kit.transcript import Record, breaches, outcomes, saw, transitions

# At work until the file `go` is there: no test depends on how fast the machine is.
COMMAND = "echo begun >> effects.log; until [ -e go ]; do sleep 0.02; done; echo ended >> effects.log; echo the end"
BIG_LINES = 400_000
BIG = b"".join(b"line %d of a big file\n" % number for number in range(BIG_LINES))
OLD, NEW = b"line 200000 of", b"LINE 200000 OF"

SCRIPT: Script = {
    "SLOW-COMMAND": [bash(COMMAND), say("never reached")],
    "BIG-EDIT": [
        call("Read", {"file_path": "big.txt", "offset": 200_000, "limit": 3}),
        call("Edit", {"file_path": "big.txt", "old_string": OLD.decode(), "new_string": NEW.decode()}),
        say("never reached"),
    ],
    "WITH-SUBAGENT": [call("Task", {"description": "wait", "prompt": "THE-CHILD waits"}), say("never reached")],
    "THE-CHILD": [bash(COMMAND), say("the child is done")],
    "GO-ON": [say("gone on")],
}


def uncertain(user: Program) -> list[JsonObject]:
    found: list[JsonObject] = user.recover(user.session_id())["uncertain_actions"]
    return found


def names_and_verdicts(found: Sequence[JsonObject]) -> list[object]:
    return [(one["tool_name"], one["verdict"], one["decision"], names_and_verdicts(one["children"])) for one in found]


def wait_for_text(user: Program, process: Process, text: str) -> None:
    """Wait until the command has written its line."""
    while text not in user.read("effects.log"):
        assert process.is_running(), process.err()
        time.sleep(0.002)


def decisions(records: Sequence[Record]) -> list[tuple[object, object]]:
    return [(details["verdict"], details["choice"]) for details in transitions(records, "recovery_decided")]


def test_a_command_outlives_the_agent_and_its_result_is_used_once(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    process = user.start("-p", "SLOW-COMMAND", "--mode", "auto")
    wait_for_text(user, process, "begun")
    process.kill()
    assert names_and_verdicts(uncertain(user)) == [("Bash", "running", None, [])]
    shown = user.run("recover", user.session_id())
    assert shown.code == 5
    assert f"Bash  {COMMAND}" in shown.out
    assert "RUNNING" in shown.out
    user.write("go", "")
    done = user.resume(user.session_id(), "GO-ON")
    assert (done.code, done.out) == (0, "gone on\n")
    started = next(record for record in user.records() if record.is_action("started"))
    assert f"Bash  {COMMAND}" in done.err
    assert time.strftime("started %H:%M", seconds_of(started)) in done.err
    assert "Bash: finished, decided: use" in done.err
    assert decisions(user.records()) == [("finished", "use")]
    result = model.last("GO-ON").result_of("Bash")
    assert result.startswith("[Recovery]")
    assert result.endswith("the end")
    assert user.read("effects.log").split() == ["begun", "ended"]
    assert breaches(user.transcript()) == []
    user.assert_gone()


def seconds_of(record: Record) -> time.struct_time:
    """The record's time on the clock of this machine."""
    return datetime.fromisoformat(str(record.fields["timestamp"])).astimezone().timetuple()


def test_a_big_edit_is_whole_after_any_kill(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    edited = BIG.replace(OLD, NEW)
    kinds: dict[str, int] = {}

    def one(wait_s: float) -> None:
        model = server(SCRIPT)
        user = program(model)
        path = user.write("big.txt", BIG)
        process = user.start("-p", "BIG-EDIT", "--mode", "auto")
        process.wait_until(saw("started", "Edit"))
        time.sleep(wait_s)
        process.kill()
        ended = not any(not count for count in outcomes(user.records()).values())
        content = path.read_bytes()
        assert content in (BIG, edited)
        open_actions = [record for record in user.records() if record.is_action("started", "Edit")]
        assert len(open_actions) == 1
        done_before = any(record.is_action("completed", "Edit") for record in user.records())
        verdict = "recorded" if done_before else "applied" if content == edited else "not_applied"
        kinds[verdict] = kinds.get(verdict, 0) + 1
        if not done_before:
            assert not ended
            assert names_and_verdicts(uncertain(user)) == [("Edit", verdict, None, [])]
        done = user.resume(user.session_id(), "GO-ON")
        assert (done.code, done.out) == (0, "gone on\n")
        assert ("Edit  big.txt" in done.err) is not done_before
        wanted = {"recorded": [], "applied": [("applied", "keep")], "not_applied": [("not_applied", "skip")]}
        assert decisions(user.records()) == wanted[verdict]
        assert path.read_bytes() == content
        assert [entry.name for entry in user.workspace.iterdir()] == ["big.txt"]  # no temp file is left
        assert breaches(user.transcript()) == []

    waits = [0.0, 0.05, 0.1, 0.2]
    side_by_side(one, waits)
    battery(f"kill -9 during a big Edit: {len(waits)} kills, {kinds}")


def test_a_task_killed_with_its_agent_shows_what_its_child_left_open(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    process = user.start("-p", "WITH-SUBAGENT", "--mode", "auto")
    wait_for_text(user, process, "begun")
    process.kill()
    found = uncertain(user)
    assert names_and_verdicts(found) == [("Task", "interrupted", None, [("Bash", "running", None, [])])]
    assert found[0]["arguments"]["prompt"] == "THE-CHILD waits"
    user.write("go", "")
    done = user.resume(user.session_id(), "GO-ON")
    assert (done.code, done.out) == (0, "gone on\n")
    assert "Task  wait" in done.err
    assert f"Bash  {COMMAND}" in done.err
    assert user.read("effects.log").split() == ["begun", "ended"]
    assert all(breaches(path) == [] for path in user.transcripts())
    user.assert_gone()
    again = user.resume(user.session_id(), "GO-ON")
    assert "Task  wait" not in again.err


POLICIES: tuple[
    tuple[str, int, list[tuple[str, str]], list[str]], ...
] = (  # the policy, its exit code, what it decides, and what the command did
    ("verify", 0, [("finished", "use")], ["begun", "ended"]),
    ("skip", 0, [("killed", "stop")], ["begun"]),
    ("redo-safe", 0, [("finished", "use")], ["begun", "ended"]),
    ("fail", 5, [], ["begun", "ended"]),
)


def test_a_stated_policy_decides_what_becomes_of_a_running_command(server: NewServer, program: NewProgram) -> None:
    def one(case: tuple[str, int, list[tuple[str, str]], list[str]]) -> None:
        policy, code, decided, effects = case
        model = server(SCRIPT)
        user = program(model)
        process = user.start("-p", "SLOW-COMMAND", "--mode", "auto")
        wait_for_text(user, process, "begun")
        process.kill()
        before = user.transcript().read_bytes()
        if policy != "skip":
            user.write("go", "")
        done = user.resume(user.session_id(), "GO-ON", "--on-uncertain", policy, "--output-format", "json")
        assert (done.code, done.json()["exit_code"]) == (code, code)
        assert decisions(user.records()) == decided
        assert len(model.requests) == (2 if code == 0 else 1)
        user.assert_gone()
        assert user.read("effects.log").split() == effects
        assert user.transcript().read_bytes().startswith(before)
        if code == 5:
            assert done.json()["terminal_reason"] == "decision_needed"
            assert [one["decision"] for one in done.json()["uncertain_actions"]] == [None]
            assert not any(record.is_message("tool") for record in user.records())

    side_by_side(one, POLICIES)
