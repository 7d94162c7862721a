"""The first sign of the prompt: on the screen before anything heavy is imported, until the real prompt replaces it.

From then on the keyboard is as the real prompt has it: the terminal echoes nothing, ends no line and makes no signal of
a key. What is typed waits in the terminal, in order, and the real prompt reads all of it, once.

This module is loaded before the sign, so what it imports delays it: `tests/test_architecture.py` keeps it light.
"""

from __future__ import annotations

import os
import sys
import termios
from contextlib import suppress
from typing import Any

PROMPT = "› "

_CLEAR_LINE = b"\r\x1b[K"  # also of what the terminal echoed before we came: the real prompt shows it
_MARK_PASTES, _MARK_NO_PASTES = b"\x1b[?2004h", b"\x1b[?2004l"  # a pasted line end must not send the line
_CANNOT_CLEAR = ("", "dumb", "unknown")  # TERM of terminals that do not know the sequence
_INPUT, _LOCAL, _CHARACTERS = 0, 3, 6  # places in the list of modes


class InstantPrompt:
    """The sign and the keyboard, on the terminal of stdin and stdout. At the end of the context both are as before.

    When an error ends it, the keys that nobody has read are dropped: they were meant for us, and the shell would take
    them for commands.
    """

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._modes_before: list[Any] | None = None
        self.is_shown = False

    def __enter__(self) -> InstantPrompt:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.give_back_keys(drop_unread=error is not None)
        if self.is_shown:
            self._write(_CLEAR_LINE + _MARK_NO_PASTES)

    def show(self) -> None:
        """Write the sign and hold the keys. Does nothing on a terminal from which it could not be taken away again."""
        if os.environ.get("TERM", "").lower() not in _CANNOT_CLEAR:
            self._hold_keys()
            self.is_shown = True  # before it is: a signal may come in between
            self._write(_CLEAR_LINE + PROMPT.encode(sys.stdout.encoding, "replace") + _MARK_PASTES)

    def hand_over(self) -> None:
        """Clear the line for the real prompt. From here on the keys are held in any case, between two lines too."""
        self._hold_keys()
        if self.is_shown:
            self._write(_CLEAR_LINE)
            self.is_shown = False

    def give_back_keys(self, *, drop_unread: bool = False) -> None:
        """Put the keyboard back as it was. May be called again."""
        if self._modes_before is None:
            return
        when = termios.TCSAFLUSH if drop_unread else termios.TCSANOW
        with suppress(termios.error):
            termios.tcsetattr(self._input, when, self._modes_before)

    def _hold_keys(self) -> None:
        if self._modes_before is not None:
            return
        with suppress(termios.error):  # the terminal is gone: the first read will say so
            modes = termios.tcgetattr(self._input)
            self._modes_before = termios.tcgetattr(self._input)
            modes[_INPUT] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
            modes[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
            modes[_CHARACTERS][termios.VMIN] = 1
            termios.tcsetattr(self._input, termios.TCSANOW, modes)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # the terminal is gone
            os.write(self._output, data)
