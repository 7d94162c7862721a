"""A diff is true: who applies it to the old text has the new one."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tools.content import Splice
from tools.diff import diff_of, unified_diff

_TEXTS = st.text("ab\n", max_size=60).map(str.encode)
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def _applied(diff: str, old: bytes) -> bytes:
    lines, done, out, sign = old.splitlines(keepends=True), 0, b"", ""
    for line in diff.split("\n")[2:]:
        if header := _HEADER.fullmatch(line):
            start = int(header[1]) - (header[2] != "0")  # an empty range is named by the line before it
            out += b"".join(lines[done:start])
            done = start
        elif line.startswith("\\"):
            out = out if sign == "-" else out.removesuffix(b"\n")
        else:
            sign, text = line[0], line[1:].encode() + b"\n"
            if sign != "+":
                assert lines[done].removesuffix(b"\n") + b"\n" == text
                done += 1
            out += text if sign != "-" else b""
    return out + b"".join(lines[done:])


@given(_TEXTS, _TEXTS)
def test_of_two_texts(old: bytes, new: bytes) -> None:
    assert _applied(unified_diff(old, new, "f").text(), old) == new


@given(_TEXTS, _TEXTS, st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_of_a_change_within_a_text(old: bytes, new: bytes, places: tuple[int, int]) -> None:
    start, end = sorted(min(place, len(old)) for place in places)
    change = Splice(old, start, end, new)
    assert _applied(diff_of(change, "f", "f").text(), old) == old[:start] + new + old[end:]
