"""What programs read: `--output-format json` and `stream-json`."""

from __future__ import annotations

from tests.conftest import NewProgram, NewServer
from tests.kit.json_object import JsonObject
from tests.kit.script import Reply, Script, Usage, bash, say
from tests.kit.transcript import EVENT_TYPES

SCRIPT: Script = {
    "GO": [
        Reply("I look. ", calls=bash("echo hi").calls, usage=Usage(100, 10, 40)),
        Reply("All is done.", usage=Usage(200, 20, 80)),
    ],
    "NEXT": [say("went on")],
}
EVENT_KEYS = {"type", "session_id", "run_id", "step", "payload"}


def result(session_id: str, transcript: str, **changed: object) -> JsonObject:
    return {
        "type": "result",
        "status": "completed",
        "terminal_reason": "completed",
        "exit_code": 0,
        "response": "All is done.",
        "session_id": session_id,
        "run_id": "run-1",
        "steps": 2,
        "usage": {"input_tokens": 300, "cached_tokens": 120, "output_tokens": 30},
        "permission_denials": [],
        "uncertain_actions": [],
        "damage": [],
        "transcript_path": transcript,
        "resume_command": f"mycodeagent -r {session_id}",
        "error": None,
        **changed,
    }


def test_json_is_one_object_that_says_all(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.ask("GO", "--output-format", "json")
    assert done.out.count("\n") == 1
    assert done.json() == result(user.session_id(), str(user.transcript()))


def test_a_refused_call_is_told_with_exit_code_4(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.run("-p", "GO", "--output-format", "json")
    value = done.json()
    (denied,) = value["permission_denials"]
    assert (denied["tool_name"], denied["subject"], denied["answer"]) == ("Bash", "echo hi", "unanswered")
    wanted = result(user.session_id(), str(user.transcript()), exit_code=4, permission_denials=[denied])
    assert (done.code, value) == (4, wanted)


def test_stream_json_gives_every_event_and_the_result_object_last(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.ask("GO", "--output-format", "stream-json")
    *events, last = done.json_lines()
    assert last == result(user.session_id(), str(user.transcript()))
    assert {frozenset(event) for event in events} == {frozenset(EVENT_KEYS)}
    assert {event["type"] for event in events} <= EVENT_TYPES | {"session", "text_delta"}
    session, *_ = [event for event in events if event["type"] == "session"]
    assert session["payload"] == {"transcript_path": str(user.transcript()), "workspace": str(user.workspace)}
    deltas = "".join(event["payload"]["text"] for event in events if event["type"] == "text_delta")
    assert deltas == "I look. All is done."
    recorded = [record.event_type for record in user.records() if record.fields["run_id"]]
    assert [event["type"] for event in events if event["type"] in EVENT_TYPES and event["run_id"]] == recorded


def test_a_fault_before_a_session_has_the_same_shape(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.run("-p", "GO", "-r", "no-such", "--output-format", "json")
    value = done.json()
    assert set(value) == set(result("", ""))
    assert (done.code, value["exit_code"], value["status"], value["session_id"]) == (2, 2, "failed", None)
    assert "no-such" in value["error"]["message"]


def test_the_resume_command_resumes(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model, memory_dir=None)
    place = user.folder / "my memory"
    first = user.ask("GO", "--memory-dir", str(place), "--output-format", "json").json()
    assert first["transcript_path"].startswith(str(place))
    words = first["resume_command"].split(" ", 3)
    assert words[:3] == ["mycodeagent", "-r", first["session_id"]]
    done = user.run("-p", "NEXT", "-r", first["session_id"], "--memory-dir", str(place))
    assert (done.code, done.out) == (0, "went on\n")
    assert model.last("NEXT").texts("user") == ["GO", "NEXT"]
    assert user.transcripts() == []
