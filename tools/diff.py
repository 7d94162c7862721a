"""A bounded unified diff of two contents, for the permission question and for results."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice, takewhile

from tools.limits import DIFF_COMPARED_LINES_MAX, DIFF_LINE_CHARACTERS_MAX

_CONTEXT_LINES = 3
_COLUMNS_BEFORE_CHANGE = 80


def unified_diff(before: bytes | None, after: bytes | None, shown: str, lines_max: int) -> str:
    """The change in the form of `diff -u`, at most `lines_max` lines and a note of how many are left out."""
    old, new = _lines(before or b""), _lines(after or b"")
    lines = list(islice(_hunks(old, new, _first_difference(before or b"", after or b"")), lines_max + 1))
    head = [f"--- {'/dev/null' if before is None else shown}", f"+++ {'/dev/null' if after is None else shown}"]
    if len(lines) > lines_max:
        lines = [*lines[:lines_max], f"… the diff goes on ({len(old)} lines before, {len(new)} after)"]
    return "\n".join(head + lines)


def _lines(data: bytes) -> list[bytes]:
    *lines, last = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(old: list[bytes], new: list[bytes], change_at: int) -> Iterator[str]:
    """Only the lines between the common beginning and the common end are compared."""
    first = _same(old, new)
    tail = _same(old[first:][::-1], new[first:][::-1])
    start, old_end, new_end = max(0, first - _CONTEXT_LINES), len(old) - tail, len(new) - tail
    a, b = old[start : old_end + _CONTEXT_LINES], new[start : new_end + _CONTEXT_LINES]
    column = change_at - sum(map(len, old[:first]))
    for group in _groups(a, b, first - start, min(tail, _CONTEXT_LINES)):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(start + a1, start + a2)} +{_range(start + b1, start + b2)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_clip(" ", line, 0) for line in a[i1:i2])
            else:
                yield from (_clip("-", line, column) for line in a[i1:i2])
                yield from (_clip("+", line, column) for line in b[j1:j2])


_Opcode = tuple[str, int, int, int, int]


def _groups(a: list[bytes], b: list[bytes], head: int, tail: int) -> list[list[_Opcode]]:
    if len(a) + len(b) <= 2 * DIFF_COMPARED_LINES_MAX:
        matcher = SequenceMatcher(None, a, b, autojunk=False)
        return [list(group) for group in matcher.get_grouped_opcodes(_CONTEXT_LINES)]
    a_end, b_end = len(a) - tail, len(b) - tail
    return [
        [("equal", 0, head, 0, head), ("replace", head, a_end, head, b_end), ("equal", a_end, len(a), b_end, len(b))]
    ]


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
    return f"{sign}{marks[0]}{kept.decode('utf-8', 'ignore')}{marks[1]}{end}"


def _same(one: list[bytes], other: list[bytes]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _first_difference(one: bytes, other: bytes) -> int:
    """Where two contents part, by bisection over slices: comparing them runs at memory speed."""
    same, different = 0, min(len(one), len(other)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            different = middle
    return same
