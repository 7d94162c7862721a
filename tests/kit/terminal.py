"""A program on a pseudo-terminal, and what a person would see on its screen."""

from __future__ import annotations

import os
import re
import select
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pyte

CURSOR_QUESTION = b"\x1b[6n"  # "where is the cursor?": a real terminal answers, the emulator does not
SCROLLBACK_LINES = 100_000
KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "shift-tab": "\x1b[Z",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "alt-enter": "\x1b\r",
}


class Terminal:
    """A process with a terminal of its own. A thread reads all output at once: the program never waits for a test."""

    def __init__(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], *, columns: int = 100, rows: int = 30
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=SCROLLBACK_LINES, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._raw = bytearray()
        self._changed = threading.Condition()  # guards the three above
        self._hung_up = False
        self._child = pexpect.spawn(
            command[0], list(command[1:]), cwd=str(cwd), env=dict(env), dimensions=(rows, columns), timeout=None
        )
        self._child.delaybeforesend = None
        self.pid: int = self._child.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # -- the keyboard

    def type(self, text: str) -> None:
        """Type a text, without Enter."""
        self._child.send(text)

    def press(self, *keys: str) -> None:
        """Press keys by their names in KEYS."""
        for key in keys:
            self._child.send(KEYS[key])

    def enter(self, text: str) -> None:
        """Type a text, wait until it stands on the screen, and press Enter: together they would look like a paste."""
        self.type(text)
        self.wait_for(re.escape(text[-20:]))
        self.press("enter")

    def paste(self, text: str) -> None:
        """Paste a text in the way of terminals that mark what was pasted."""
        self._child.send(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        with self._changed:
            self._screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed: the program gets SIGHUP."""
        self._hung_up = True
        self._reader.join(5)
        pty = self._child.ptyproc
        pty.fileobj.close()
        pty.fd, pty.closed = -1, True  # else it would close the number again, which may be another file by then
        self._child.child_fd, self._child.closed = -1, True

    def signal(self, number: signal.Signals) -> None:
        """Signal the program alone."""
        os.kill(self.pid, number)

    # -- the screen

    def lines(self) -> list[str]:
        """What was scrolled away and what stands on the screen, line by line without trailing blanks."""
        with self._changed:
            scrolled = [
                "".join(line[column].data for column in range(self._screen.columns)).rstrip()
                for line in self._screen.history.top
            ]
            return scrolled + [line.rstrip() for line in self._screen.display]

    def text(self) -> str:
        return "\n".join(self.lines())

    def raw(self) -> bytes:
        """Every byte that the program has written."""
        with self._changed:
            return bytes(self._raw)

    def wait_for(self, pattern: str, timeout_s: float = 20, *, count: int = 1) -> str:
        """Wait until the text matches the regular expression (so many times), and return the text.

        Raises:
            AssertionError: it does not, until the time is over or the program has ended; shows the screen.
        """
        regex = re.compile(pattern)
        end = time.monotonic() + timeout_s
        with self._changed:
            while len(regex.findall(text := self.text())) < count:
                left_s = end - time.monotonic()
                assert left_s > 0 and self._reader.is_alive(), f"{pattern!r} is not on the screen:\n{text}"
                self._changed.wait(min(left_s, 0.2))  # the end of the program gives no notice
        return text

    def wait_for_prompt(self, timeout_s: float = 20) -> str:
        """Wait until the screen ends in an empty prompt, and return the text."""
        return self.wait_for(r"(?m)^›\s*\Z", timeout_s)

    # -- the end

    def is_running(self) -> bool:
        return bool(self._child.isalive())

    def wait_exit(self, timeout_s: float = 20) -> int:
        """The exit code, negative when a signal ended the program.

        Raises:
            AssertionError: it does not end.
        """
        end = time.monotonic() + timeout_s
        while self.is_running():
            assert time.monotonic() < end, f"still running after {timeout_s} s:\n{self.text()}"
            time.sleep(0.005)
        self._reader.join(5)
        return -self._child.signalstatus if self._child.signalstatus is not None else int(self._child.exitstatus)

    def close(self) -> None:
        """Kill the program if it is still there, and give back the terminal."""
        if self.is_running():
            os.kill(self.pid, signal.SIGKILL)
            self.wait_exit()
        if not self._hung_up:
            self.hang_up()

    # -- the thread

    def _read(self) -> None:
        terminal = self._child.child_fd
        while not self._hung_up:
            readable, _, _ = select.select([terminal], [], [], 0.05)
            if not readable:
                continue
            try:
                data = os.read(terminal, 65536)
            except OSError:  # how Linux says that nobody has the other end open any more
                return
            if not data:
                return
            self._show(data, terminal)

    def _show(self, data: bytes, terminal: int) -> None:
        with self._changed:
            self._raw += data
            *questions, rest = data.split(CURSOR_QUESTION)
            for part in questions:
                self._stream.feed(part)
                cursor = self._screen.cursor
                os.write(terminal, b"\x1b[%d;%dR" % (cursor.y + 1, cursor.x + 1))
            self._stream.feed(rest)
            self._changed.notify_all()
