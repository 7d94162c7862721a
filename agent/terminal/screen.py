"""The interactive screen: a prompt that stays alive, and a scrollback above it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from agent.terminal.instant_prompt import PROMPT

COMMIT_S = 0.08  # each commit erases and redraws the prompt: what comes meanwhile waits for the next one
REDRAW_S = 0.03


class Leave(Exception):
    """The program ends: because of a signal, or (0) because the user asked for it."""

    def __init__(self, signal_number: int = 0) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class _Keyboard(Vt100Input):
    """Keys are ours while the scrollback is written too: the kernel would take a Ctrl+D of that moment for itself."""

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()


class Screen:
    """`status` gives the rows above the prompt; `on_interrupt` stops what runs and tells whether anything did."""

    def __init__(self, status: Callable[[], Sequence[str]], on_interrupt: Callable[[], bool]) -> None:
        self._status = status
        self._on_interrupt = on_interrupt
        self._due: list[str] = []
        self._news = asyncio.Event()
        self._left = False
        self._reason: Exception | None = None  # to leave
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            input=_Keyboard(sys.stdin),
            key_bindings=self._keys(),
            multiline=False,
            complete_while_typing=False,
            erase_when_done=True,  # what was typed is committed by whoever takes it
        )
        self._session.app.min_redraw_interval = REDRAW_S
        self._session.app.ttimeoutlen = 0.05  # Esc is a key of its own
        self._session.app.timeoutlen = 0.05

    @property
    def columns(self) -> int:
        return self._session.app.output.get_size().columns

    def commit(self, text: str) -> None:
        """Put text into the scrollback, at the next bundle."""
        if text:
            self._due.append(text if text.endswith("\n") else text + "\n")
            self._news.set()

    def refresh(self) -> None:
        """Draw the prompt and what stands above it anew."""
        self._session.app.invalidate()

    async def pump(self) -> None:
        """Bring what was committed onto the terminal; runs beside `read` until it is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.flush()
            await asyncio.sleep(COMMIT_S)

    async def flush(self) -> None:
        text = "".join(self._due)
        self._due.clear()
        if text:
            await run_in_terminal(lambda: _write(text))

    async def read(self) -> str:
        """The next line.

        Raises EOFError at Ctrl+D, or what `leave` was given.
        """
        if self._reason is not None:
            raise self._reason
        return await self._session.prompt_async(handle_sigint=False)

    def leave(self, reason: Exception) -> None:
        """Make the `read` that waits raise, or the next one."""
        self._reason = reason
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit(exception=reason)

    def interrupt(self) -> None:
        """Ctrl+C: stop what runs, else clear the line, else ask to leave when it comes twice."""
        if self._on_interrupt():
            self._left = False
            return
        buffer = self._session.default_buffer
        if buffer.text:
            buffer.reset()
        elif self._left:
            self.leave(Leave(signal.SIGINT))
        else:
            self._left = True
            self.commit("(Ctrl+C again, or Ctrl+D, leaves)")

    def _message(self) -> ANSI:
        return ANSI("".join(f"{row}\n" for row in self._status()) + PROMPT)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        def _interrupt(event: KeyPressEvent) -> None:
            del event
            self.interrupt()

        @keys.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError):
        return  # the terminal is gone; the signal that says so ends the program
