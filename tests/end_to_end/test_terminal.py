"""The interactive program on a pseudo-terminal, as a person uses it."""

from __future__ import annotations

import time

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Program
from tests.kit.script import Reply, Script, bash, call, say
from tests.kit.terminal import Terminal
from tests.kit.transcript import Predicate, breaches, end_of, outcomes, results, transitioned, transitions

SLOW = "echo begun >> effects.log; sleep 30; echo ended >> effects.log"
SHORT = "echo {0} >> effects.log"
TALK = Reply("Words that come one after the other. " * 30, pieces=60, pause_s=0.05)
SCRIPT: Script = {
    "RUN-SLOW": [bash(SLOW), say("never reached")],
    "RUN-A-WHILE": [bash("echo begun >> effects.log; sleep 1.5"), say("a while is over")],
    "TALK-SLOWLY": [TALK],
    "ASK-FOR-ALL": [
        call("Write", {"file_path": "yes.txt", "content": "yes\n"}),
        call("Write", {"file_path": "no.txt", "content": "no\n"}),
        bash(SHORT.format("always")),
        bash(SHORT.format("always")),
        bash(SHORT.format("another")),
        say("never reached"),
    ],
    "NEXT-PROMPT": [say("went on at once")],
    "LATER-PROMPT": [say("the later one is answered")],
}


def started(user: Program, *args: str) -> Terminal:
    terminal = user.terminal(*args)
    terminal.wait_for("/help helps")  # the prompt stands there before the greeting
    terminal.wait_for_prompt()
    return terminal


def wait_until(user: Program, predicate: Predicate, timeout_s: float = 20) -> None:
    """Wait until the predicate holds for the session's records."""
    end = time.monotonic() + timeout_s
    while not (user.transcripts() and predicate(user.records())):
        assert time.monotonic() < end, user.records()[-1:]
        time.sleep(0.01)


def wait_for_line(user: Program, text: str) -> None:
    """Wait until a command has written its line."""
    end = time.monotonic() + 20
    while text not in user.read("effects.log"):
        assert time.monotonic() < end
        time.sleep(0.005)


def leave(terminal: Terminal) -> None:
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0


def test_ctrl_c_during_a_tool_ends_it_and_the_next_prompt_works_at_once(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    terminal = started(user, "--mode", "auto")
    terminal.enter("RUN-SLOW")
    wait_for_line(user, "begun")
    terminal.press("ctrl-c")
    terminal.wait_for("interrupted")
    terminal.wait_for_prompt()
    terminal.enter("NEXT-PROMPT")
    terminal.wait_for("went on at once")
    leave(terminal)
    records = user.records()
    errors = [record.payload["error"]["code"] for record in records if record.is_action("failed")]
    assert errors == ["INTERRUPTED"]
    assert [record.payload["reason"] for record in records if record.event_type == "terminal"] == [
        "interrupted",
        "completed",
    ]
    assert model.last("NEXT-PROMPT").texts("user") == ["RUN-SLOW", "NEXT-PROMPT"]
    assert user.read("effects.log") == "begun\n"
    assert breaches(user.transcript()) == []
    user.assert_gone()


def test_ctrl_c_during_the_answer_keeps_what_was_shown(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    terminal = started(user)
    terminal.enter("TALK-SLOWLY")
    terminal.wait_for("Words that come")
    terminal.press("ctrl-c")
    terminal.wait_for("interrupted")
    terminal.enter("NEXT-PROMPT")
    terminal.wait_for("went on at once")
    leave(terminal)
    said = [record.payload for record in user.records() if record.is_message("assistant")]
    assert [message.get("metadata", {}).get("interrupted", False) for message in said] == [True, False]
    assert TALK.text.startswith(said[0]["content"])
    assert model.last("NEXT-PROMPT").texts("assistant") == [said[0]["content"]]
    assert breaches(user.transcript()) == []


def test_questions_are_answered_with_yes_no_always_or_ctrl_c(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    terminal = started(user)
    terminal.enter("ASK-FOR-ALL")
    question = r"Allow {0}\? \[y\]es"
    terminal.wait_for(question.format("Write"))
    terminal.wait_for(r"\+yes")  # the diff
    terminal.enter("perhaps")
    terminal.wait_for("Please answer y, n or a")
    terminal.enter("y")
    terminal.wait_for(r"Write no\.txt")
    terminal.wait_for(question.format("Write"))
    terminal.enter("n")
    terminal.wait_for(question.format("Bash"))
    terminal.enter("a")
    terminal.wait_for("echo another")
    terminal.wait_for(question.format("Bash"))
    assert user.read("effects.log").split() == ["always", "always"]
    terminal.press("ctrl-c")
    terminal.wait_for("interrupted")
    terminal.enter("NEXT-PROMPT")
    terminal.wait_for("went on at once")
    leave(terminal)
    assert (user.read("yes.txt"), user.read("no.txt")) == ("yes\n", "")
    assert user.read("effects.log").split() == ["always", "always"]
    records = user.records()
    answers = [record.payload["permission"]["answer"] for record in records if record.payload.get("permission")]
    assert answers == ["allowed", "denied", "always", "allowed"]
    errors = [record.payload["error"]["code"] for record in records if record.is_action("failed")]
    assert errors == ["PERMISSION_DENIED", "NOT_RUN"]
    assert breaches(user.transcript()) == []


def test_what_is_sent_while_the_agent_works_is_recorded_at_enter_and_sent_afterwards(
    server: NewServer, program: NewProgram
) -> None:
    model = server(SCRIPT)
    user = program(model)
    terminal = started(user, "--mode", "auto")
    terminal.enter("RUN-A-WHILE")
    wait_for_line(user, "begun")
    terminal.enter("LATER-PROMPT")
    wait_until(user, transitioned("input_queued"))
    assert not model.requests[-1].has("LATER-PROMPT")
    terminal.wait_for("the later one is answered")
    leave(terminal)
    (queued,) = transitions(user.records(), "input_queued")
    assert queued["text"] == "LATER-PROMPT"
    prompts = [record.payload for record in user.records() if record.is_message("user")]
    assert [prompt["content"] for prompt in prompts] == ["RUN-A-WHILE", "LATER-PROMPT"]
    assert prompts[1]["metadata"]["queue_id"] == queued["queue_id"]
    assert breaches(user.transcript()) == []


def test_queued_input_survives_kill_and_enter_on_an_empty_line_continues(
    server: NewServer, program: NewProgram
) -> None:
    model = server(SCRIPT)
    user = program(model)
    terminal = started(user, "--mode", "auto")
    terminal.enter("RUN-A-WHILE")
    wait_for_line(user, "begun")
    terminal.enter("LATER-PROMPT")
    wait_until(user, transitioned("input_queued"))
    terminal.close()
    user.assert_gone()  # the command came to its end under its supervisor
    terminal = started(user, "--mode", "auto", "-r", user.session_id())
    screen = terminal.text()
    assert "FINISHED" in screen
    assert "LATER-PROMPT" in screen
    terminal.press("enter")
    terminal.wait_for("a while is over")
    terminal.wait_for("the later one is answered")
    leave(terminal)
    prompts = [record.payload["content"] for record in user.records() if record.is_message("user")]
    assert prompts == ["RUN-A-WHILE", "LATER-PROMPT"]
    assert user.read("effects.log") == "begun\n"
    assert end_of(user.records()) == "completed"
    assert breaches(user.transcript()) == []


def test_slash_commands_switch_sessions_and_modes(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    user.ask("NEXT-PROMPT", "-n", "the-first")
    first = user.session_id()
    terminal = started(user)
    terminal.enter("/help")
    terminal.wait_for("Ctrl\\+C interrupts")
    terminal.enter("/frobnicate")
    terminal.wait_for("/frobnicate is not understood")
    terminal.enter("/mode plan")
    terminal.wait_for("Mode: plan")
    terminal.enter("/resume the-first")
    terminal.wait_for(f"Session {first} \\(the-first\\): ")
    terminal.enter("LATER-PROMPT")
    terminal.wait_for("the later one is answered")
    terminal.enter("/new")
    terminal.wait_for("Session session-", count=3)
    terminal.enter("LATER-PROMPT")
    terminal.wait_for("the later one is answered", count=2)
    terminal.enter("/exit")
    assert terminal.wait_exit() == 0
    of_first = [record.payload["content"] for record in user.records(first) if record.is_message("user")]
    assert of_first == ["NEXT-PROMPT", "LATER-PROMPT"]
    assert model.last("LATER-PROMPT").texts("user") == ["LATER-PROMPT"]
    assert all(breaches(path) == [] for path in user.transcripts())


def test_a_typed_decision_settles_an_interrupted_action(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    process = user.start("-p", "RUN-A-WHILE", "--mode", "auto")
    wait_for_line(user, "begun")
    process.kill()
    user.assert_gone()
    terminal = started(user, "-r", user.session_id())
    screen = terminal.text()
    assert "[1] Bash  echo begun >> effects.log; sleep 1.5" in screen
    assert "FINISHED" in screen
    assert time.strftime("started %H:") in screen
    terminal.enter("1 verify")
    terminal.wait_for("can be: use")
    terminal.enter("1 show")
    terminal.wait_for("exit_code: 0")
    terminal.enter("1 redo")
    terminal.wait_for(r"\[1\] redo, as soon as you go on")
    terminal.enter("NEXT-PROMPT")
    terminal.wait_for(r"Allow Bash\?")  # a redo is an action like any other
    terminal.enter("y")
    terminal.wait_for("went on at once")
    leave(terminal)
    assert user.read("effects.log").split() == ["begun", "begun"]
    records = user.records()
    assert [details["choice"] for details in transitions(records, "recovery_decided")] == ["redo"]
    (first, second) = [record.payload["action_id"] for record in records if record.is_action("started")]
    (again,) = [record.payload for record in records if record.is_action("completed")]
    assert (again["action_id"], again["redo_of"]) == (second, first)
    assert outcomes(records) == {second: 1, first: 0}
    assert len(results(records)) == 1
    assert breaches(user.transcript()) == []


def test_a_resumed_terminal_shows_the_part_of_the_answer_that_had_come(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    terminal = started(user)
    terminal.enter("TALK-SLOWLY")
    shown = terminal.wait_for("Words that come .*Words that come")
    assert "one after the other" in shown
    terminal.close()
    terminal = started(user, "-r", user.session_id())
    assert "The answer that was cut off had come to here:" in terminal.text()
    assert "Words that come one after the other. Words" in terminal.text()
    terminal.enter("NEXT-PROMPT")
    terminal.wait_for("went on at once")
    leave(terminal)
    said = [record.payload for record in user.records() if record.is_message("assistant")]
    assert said[0]["metadata"]["interrupted"] is True
    assert TALK.text.startswith(said[0]["content"])
    assert model.last("NEXT-PROMPT").texts("assistant") == [said[0]["content"]]
    assert breaches(user.transcript()) == []


def test_ctrl_c_twice_at_the_prompt_leaves_and_a_typed_line_is_cleared_first(
    server: NewServer, program: NewProgram
) -> None:
    user = program(server(SCRIPT))
    terminal = started(user)
    terminal.type("half a line")
    terminal.wait_for("half a line")
    terminal.press("ctrl-c")
    terminal.wait_for_prompt()
    terminal.press("ctrl-c")
    terminal.wait_for("Ctrl\\+C again")
    terminal.press("ctrl-c")
    assert terminal.wait_exit() == 130
    assert user.session_id() in terminal.text()
    assert [record.payload["reason"] for record in user.records()] == ["session_opened", "session_closed"]
