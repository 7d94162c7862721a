"""Asks the user *may I?*: the question stands in the scrollback, the answer is the next line typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent.permissions import Answer, Question
from agent.terminal.paint import Paint, diff_start
from agent.terminal.printable import unmasked

PREVIEW_LINES_MAX = 60

_ANSWERS = {
    "y": Answer.ALLOWED,
    "yes": Answer.ALLOWED,
    "a": Answer.ALWAYS,
    "always": Answer.ALWAYS,
    "n": Answer.DENIED,
    "no": Answer.DENIED,
}


class TerminalApprover:
    """One question at a time; those of overlapping calls wait for each other."""

    def __init__(self, paint: Paint, show: Callable[[str], None]) -> None:
        self._paint = paint
        self._show = show
        self._turn = asyncio.Lock()
        self._question: Question | None = None
        self._answer: asyncio.Future[Answer] | None = None

    @property
    def asks(self) -> str:
        """What stands before the prompt while a question waits; '' while none does."""
        return f"Allow {self._question.tool_name}? [y]es · [n]o · [a]lways" if self._question else ""

    async def ask(self, question: Question) -> Answer:
        async with self._turn:
            self._question = question
            self._answer = asyncio.get_running_loop().create_future()
            self._show(self._shown(question))
            try:
                return await self._answer
            finally:
                self._question = self._answer = None

    def take(self, line: str) -> bool:
        """Take a typed line as the answer; False when it is none, and the question stays."""
        answer = _ANSWERS.get(line.strip().lower())
        if answer is None or self._answer is None or self._answer.done():
            return False
        self._answer.set_result(answer)
        return True

    def _shown(self, question: Question) -> str:
        lines = unmasked(question.preview or question.subject).split("\n")
        more = len(lines) - PREVIEW_LINES_MAX
        shown = lines[:PREVIEW_LINES_MAX]
        is_diff = diff_start(shown) == 0
        body = self._paint.diff(shown) if is_diff else "".join(f"  {line}\n" for line in shown)
        rest = f"  … {more} more lines\n" if more > 0 else ""
        return f"{question.tool_name} {unmasked(question.subject)}\n{body}{rest}"
