"""The kit starts, watches, kills and cleans up a real process; a stand-in plays the program."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import NewProgram
from tests.kit.checkout import CHECKOUT
from tests.kit.program import Program
from tests.kit.transcript import reached, saw

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))


@pytest.fixture
def user(program: NewProgram) -> Program:
    return program(command=STAND_IN, env={"PYTHONPATH": str(CHECKOUT)})


def test_a_run_gives_exit_code_and_both_outputs(user: Program) -> None:
    result = user.run("0", stdin="one\nend\n")
    assert (result.code, result.out, result.err) == (3, "ready\nheard one\nheard end\n", "to the side\n")


def test_the_environment_is_clean_and_its_own(program: NewProgram) -> None:
    user = program(command=(sys.executable, "-c", "import os; print(*sorted(os.environ))"), env={"LANG": None})
    names = user.run().out.split()
    known = {"PATH", "HOME", "TMPDIR", "TERM", "MYCODEAGENT_HOME", "MYCODEAGENT_TEST_TOKEN", "LC_CTYPE"}
    assert set(names) - known == set()


def test_kill_when_ends_the_agent_alone_at_the_event(user: Program) -> None:
    process = user.start("500", "child")
    seen = process.kill_when(saw("started", tool="Bash"))
    assert [record.payload["status"] for record in seen[:2]] == ["requested", "started"]
    assert len(user.records()) < 500
    assert [survivor.command for survivor in user.survivors()] == ["sleep 60"]


def test_a_predicate_that_never_holds_is_an_error_that_shows_the_output(user: Program) -> None:
    process = user.start("3", stdin="")
    with pytest.raises(AssertionError, match="to the side"):
        process.kill_when(reached(4))


def test_signals_reach_the_agent(user: Program) -> None:
    process = user.start("5000")
    process.wait_until(reached(1))
    process.signal(signal.SIGTERM)
    assert process.result().code == 143


def test_processes_that_outlive_their_agent_are_named_and_close_ends_them(user: Program) -> None:
    user.run("1", "child")
    with pytest.raises(AssertionError, match="sleep 60"):
        user.assert_gone(timeout_s=0.05)
    user.close()
    user.assert_gone()


def test_a_copy_shares_the_workspace_and_has_the_state_of_the_moment(
    user: Program, copy_of: Callable[[Program], Program]
) -> None:
    user.write("dir/note.txt", "text")
    user.run("2")
    other = copy_of(user)
    user.transcript().write_bytes(b"")
    assert (len(other.records()), len(user.records()), other.read("dir/note.txt")) == (2, 0, "text")


def test_a_terminal_shows_the_screen_and_takes_keys(user: Program) -> None:
    terminal = user.terminal("1")
    terminal.wait_for("to the side")  # else the echo of what is typed may come before it
    terminal.enter("你好 wide")
    terminal.wait_for("heard 你好 wide")
    terminal.enter("end")
    assert terminal.wait_exit() == 3
    assert terminal.lines()[:3] == ["ready", "to the side", "你好 wide"]


def test_a_terminal_answers_the_question_for_the_cursor(program: NewProgram) -> None:
    asks = (
        "import sys, termios, tty; tty.setraw(0); sys.stdout.write('ab\\x1b[6n'); sys.stdout.flush();"
        "answer = sys.stdin.read(6); sys.stdout.write(repr(answer))"
    )
    terminal = program(command=(sys.executable, "-c", asks)).terminal()
    terminal.wait_for(r"'\\x1b\[1;3R'")
    assert terminal.wait_exit() == 0


def test_a_terminal_that_hangs_up_sends_sighup(user: Program) -> None:
    terminal = user.terminal("1", "deaf")  # who reads may see the end of the input before the signal comes
    terminal.wait_for("ready")
    terminal.hang_up()
    assert terminal.wait_exit() == -signal.SIGHUP


def test_what_scrolled_away_can_still_be_read(program: NewProgram) -> None:
    terminal = program(command=(sys.executable, "-c", "print(*range(200), sep='\\n')")).terminal(rows=10)
    assert terminal.wait_exit() == 0
    assert [line for line in terminal.lines() if line] == [str(number) for number in range(200)]
