"""One session has one live owner; whoever comes second is told its pid and may fork."""

from __future__ import annotations

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Process, Program
from tests.kit.script import Script, bash, call, say
from tests.kit.transcript import breaches, saw, transitions

SCRIPT: Script = {
    "LONG-WORK": [
        call("Write", {"file_path": "note.txt", "content": "a note\n"}),
        bash("echo begun >> effects.log; sleep 8; echo ended >> effects.log"),
        say("never reached"),
    ],
    "SECOND": [say("the second speaks")],
}


def at_work(user: Program) -> Process:
    process = user.start("-p", "LONG-WORK", "--mode", "auto")
    process.wait_until(saw("started", "Bash"))
    return process


def test_the_second_process_is_refused_with_the_owners_pid_until_the_owner_is_dead(
    server: NewServer, program: NewProgram
) -> None:
    model = server(SCRIPT)
    user = program(model)
    owner = at_work(user)
    session_id = user.session_id()
    before = user.transcript().read_bytes()
    for words in (["-r", session_id], ["-c"]):
        refused = user.run("-p", "SECOND", *words)
        assert (refused.code, refused.out) == (6, "")
        assert f"{owner.pid}" in refused.err
        assert "--fork" in refused.err
    shown = user.run("recover", session_id, "--json")
    assert (shown.code, shown.json()["live"], shown.json()["owner"]["pid"]) == (0, True, owner.pid)
    as_json = user.run("-p", "SECOND", "-c", "--output-format", "json").json()
    assert (as_json["exit_code"], as_json["status"], as_json["session_id"]) == (6, "failed", None)
    assert user.transcript().read_bytes() == before
    owner.kill()
    done = user.resume(session_id, "SECOND", "--on-uncertain", "skip")
    assert (done.code, done.out) == (0, "the second speaks\n")
    assert breaches(user.transcript()) == []
    user.assert_gone()


def test_a_fork_of_a_live_session_has_its_history_and_leaves_it_alone(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    owner = at_work(user)
    session_id, before = user.session_id(), user.transcript().read_bytes()
    done = user.resume(session_id, "SECOND", "--fork")
    assert (done.code, done.out) == (0, "the second speaks\n")
    assert owner.is_running()
    assert user.transcript(session_id).read_bytes() == before
    request = model.last("SECOND")
    assert request.texts("user") == ["LONG-WORK", "SECOND"]
    assert request.result_of("Write") == "Created note.txt."
    assert "fork" in request.result_of("Bash")
    (other,) = [path for path in user.transcripts() if path.name != f"transcript-{session_id}.jsonl"]
    assert breaches(other) == []
    owner.kill()


def test_a_fork_of_a_crashed_session_decides_nothing_of_it(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    at_work(user).kill()
    session_id, before = user.session_id(), user.transcript().read_bytes()
    done = user.resume(session_id, "SECOND", "--fork", "--output-format", "json")
    assert (done.code, done.json()["response"]) == (0, "the second speaks")
    assert done.json()["session_id"] != session_id
    assert done.json()["uncertain_actions"] == []
    assert transitions(user.records(done.json()["session_id"]), "recovery_decided") == []
    assert user.transcript(session_id).read_bytes() == before
    left_open = user.recover(session_id)["uncertain_actions"]
    assert [(one["tool_name"], one["decision"]) for one in left_open] == [("Bash", None)]
    assert user.resume(session_id, "SECOND", "--on-uncertain", "skip").code == 0
    assert len(transitions(user.records(session_id), "recovery_decided")) == 1
    user.assert_gone()
