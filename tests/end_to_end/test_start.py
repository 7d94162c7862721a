"""The prompt's first sign, and what is typed before the program behind it is there."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import sys
import termios
import time

import pytest

from tests.conftest import NewProgram, NewServer
from tests.kit.checkout import CHECKOUT
from tests.kit.program import Program
from tests.kit.script import Script, say
from tests.kit.terminal import Terminal
from tests.kit.transcript import breaches

SCRIPT: Script = {"FIRST-PROMPT": [say("the first is answered")], "SECOND-PROMPT": [say("the second is answered")]}
SIGN = "›".encode()
# Each of the two lets pastes be marked: the sign behind what it shows, the real prompt before.
REAL_PROMPT = re.compile(rb"\x1b\[\?2004h[\s\S]*\x1b\[\?2004h")
ATTEMPTS = 20  # on a busy machine the prompt is there before the test has seen its sign
# A shell that shows the modes of the terminal before and after the program, and what it would have read as commands.
SHELL = (
    'echo "before $(stty -g)"; "$0" "$@"; code=$?; echo "after $(stty -g)"; '
    'timeout --foreground 0.3 cat | sed "s/^/LEAKED /"; echo "over with $code"'
)
IN_SHELL = ("/bin/sh", "-c", SHELL, sys.executable, str(CHECKOUT / "main.py"))


def halted_at_the_sign(user: Program, *args: str) -> tuple[Terminal, int]:
    """The program on a terminal that shows the sign and nothing more; it is stopped. Also its pid."""
    for _ in range(ATTEMPTS):
        terminal = user.terminal(*args)
        end = time.monotonic() + 20
        while SIGN not in terminal.raw():
            assert time.monotonic() < end and terminal.is_running(), terminal.text()
            time.sleep(0.0005)
        pid = _program_of(user, terminal)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.05)  # what it wrote before it stopped comes now
        if not REAL_PROMPT.search(terminal.raw()):
            return terminal, pid
        terminal.close()
        shutil.rmtree(user.state, ignore_errors=True)  # a session may have begun
    raise AssertionError(f"the real prompt was there before its sign was seen, {ATTEMPTS} times")


def _program_of(user: Program, terminal: Terminal) -> int:
    """The program's own pid, also when a shell has started it."""
    children = [process.pid for process in user.survivors() if "main.py" in process.command]
    return children[0] if children else terminal.pid


def go_on(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


def wait_for_keys(pid: int, count: int) -> None:
    """Wait until the keys have come through to the program's side of the terminal, where they can be dropped."""
    end = time.monotonic() + 20
    terminal = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NOCTTY)
    while int.from_bytes(fcntl.ioctl(terminal, termios.FIONREAD, bytes(4)), sys.byteorder) < count:
        assert time.monotonic() < end
        time.sleep(0.001)
    os.close(terminal)


def prompts(user: Program) -> list[str]:
    return [record.payload["content"] for record in user.records() if record.is_message("user")]


def assert_as_before(terminal: Terminal, code: int) -> str:
    """The shell has got its terminal back as it was, and none of our keys; the screen."""
    screen = terminal.wait_for(rf"over with {code}\b")
    (before,), (after,) = re.findall(r"before (\S+)", screen), re.findall(r"after (\S+)", screen)
    assert after == before
    assert "LEAKED" not in screen
    assert re.findall(rb"\x1b\[\?2004([hl])", terminal.raw())[-1] == b"l"
    return screen


def test_what_is_typed_before_the_prompt_is_there_stands_in_it_once(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    terminal, pid = halted_at_the_sign(user)
    terminal.type("FIRST-PROMPT 你好，世界 éx")
    terminal.press("backspace")
    terminal.paste(" pasted\tin\nlines")
    assert "FIRST" not in terminal.text()
    assert b"\x1b[?2004h" in terminal.raw()  # else a terminal would not mark what is pasted
    go_on(pid)
    terminal.wait_for(r"› FIRST-PROMPT 你 ?好")
    terminal.wait_for("/help helps")
    terminal.press("enter")
    terminal.wait_for("the first is answered")
    terminal.wait_for_prompt()
    assert terminal.text().count("FIRST-PROMPT") == 1
    assert prompts(user) == ["FIRST-PROMPT 你好，世界 é pasted\tin\nlines"]
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0


def test_lines_that_are_sent_before_the_prompt_is_there_are_answered_in_order(
    server: NewServer, program: NewProgram
) -> None:
    user = program(server(SCRIPT))
    terminal, pid = halted_at_the_sign(user)
    terminal.type("FIRST-PROMPT\rSECOND-PROMPT\rthe beginning of a third")
    go_on(pid)
    terminal.wait_for("the first is answered")
    terminal.wait_for("the second is answered")
    terminal.wait_for(r"(?m)^› the beginning of a third\s*\Z")
    terminal.press("ctrl-c", "ctrl-d")
    assert terminal.wait_exit() == 0
    assert prompts(user) == ["FIRST-PROMPT", "SECOND-PROMPT"]
    assert user.records()[0].payload["reason"] == "session_opened"
    assert breaches(user.transcript()) == []


def test_ctrl_c_before_the_prompt_is_there_clears_what_was_typed_before_it(
    server: NewServer, program: NewProgram
) -> None:
    user = program(server(SCRIPT))
    terminal, pid = halted_at_the_sign(user)
    terminal.type("not this\x03FIRST-PROMPT\r")
    go_on(pid)
    terminal.wait_for("the first is answered")
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0
    assert prompts(user) == ["FIRST-PROMPT"]


@pytest.mark.parametrize(
    ("keys", "code", "reason"), [(["ctrl-c", "ctrl-c"], 130, "interrupted"), (["ctrl-d"], 0, "completed")]
)
def test_who_leaves_before_the_prompt_is_there_leaves_a_session_that_was_closed(
    server: NewServer, program: NewProgram, keys: list[str], code: int, reason: str
) -> None:
    user = program(server(SCRIPT), command=IN_SHELL)
    terminal, pid = halted_at_the_sign(user)
    terminal.press(*keys)
    go_on(pid)
    screen = assert_as_before(terminal, code)
    assert user.session_id() in screen
    opened, closed = [record.payload for record in user.records()]
    assert (opened["reason"], closed["reason"], closed["details"]["reason"]) == (
        "session_opened",
        "session_closed",
        reason,
    )


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--base-url", "nonsense"], r"--base-url is no web address"),
        (["--mode", "fast"], r"--mode is one of ask"),
        (["--memory-dir", "/dev/null/x"], r"The memory folder /dev/null/x cannot be written"),
    ],
)
def test_a_start_that_fails_behind_the_prompt_is_told_and_takes_the_prompt_away(
    server: NewServer, program: NewProgram, args: list[str], sentence: str
) -> None:
    user = program(server(SCRIPT), command=IN_SHELL)
    terminal, pid = halted_at_the_sign(user, *args)
    terminal.type("FIRST-PROMPT\rtouch leaked\r")
    go_on(pid)
    code = 7 if "--memory-dir" in args else 2
    screen = assert_as_before(terminal, code)
    assert re.search(rf"(?m)^{sentence}", screen)
    assert "›" not in screen
    assert user.transcripts() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_sign_ends_the_program_and_no_key_reaches_the_shell(
    server: NewServer, program: NewProgram, number: signal.Signals
) -> None:
    user = program(server(SCRIPT), command=IN_SHELL)
    terminal, pid = halted_at_the_sign(user)
    terminal.type("touch leaked\r")
    wait_for_keys(pid, len("touch leaked\r"))
    os.kill(pid, number)
    go_on(pid)
    assert "›" not in assert_as_before(terminal, 128 + number)


def test_a_resume_shows_no_prompt_before_the_session_is_open(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    user.ask("FIRST-PROMPT")
    terminal = user.terminal("-c")
    terminal.wait_for("›")
    opened = [record for record in user.records() if record.payload.get("reason") == "session_opened"]
    assert len(opened) == 2
    assert terminal.raw().index(b"\x1b[?2004h") < terminal.raw().index(SIGN)  # the real prompt is the first
    terminal.wait_for(f"Session {user.session_id()}")
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0


@pytest.mark.parametrize("term", ["dumb", None])
def test_a_terminal_that_cannot_clear_a_line_gets_no_sign(
    server: NewServer, program: NewProgram, term: str | None
) -> None:
    user = program(server(SCRIPT), env={"TERM": term})
    terminal = user.terminal()
    terminal.wait_for("›")
    assert terminal.raw().count(b"\x1b[K") == 0
    terminal.type("FIRST-PROMPT\r")
    terminal.wait_for("the first is answered")
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0
