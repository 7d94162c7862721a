"""The record sequence of typical turns, compared whole with files in tests/golden."""

from __future__ import annotations

import signal
import time

from tests.conftest import NewProgram, NewServer
from tests.kit.golden import Normalizer, assert_golden
from tests.kit.program import Program
from tests.kit.script import Call, Reply, Script, say
from tests.kit.transcript import breaches

SCRIPT: Script = {
    "EDIT-TURN": [
        Reply("I look first.", calls=(Call("Read", {"file_path": "greeting.txt"}, id="call-read"),)),
        Reply(
            calls=(
                Call(
                    "Edit",
                    {"file_path": "greeting.txt", "old_string": "world", "new_string": "reader"},
                    id="call-edit",
                ),
            )
        ),
        say("The greeting is for the reader now."),
    ],
    "BASH-TURN": [
        Reply(
            calls=(Call("Bash", {"command": "echo out; echo err >&2; exit 3", "description": "speak"}, id="call-b"),)
        ),
        say("It ended with 3."),
    ],
    "REFUSED-TURN": [
        Reply(calls=(Call("Write", {"file_path": "new.txt", "content": "text\n"}, id="call-w"),)),
        say("I was not allowed to."),
    ],
    "INTERRUPTED-TURN": [
        Reply(
            calls=(
                Call("Bash", {"command": "echo begun > begun; sleep 60", "description": "wait"}, id="call-1"),
                Call("Read", {"file_path": "greeting.txt"}, id="call-2"),
            )
        ),
    ],
}


def assert_records(user: Program, name: str) -> None:
    assert breaches(user.transcript()) == []
    assert_golden(f"records-{name}.jsonl", Normalizer(user.places()).records(user.records()))


def test_an_edit_turn(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    user.write("greeting.txt", "hello, world\n").chmod(0o644)  # the mode stands in the record
    assert user.ask("EDIT-TURN please").code == 0
    assert_records(user, "edit")


def test_a_bash_turn(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    assert user.ask("BASH-TURN please").code == 0
    assert_records(user, "bash")


def test_a_refused_call(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    assert user.run("-p", "REFUSED-TURN please").code == 4
    assert_records(user, "refused")


def test_an_interrupted_turn(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    user.write("greeting.txt", "hello, world\n").chmod(0o644)  # the mode stands in the record
    process = user.start("-p", "INTERRUPTED-TURN please", "--mode", "auto")
    while not user.read("begun"):
        assert process.is_running()
        time.sleep(0.005)
    process.signal(signal.SIGINT)
    assert process.result().code == 130
    assert_records(user, "interrupted")
