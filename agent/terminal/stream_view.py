"""An answer that streams above a living prompt: whole blocks go to the scrollback, the rest is shown beside the prompt.

A commit to the scrollback erases and redraws the prompt, so commits are bundled. Blocks are rendered by rich as
Markdown; the block that is still being written stands above the prompt as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent.terminal.paint import Paint
from agent.terminal.printable import printable

TAIL_ROWS_MAX = 8  # of the unfinished block: more would push the prompt about

_FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)


class StreamView:
    """Splits streamed text into finished blocks and a tail. `columns` tells the terminal's width."""

    def __init__(self, columns: Callable[[], int], paint: Paint) -> None:
        self._columns = columns
        self._paint = paint
        self._text = ""
        self._is_later = False  # a block of this answer was rendered already

    def feed(self, text: str) -> str:
        """Take in a piece; what is finished by now, rendered, or ''."""
        self._text += text
        end = _finished(self._text)
        block, self._text = self._text[:end], self._text[end:]
        return self._rendered(block)

    def flush(self) -> str:
        """The answer is over: the rest, rendered."""
        block, self._text = self._text, ""
        rendered = self._rendered(block)
        self._is_later = False
        return rendered

    def tail(self) -> list[str]:
        """The last rows of the unfinished block, wrapped to the terminal's width."""
        text = printable(self._text)
        return wrapped(text, self._columns())[-TAIL_ROWS_MAX:] if text.strip() else []

    def _rendered(self, block: str) -> str:
        block = printable(block)
        if not block.strip():
            return ""
        between = "\n" if self._is_later else ""  # blocks are rendered one by one, and the line between them is theirs
        self._is_later = True
        return between + self._paint.markdown(block.strip("\n"))


def _finished(text: str) -> int:
    """Where the last finished block ends: at a blank line outside a code fence."""
    end = at = 0
    for match in re.finditer(r"\n[ \t]*\n", text):
        inside = len(_FENCE.findall(text[at : match.start()])) % 2
        if not inside:
            end = at = match.end()
    return end


def wrapped(text: str, columns: int) -> list[str]:
    """The text in rows of at most `columns` cells, wide characters counted as two."""
    from prompt_toolkit.utils import get_cwidth

    rows: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        row, width = "", 0
        for character in line:
            cells = get_cwidth(character)
            if width + cells > columns:
                rows.append(row)
                row, width = "", 0
            row, width = row + character, width + cells
        rows.append(row)
    return rows
