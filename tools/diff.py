"""A bounded unified diff of two texts, for the permission question and for results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice, takewhile

from tools.content import Splice
from tools.limits import CHUNK_BYTES, DIFF_COMPARED_LINES_MAX, DIFF_LINE_CHARACTERS_MAX, DIFF_PREVIEW_LINES_MAX

_CONTEXT_LINES = 3
_COLUMNS_BEFORE_CHANGE = 80


@dataclass(frozen=True)
class Diff:
    """The lines of a change in the form of `diff -u`, of a long one the first."""

    head: tuple[str, ...]
    lines: tuple[str, ...]
    change: Splice = field(repr=False)

    def text(self, lines_max: int = DIFF_PREVIEW_LINES_MAX) -> str:
        """At most so many lines, and a note when that is not all."""
        lines = self.lines[:lines_max]
        if len(self.lines) > lines_max:
            before, after = _count_lines(self.change.text), _count_lines(b"".join(self.change.pieces))
            lines = (*lines, f"… the diff goes on ({before} lines before, {after} after)")
        return "\n".join(self.head + lines)


def unified_diff(before: bytes | None, after: bytes | None, shown: str) -> Diff:
    """Compare two texts in UTF-8; None means that there is no file."""
    old, new = before or b"", after or b""
    return diff_of(Splice(old, 0, len(old), new), *("/dev/null" if text is None else shown for text in (before, after)))


def diff_of(change: Splice, shown_before: str, shown_after: str) -> Diff:
    """What a change of a text in UTF-8 makes of it. All but the part that differs is never looked at line by line."""
    lines = () if change.is_empty else islice(_hunks(change), DIFF_PREVIEW_LINES_MAX + 1)
    return Diff((f"--- {shown_before}", f"+++ {shown_after}"), tuple(lines), change)


def _hunks(change: Splice) -> Iterator[str]:
    text, old, new = change.text, change.text[change.start : change.end], change.new
    head = _same_head(old, new)
    tail = _same_tail(old, new, head)
    change_at, same_from = change.start + head, change.end - tail
    start = _lines_back(text, change_at, _CONTEXT_LINES)
    end = _lines_on(text, same_from, 1 + _CONTEXT_LINES)  # the line that the change ends in, and those behind it
    first_line = text.count(b"\n", 0, start)
    a = _lines(text[start:end])
    b = _lines(text[start:change_at] + new[head : len(new) - tail] + text[same_from:end])
    column = change_at - (text.rfind(b"\n", 0, change_at) + 1)
    for group in _groups(a, b):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(first_line + a1, first_line + a2)} +{_range(first_line + b1, first_line + b2)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_clip(" ", line, 0) for line in a[i1:i2])
            else:
                yield from (_clip("-", line, column) for line in a[i1:i2])
                yield from (_clip("+", line, column) for line in b[j1:j2])


_Opcode = tuple[str, int, int, int, int]


def _groups(a: list[bytes], b: list[bytes]) -> list[list[_Opcode]]:
    if len(a) + len(b) <= 2 * DIFF_COMPARED_LINES_MAX:
        matcher = SequenceMatcher(None, a, b, autojunk=False)
        return [list(group) for group in matcher.get_grouped_opcodes(_CONTEXT_LINES)]
    head = _same(a, b)
    tail = min(_same(a[head:][::-1], b[head:][::-1]), _CONTEXT_LINES)
    a_end, b_end = len(a) - tail, len(b) - tail
    return [
        [("equal", 0, head, 0, head), ("replace", head, a_end, head, b_end), ("equal", a_end, len(a), b_end, len(b))]
    ]


def _lines(data: bytes) -> list[bytes]:
    *lines, last = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def _range(start: int, stop: int) -> str:
    """A range as `diff -u` writes it: an empty one is named by the line before it."""
    length = stop - start
    begin = start + 1 if length else start
    return str(begin) if length == 1 else f"{begin},{length}"


def _clip(sign: str, line: bytes, column: int) -> str:
    """One line of a diff; of a long one the part where the change begins."""
    text = line.removesuffix(b"\n").removesuffix(b"\r")
    start = max(0, column - _COLUMNS_BEFORE_CHANGE) if len(text) > DIFF_LINE_CHARACTERS_MAX else 0
    kept = text[start : start + DIFF_LINE_CHARACTERS_MAX]
    marks = ("…" if start else "", "…" if start + len(kept) < len(text) else "")
    end = "" if line.endswith(b"\n") else "\n\\ No newline at end of file"
    errors = "ignore" if any(marks) else "replace"  # a cut may run through a character
    return f"{sign}{marks[0]}{kept.decode('utf-8', errors)}{marks[1]}{end}"


def _same(one: list[bytes], other: list[bytes]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _same_head(one: bytes, other: bytes) -> int:
    """How long the common beginning is. Slices are compared, which runs at memory speed."""
    size = min(len(one), len(other))
    for start in range(0, size, CHUNK_BYTES):
        end = min(start + CHUNK_BYTES, size)
        if one[start:end] != other[start:end]:
            return start + _same_by_bisection(one[start:end], other[start:end])
    return size


def _same_tail(one: bytes, other: bytes, head: int) -> int:
    """How long the common end is behind a common beginning."""
    size = min(len(one), len(other)) - head
    for same in range(0, size, CHUNK_BYTES):
        step = min(CHUNK_BYTES, size - same)
        a, b = one[len(one) - same - step : len(one) - same], other[len(other) - same - step : len(other) - same]
        if a != b:
            return same + _same_by_bisection(a[::-1], b[::-1])
    return size


def _same_by_bisection(one: bytes, other: bytes) -> int:
    same, different = 0, min(len(one), len(other)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            different = middle
    return same


def _lines_back(data: bytes, position: int, count: int) -> int:
    """The start of the line that stands so many lines before the one at a position."""
    for _ in range(count + 1):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return 0
    return position + 1


def _lines_on(data: bytes, position: int, count: int) -> int:
    """The end of so many lines from the start of one on."""
    for _ in range(count):
        found = data.find(b"\n", position)
        if found < 0:
            return len(data)
        position = found + 1
    return position
