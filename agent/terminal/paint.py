"""Text for the scrollback, rendered by rich: Markdown, and unified diffs in colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {"@": "cyan", "+": "green", "-": "red", "\\": "dim"}  # by the sign of a line
_INDENT = "  "


class Paint:
    """`columns` tells the terminal's width. Without `color` there are no escape codes at all."""

    def __init__(self, columns: Callable[[], int], *, color: bool) -> None:
        self._columns = columns
        self._color = color

    def markdown(self, text: str) -> str:
        from rich.markdown import Markdown

        return self._rendered(Markdown(text, code_theme="ansi_dark"))

    def diff(self, lines: Sequence[str]) -> str:
        """The lines of a unified diff, one row each; its first two name the file."""
        from rich.text import Text

        styles = ["bold" if index < 2 else _STYLES.get(line[:1], "") for index, line in enumerate(lines)]
        rows = [Text(_INDENT + line, style) for line, style in zip(lines, styles, strict=True)]
        return self._rendered(Text("\n").join(rows))

    def _rendered(self, what: RenderableType) -> str:
        from rich.console import Console

        out = StringIO()
        console = Console(
            file=out,
            width=max(20, self._columns()),
            force_terminal=self._color,
            color_system="standard" if self._color else None,
            no_color=not self._color,
            highlight=False,
        )
        console.print(what)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n")) + "\n"


def diff_start(lines: Sequence[str]) -> int:
    """The index at which a unified diff begins; the number of lines when there is none."""
    heads = (index for index in range(len(lines) - 1) if lines[index].startswith("--- "))
    return next((index for index in heads if lines[index + 1].startswith("+++ ")), len(lines))
