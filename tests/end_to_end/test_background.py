"""Background commands in the whole program: read and ended by the model, never outliving the agent, told of once."""

from __future__ import annotations

import re
import signal
import time

import pytest

from tests.conftest import NewProgram, NewServer
from tests.kit.json_object import JsonObject
from tests.kit.model_server import ModelServer
from tests.kit.program import Program
from tests.kit.script import Script, bash, call, say
from tests.kit.transcript import Predicate, Record, breaches, results, saw

TICK = "while :; do echo tick >> ticks.log; echo tick; sleep 0.05; done"
TICKED = "until [ -s ticks.log ]; do sleep 0.01; done"
SCRIPT: Script = {
    "WATCH-IT": [
        bash(TICK, run_in_background=True),
        bash(TICKED),
        call("BashOutput", {"bash_id": "bash-1"}),
        call("KillBash", {"bash_id": "bash-1"}),
        call("BashOutput", {"bash_id": "bash-2"}),
        say("watched"),
    ],
    "LEAVE-IT": [bash(TICK, run_in_background=True), bash(TICKED), say("left")],
    "LEAVE-SOME": [bash(f"({TICK}) & echo begun"), bash(TICKED), say("left")],
    "HOLD-IT": [bash(TICK, run_in_background=True), bash(TICKED), bash("echo held > held.log; sleep 1"), say("never")],
    "BY-A-CHILD": [call("Task", {"description": "x", "prompt": "LEAVE-IT"}), bash("cat ticks.log | wc -l"), say("ok")],
    "GO-ON": [say("gone on")],
    "READ-IT": [call("BashOutput", {"bash_id": "bash-1"}), bash("true", run_in_background=True), say("read")],
}
GONE = "The background command bash-1 (while :; do echo tick >> ticks.log; echo tick; sleep 0.05; done) "


def notes(model: ModelServer, marker: str) -> list[str]:
    """The recovery notes in the last request of a prompt."""
    return [text for text in model.last(marker).texts("user") if text.startswith("[Recovery]")]


def background(records: list[Record]) -> list[JsonObject]:
    return [record.payload["background"] for record in records if record.payload.get("background")]


def killed_while_it_held(user: Program) -> None:
    process = user.start("-p", "HOLD-IT", "--mode", "auto")
    while not user.read("held.log"):
        assert process.is_running(), process.err()
        time.sleep(0.005)
    process.kill()


def test_the_model_starts_reads_and_ends_a_background_command(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.ask("WATCH-IT")
    assert (done.code, done.out) == (0, "watched\n")
    said = list(results(user.records()).values())
    assert said[0].startswith("Runs in the background as bash-1, and is ended when the session ends ")
    assert re.fullmatch(r"(tick\n)+\[bash-1: running for \d+ s\]", said[2])
    assert re.fullmatch(r"((tick\n)+|\(no new output\)\n)\[bash-1: stopped with all its processes\]", said[3])
    assert said[4].startswith("There is no background command 'bash-2'. Known are: bash-1 (while :; do echo tick")
    records = user.records()
    assert background(records) == [{"bash_id": "bash-1"}, {"bash_id": "bash-1", "ended": True}]
    assert [record.payload["replay_safe"] for record in records if record.is_action("started", "BashOutput")] == [True]
    assert not any(record.payload.get("replay_safe") for record in records if record.is_action("started", "KillBash"))
    assert breaches(user.transcript()) == []
    user.assert_gone(0.5)
    again = user.resume(user.session_id(), "GO-ON")
    assert "background" not in again.err  # its end was told


@pytest.mark.parametrize("marker", ["LEAVE-IT", "LEAVE-SOME"])
def test_the_end_of_the_session_ends_it_and_the_next_one_is_told_once(
    server: NewServer, program: NewProgram, marker: str
) -> None:
    model = server(SCRIPT)
    user = program(model)
    assert user.ask(marker).out == "left\n"
    user.assert_gone(0)
    told = GONE + "does not run any more: ended because it was told to stop, at "
    if marker == "LEAVE-SOME":
        told = f"What the command bash-1 (({TICK}) & echo begun) "
        told += "left running does not run any more: exit 0 at "
    first = user.resume(user.session_id(), "GO-ON")
    assert told in first.err
    (note,) = notes(model, "GO-ON")
    assert told in note and note.endswith("BashOutput shows what they wrote. Start again what is still needed.")
    second = user.resume(user.session_id(), "GO-ON")
    assert told not in second.err
    assert notes(model, "GO-ON") == [note]
    assert breaches(user.transcript()) == []


@pytest.mark.parametrize("at_once", [False, True], ids=["later", "at once"])
def test_a_killed_agent_takes_it_along_and_the_next_one_names_it_once(
    server: NewServer, program: NewProgram, at_once: bool
) -> None:
    model = server(SCRIPT)
    user = program(model)
    killed_while_it_held(user)
    if not at_once:
        user.assert_gone()
        (shown,) = user.recover(user.session_id())["background"]
        assert (shown["bash_id"], shown["command"], shown["verdict"]) == ("bash-1", TICK, "killed")
        assert shown["evidence"]["why"] == "agent_died"
        assert GONE in user.run("recover", user.session_id()).out
    first = user.resume(user.session_id(), "GO-ON")
    assert (first.code, GONE in first.err) == (0, True)
    (note,) = notes(model, "GO-ON")
    assert GONE + "does not run any more: ended because the agent had died, at " in note
    second = user.resume(user.session_id(), "GO-ON")
    assert GONE not in second.err
    assert notes(model, "GO-ON") == [note]
    user.assert_gone()
    assert user.read("held.log") == "held\n"
    assert all(breaches(path) == [] for path in user.transcripts())


def test_its_output_can_still_be_read_and_its_id_is_not_given_again(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    killed_while_it_held(user)
    user.assert_gone()
    assert user.resume(user.session_id(), "READ-IT").out == "read\n"
    (looked, started) = list(results(user.records()).values())[-2:]
    assert re.match(r"(tick\n)+\[bash-1: ended because the agent had died, at ", looked)
    assert started.startswith("Runs in the background as bash-2, ")


def test_a_fork_does_not_own_what_its_parent_runs(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    killed_while_it_held(user)
    user.assert_gone()
    fork = user.run("-p", "READ-IT", "-r", user.session_id(), "--fork", "--mode", "auto", "--output-format", "json")
    (note,) = notes(model, "READ-IT")
    assert "is none of this session: it belongs to the session that this one was forked from." in note
    said = list(results(user.records(fork.json()["session_id"])).values())
    assert said[0].startswith("There is no background command 'bash-1'. Known are: none.")
    assert said[1].startswith("Runs in the background as bash-2, ")


def test_what_a_child_started_ends_with_the_child(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.ask("BY-A-CHILD")
    assert (done.code, done.out) == (0, "ok\n")
    (counted,) = [text for text in results(user.records()).values() if text.isdigit()]
    assert int(counted) == user.read("ticks.log").count("tick")


def test_a_signal_that_ends_the_agent_ends_it_too(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    process = user.start("-p", "HOLD-IT", "--mode", "auto")
    process.wait_until(saw("started", "Bash", "held.log"))
    process.signal(signal.SIGTERM)
    assert process.result().code == 143
    user.assert_gone(0)


KILLS: dict[str, Predicate] = {
    "requested": saw("requested", "Bash", "run_in_background"),
    "started": saw("started", "Bash", "run_in_background"),
    "completed": saw("completed", "Bash", "run_in_background"),
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_kill_around_the_start_leaves_no_copy_and_no_lie(server: NewServer, program: NewProgram, moment: str) -> None:
    model = server(SCRIPT)
    user = program(model)
    user.start("-p", "LEAVE-IT", "--mode", "auto").kill_when(KILLS[moment])
    done = user.resume(user.session_id(), "GO-ON")
    assert done.code == 0
    user.assert_gone()
    result = model.last("GO-ON").result_of("run_in_background")
    started = [record for record in user.records() if record.is_action("started", "Bash")]
    if user.read("ticks.log"):
        assert started
        assert "Not run" not in result and "not started" not in result
    assert GONE in "\n".join(notes(model, "GO-ON")) or "[Recovery]" in result
    assert breaches(user.transcript()) == []


def test_tasks_lists_them_on_the_terminal(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    terminal = user.terminal("--mode", "auto")
    terminal.wait_for_prompt()
    terminal.enter("/tasks")
    terminal.wait_for("Nothing was started in the background.")
    terminal.enter("LEAVE-IT")
    terminal.wait_for("left")
    terminal.enter("/tasks")
    terminal.wait_for(r"bash-1 \(while :; do .*\): running for \d+ s")
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0
    user.assert_gone(0)
    terminal = user.terminal("-r", user.session_id())
    terminal.wait_for(re.escape(GONE[:40]))
    terminal.wait_for_prompt()
    terminal.enter("/tasks")
    terminal.wait_for(r"bash-1 \(while :; do .*\): ended because it was told")
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0
