"""The interactive program: its prompt stands first, and what answers is opened behind it.

All of this module is imported before the prompt is drawn. So it knows nothing of the agent: `Repl` is imported in a
thread while the user types, and whoever types faster than that waits for it.
"""

from __future__ import annotations

import asyncio
import signal
from importlib import import_module
from typing import TYPE_CHECKING

from agent.terminal.faults import end_signals
from agent.terminal.instant_prompt import InstantPrompt
from agent.terminal.options import Options
from agent.terminal.screen import Leave, Screen

if TYPE_CHECKING:
    from agent.terminal.repl import Repl


async def run_interactive(options: Options, sign: InstantPrompt) -> int:
    """Talk with the user until they leave; the exit code. Raises what keeps the session from being opened."""
    return await Interactive(options, sign).talk()


class Interactive:
    """The screen of one terminal, from the first prompt to the end.

    The session is opened behind the prompt when the prompt's sign is shown already; else before it, so that what a
    resume has found comes first.
    """

    def __init__(self, options: Options, sign: InstantPrompt) -> None:
        self._options = options
        self._sign = sign
        self._screen = Screen(self._rows, self._interrupt)
        self._repl: Repl | None = None  # None: not open yet, or it could not be opened

    async def talk(self) -> int:
        """Read lines and have them answered; the exit code."""
        opening = asyncio.create_task(self._open())  # begins at our first wait: for it, or for a line at a drawn prompt
        opening.add_done_callback(self._opened)
        if not self._sign.is_shown:
            await asyncio.wait({opening})
        loop = asyncio.get_running_loop()
        self._take_signals(loop)
        pump = asyncio.create_task(self._screen.pump())
        signal_number = 0
        try:
            signal_number = await self._answer_lines(opening)
        finally:
            self._sign.give_back_keys()
            await asyncio.wait({opening})
            if self._repl is not None:
                await self._repl.close(signal_number)
            pump.cancel()
            await self._screen.flush()
            end_signals(loop)
        opening.result()
        return 128 + signal_number if signal_number else 0

    async def _answer_lines(self, opening: asyncio.Task[None]) -> int:
        """Until the program is to end: the number of the signal that ends it, or 0."""
        self._sign.hand_over()
        try:
            while True:
                line = await self._screen.read()
                await asyncio.wait({opening})
                if self._repl is not None:
                    await self._repl.take(line)
        except EOFError:
            return 0
        except Leave as leave:
            return leave.signal_number
        except OSError:
            return signal.SIGHUP  # the terminal is gone

    async def _open(self) -> None:
        """Open the session that the command line means, and take the prompt that it brings."""
        await asyncio.to_thread(import_module, "agent.terminal.repl")
        from agent.terminal.repl import Repl

        repl = Repl(self._options, self._screen)
        try:
            await repl.open_first()
        except (EOFError, Leave) as reason:  # the user left when asked which session is meant
            self._screen.leave(reason)
            return
        self._repl = repl
        if self._options.prompt:
            await repl.take(self._options.prompt)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        if opening.exception() is not None:  # `talk` raises it, when the prompt is gone
            self._screen.leave(Leave())

    def _take_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._screen.leave, Leave(number))
        loop.add_signal_handler(signal.SIGINT, self._screen.interrupt)

    def _rows(self) -> list[str]:
        return self._repl.rows() if self._repl is not None else []

    def _interrupt(self) -> bool:
        return self._repl is not None and self._repl.interrupt()
