"""Numbered lines cut out of a stream of text, in constant memory, with exact notes of what is missing."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass

from tools.limits import LINE_CHARACTERS_MAX, READ_BYTES_MAX, READ_LINES_MAX

_LINE_BYTES_KEPT = 4 * LINE_CHARACTERS_MAX + 1  # UTF-8 needs at most 4 bytes for a character; 1 for a carriage return
_LONG_LINES_NAMED_MAX = 5


@dataclass(frozen=True)
class _Line:
    number: int
    text: str
    cut_bytes: int  # the length of the whole line when only its beginning is in `text`, else 0


class LineWindow:
    """Feed it the content in chunks; it keeps the lines asked for and counts all. Numbers start at 1.

    `line` is the number of the line that the content begins with.
    """

    def __init__(self, first: int = 1, count: int = READ_LINES_MAX, line: int = 1) -> None:
        self._first = first
        self._after = first + min(count, READ_LINES_MAX)
        self._limit_bytes = READ_BYTES_MAX
        self._line = line  # the number of the line that the next byte belongs to
        self._head = bytearray()  # the beginning of that line
        self._length = 0  # and how long it is so far
        self._lines: list[_Line] = []
        self._begun = line > 1
        self._at_end = True

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if not self._begun:
            self._begun = True
            chunk = chunk.removeprefix(BOM_UTF8)
        if not chunk:
            return
        position = self._skip(chunk)
        while position < len(chunk):
            if self._line >= self._after:
                self._count(chunk, position)
                return
            end = chunk.find(b"\n", position)
            stop = len(chunk) if end < 0 else end
            self._take(chunk, position, stop)
            if end < 0:
                return
            self._end_line()
            position = end + 1

    def close(self, *, at_end: bool = True) -> None:
        """The content ends here; or, not `at_end`, more of it follows that nobody looked at."""
        self._at_end = at_end
        if self._length and self._first <= self._line < self._after:
            self._end_line()
        elif self._length:
            self._line += 1

    @property
    def lines_total(self) -> int:
        """How many lines there are, once closed; a last one without a line end counts."""
        return self._line - 1

    @property
    def is_full(self) -> bool:
        """Whether nothing that follows would be shown."""
        return self._line >= self._after

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing, once closed."""
        return len(self._lines) == self.lines_total and not any(line.cut_bytes for line in self._lines)

    def render(self) -> str:
        """The lines with their numbers, and a note for each thing left out."""
        shown = [f"{line.number:6d}\t{line.text}" for line in self._lines]
        return "\n".join([*shown, *self._notes()])

    def _skip(self, chunk: bytes) -> int:
        """Count the lines before the first one wanted. Returns where in the chunk the rest begins."""
        if self._line >= self._first:
            return 0
        if self._line + chunk.count(b"\n") < self._first:
            self._count(chunk, 0)
            return len(chunk)
        position = 0
        while self._line < self._first:
            position = chunk.index(b"\n", position) + 1
            self._line += 1
        self._length = 0
        return position

    def _count(self, chunk: bytes, position: int) -> None:
        self._line += chunk.count(b"\n", position)
        self._length = 0 if chunk.endswith(b"\n") else 1  # only whether the last line has begun

    def _take(self, chunk: bytes, start: int, stop: int) -> None:
        room = _LINE_BYTES_KEPT - len(self._head)
        self._head += chunk[start : min(stop, start + room)]
        self._length += stop - start

    def _end_line(self) -> None:
        whole = len(self._head) == self._length
        kept = self._head.removesuffix(b"\r") if whole else self._head
        text = kept.decode("utf-8", "replace")  # of a long line: a cut character lies behind what is shown
        cut = not whole or len(text) > LINE_CHARACTERS_MAX
        line = _Line(self._line, text[:LINE_CHARACTERS_MAX], self._length if cut else 0)
        size = len(line.text.encode()) + 1
        if size > self._limit_bytes:
            self._after = self._line
        else:
            self._lines.append(line)
            self._limit_bytes -= size
        self._line += 1
        self._head.clear()
        self._length = 0

    def _notes(self) -> Iterator[str]:
        if self.lines_total == 0:
            yield "(The file is empty.)"
            return
        if not self._lines:
            yield f"(The file ends with line {self.lines_total}; there is nothing from line {self._first} on.)"
            return
        long_lines = [line for line in self._lines if line.cut_bytes]
        for line in long_lines[:_LONG_LINES_NAMED_MAX]:
            yield (
                f"(Line {line.number} has {line.cut_bytes:,} bytes, cut after {LINE_CHARACTERS_MAX:,} characters. "
                "Grep with output_mode content shows the text around a match in it.)"
            )
        if len(long_lines) > _LONG_LINES_NAMED_MAX:
            yield f"(Lines cut in the same way besides: {len(long_lines) - _LONG_LINES_NAMED_MAX}.)"
        first, last = self._lines[0].number, self._lines[-1].number
        if not self._at_end:
            yield f"(Lines {first} to {last}: read on with offset={last + 1}.)"
        elif len(self._lines) < self.lines_total:
            left = self.lines_total - last
            rest = f", {left} more after them: read on with offset={last + 1}" if left else ""
            yield f"(Lines {first} to {last} of {self.lines_total}{rest}.)"
