"""A fork begins with the history of another session and decides nothing of it."""

from __future__ import annotations

from pathlib import Path

from agent.host import CodeAgent
from agent.permissions import Answer, Mode, Rule
from tests.kit.in_process import Answers, FailingDisk, Someone, run, until_crash
from tests.kit.script import Call, Reply, Script, call, say
from tests.kit.transcript import breaches, statuses, transitions

BASH = Call("Bash", {"command": "echo once >> done.txt"})
SCRIPT: Script = {
    "first": [Reply(calls=(Call("Read", {"file_path": "a.txt"}),)), Reply(calls=(BASH,)), say("done")],
    "second": [call("Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}), say("edited")],
    "third": [say("yes")],
}


def someone(folder: Path) -> Someone:
    one = Someone(folder, SCRIPT)
    one.file("a.txt", "old\n")
    return one


def fork(one: Someone, session_id: str) -> CodeAgent:
    return CodeAgent.fork_of(one.services, one.files(session_id), (), name="the fork")


def test_a_fork_goes_on_from_the_history_in_a_file_of_its_own(tmp_path: Path) -> None:
    one = someone(tmp_path)
    one.with_services(mode=Mode.ASK, approver=Answers(Answer.ALWAYS))
    parent = one.start()
    run(parent, "first")
    before = one.files(parent.session_id).transcript.read_bytes()
    child = fork(one, parent.session_id)
    assert [(m.role, m.content) for m in child.history_manager.messages] == [
        (m.role, m.content) for m in parent.history_manager.messages
    ]
    assert (child.name, child.gate.granted) == ("the fork", [Rule("Bash", str(BASH.arguments["command"]))])  # type: ignore[index]
    (result,) = run(child, "second")
    assert (result.run_id, result.response) == ("run-2", "edited")  # it had read the file: an edit is possible
    assert one.files(parent.session_id).transcript.read_bytes() == before
    assert breaches(one.files(child.session_id).transcript) == [] == one.provider.invalid
    (forked,) = transitions(one.records(child.session_id), "forked")
    assert (forked["parent_session"], forked["parent_seq"]) == (parent.session_id, before.count(b"\n"))


def test_a_session_in_use_can_be_forked(tmp_path: Path) -> None:
    one = someone(tmp_path)
    parent = one.start()
    child = fork(one, parent.session_id)
    run(parent, "third")
    run(child, "third")
    assert one.provider.invalid == []


def test_a_fork_never_decides_an_action_of_its_parent(tmp_path: Path) -> None:
    one = someone(tmp_path)
    twin = someone(tmp_path / "twin")
    run(twin.start(), "first")
    started = next(i for i, r in enumerate(twin.records(twin.only_session()), 1) if r.is_action("started", "Bash"))
    parent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_after=started)).services, ())
    until_crash(parent, parent.run("first"))
    one.with_services(disk=FailingDisk())
    before = one.files(parent.session_id).transcript.read_bytes()

    child = fork(one, parent.session_id)
    assert child.uncertain == []
    run(child, "third")
    told = one.provider.requests[-1].result_of("Bash")
    assert "This session is a fork" in told and "do not repeat it" in told
    records = one.records(child.session_id)
    assert (statuses(records), transitions(records, "recovery_decided")) == ({}, [])
    assert not (one.workspace / "done.txt").exists()
    assert one.files(parent.session_id).transcript.read_bytes() == before
    assert len(one.resume(parent.session_id).uncertain) == 1  # there it is still open
    assert one.provider.invalid == []


def test_a_fork_of_a_fork_is_a_fork(tmp_path: Path) -> None:
    one = someone(tmp_path)
    parent = one.start()
    run(parent, "third")
    child = fork(one, parent.session_id)
    run(child)
    grandchild = fork(one, child.session_id)
    run(grandchild, "third")
    assert one.provider.requests[-1].texts("user") == ["third", "third"]
    assert one.provider.invalid == []
