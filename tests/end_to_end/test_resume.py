"""Sessions go on: found by id, prefix and name, from anywhere, through several crashes, in one file."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Program
from tests.kit.request import Request
from tests.kit.script import Script, bash, say
from tests.kit.transcript import arguments, breaches, outcomes, saw, transitions

TURNS = ("TURN-ONE", "TURN-TWO", "TURN-THREE", "TURN-FOUR")
SLOW = "echo {0} >> effects.log; sleep 0.7; echo end-of-{0} >> effects.log"
SCRIPT: Script = {
    **{turn: [bash(f"echo {turn} >> effects.log"), say(f"answer to {turn}")] for turn in TURNS},
    "CRASH-ONE": [bash(SLOW.format("alpha")), say("never reached")],
    "CRASH-TWO": [bash(SLOW.format("omega")), say("never reached")],
    "AFTER-ALL": [say("all is known")],
}


def spoken(request: Request, *roles: str) -> list[str]:
    return [text for text in request.texts(*roles) if text]


def crash(user: Program, *args: str, at: str) -> None:
    """Run until the command is at work, and kill the agent."""
    user.start("-p", *args, "--mode", "auto").kill_when(saw("started", "Bash", at))


def test_four_chained_runs_the_fourth_request_holds_all_four_turns(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    for number, turn in enumerate(TURNS):
        done = user.ask(turn, *(["-c"] if number else []))
        assert (done.code, done.out) == (0, f"answer to {turn}\n")
    last = model.last(TURNS[-1])
    assert spoken(last, "user") == list(TURNS)
    assert spoken(last, "assistant") == [f"answer to {turn}" for turn in TURNS[:-1]]
    assert [call.arguments.count("effects.log") for call in last.calls()] == [1, 1, 1, 1]
    records = user.records()
    assert [record.fields["run_id"] for record in records if record.event_type == "terminal"] == [
        "run-1",
        "run-2",
        "run-3",
        "run-4",
    ]
    assert sum(record.event_type == "message" for record in records) == 16
    assert user.read("effects.log").split() == list(TURNS)
    assert breaches(user.transcript()) == []


def test_two_resumes_after_two_crashes_keep_one_history_in_one_file(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    crash(user, "CRASH-ONE", at="echo alpha")
    session_id = user.session_id()
    crash(user, "CRASH-TWO", "-r", session_id, at="echo omega")
    done = user.resume(session_id, "AFTER-ALL")
    assert (done.code, done.out) == (0, "all is known\n")
    records = user.records()
    assert breaches(user.transcript()) == []
    assert spoken(model.last("AFTER-ALL"), "user") == ["CRASH-ONE", "CRASH-TWO", "AFTER-ALL"]
    decided = [str(details["action_id"]) for details in transitions(records, "recovery_decided")]
    assert len(decided) == len(set(decided)) == 2
    assert max(outcomes(records).values()) <= 1
    answered = [record.payload["tool_call_id"] for record in records if record.is_message("tool")]
    assert answered == list(arguments(records))
    user.assert_gone()
    effects = user.read("effects.log").split()
    assert sorted(effects) == sorted(set(effects))
    shown = user.recover(session_id)
    assert (shown["uncertain_actions"], shown["pending_tool_calls"], shown["damage"]) == ([], [], [])


def test_a_session_is_found_by_id_prefix_and_name_from_another_directory(
    server: NewServer, program: NewProgram, tmp_path: Path
) -> None:
    model = server(SCRIPT)
    user = program(model)
    user.ask("TURN-ONE", "-n", "the-repair")
    session_id = user.session_id()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for word in (session_id, session_id[:12], "the-repair"):
        done = user.run("-p", "AFTER-ALL", "-r", word, "--mode", "auto", cwd=elsewhere)
        assert (done.code, done.out) == (0, "all is known\n")
        assert f"Working in {user.workspace}" in done.err
    assert spoken(model.last(), "user") == ["TURN-ONE", "AFTER-ALL", "AFTER-ALL", "AFTER-ALL"]
    assert user.transcripts() == [user.transcript()]
    assert list(elsewhere.iterdir()) == []
    missing = user.run("-p", "AFTER-ALL", "-r", "no-such-session", cwd=elsewhere)
    assert (missing.code, missing.out) == (2, "")
    assert "no-such-session" in missing.err
    none_here = user.run("-p", "AFTER-ALL", "-c", cwd=elsewhere)
    assert (none_here.code, none_here.out) == (2, "")


def test_a_name_of_two_sessions_is_an_error_that_lists_them(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    for _ in range(2):
        user.ask("TURN-ONE", "-n", "twice")
    done = user.run("-p", "AFTER-ALL", "-r", "twice")
    assert done.code == 2
    assert [name in done.err for name in (path.stem.removeprefix("transcript-") for path in user.transcripts())] == [
        True,
        True,
    ]


def test_four_resumes_without_a_prompt_add_no_message_and_change_no_request(
    server: NewServer, program: NewProgram
) -> None:
    """K10: each resume stored the tool results once more, and the request grew."""
    model = server(SCRIPT)
    user = program(model)
    for number, turn in enumerate(TURNS[:2]):
        user.ask(turn, *(["-c"] if number else []))
    session_id = user.session_id()
    before, earlier = user.records(), model.last()
    for _ in range(4):
        terminal = user.terminal("-r", session_id)
        terminal.wait_for(f"Session {session_id}: ")
        terminal.wait_for_prompt()
        terminal.press("ctrl-d")
        assert terminal.wait_exit() == 0
    after = user.records()
    assert after[: len(before)] == before
    reasons = [record.payload.get("reason") for record in after[len(before) :]]
    assert reasons == ["session_opened", "session_closed"] * 4
    assert user.resume(session_id, "AFTER-ALL").out == "all is known\n"
    later, answered = model.last("AFTER-ALL"), len(earlier.messages)
    assert later.messages[1:answered] == earlier.messages[1:]
    assert [message["role"] for message in later.messages[answered:]] == ["assistant", "user"]
    assert breaches(user.transcript()) == []


def test_there_is_nothing_to_continue_after_a_whole_run_or_one_whose_prompt_was_not_recorded(
    server: NewServer, program: NewProgram
) -> None:
    model = server(SCRIPT)
    user = program(model)
    user.ask("TURN-ONE")
    whole = user.go_on(user.session_id())
    path = user.transcript()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert [record.payload["reason"] for record in user.records()] == ["session_opened", "run_started"]
    begun = user.go_on(user.session_id())
    for done in (whole, begun):
        assert (done.code, done.out) == (2, "")
        assert "nothing to continue" in done.err
    assert len(model.requests) == 2
    assert user.resume(user.session_id(), "AFTER-ALL").out == "all is known\n"
    assert model.last().texts("user") == ["AFTER-ALL"]
