"""Finding and replacing text between line ends that are LF or CRLF, also mixed, none of which an edit may disturb.

A text without any LF may have the lone CR of old Macs instead.

Everything here is UTF-8, or the bytes of an encoding that extends ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

_ANY_LINE_END = rb"(?:\r\n|(?<!\r)\n)"  # never the second half of one


def occurrences(data: bytes, old: str, *, overlapping: bool) -> Iterator[tuple[int, int]]:
    """Where a text stands, as (start, end) in bytes: each of its line breaks matches what the data has.

    A text that holds a carriage return itself means exactly its bytes.
    """
    needle = old.encode()
    if "\r" not in old and is_cr_only(data):
        needle = needle.replace(b"\n", b"\r")
    if b"\n" not in needle or "\r" in old or b"\r" not in data:
        start = data.find(needle)
        while start >= 0:
            yield start, start + len(needle)
            start = data.find(needle, start + (1 if overlapping else len(needle)))
        return
    pattern = re.compile(re.escape(needle).replace(b"\\\n", _ANY_LINE_END))
    match = pattern.search(data)
    while match:
        yield match.span()
        match = pattern.search(data, match.start() + 1 if overlapping else match.end())


def with_line_ends(new: str, data: bytes, start: int, end: int) -> bytes:
    """The bytes to put in place of `data[start:end]` for a text, whose own line breaks may be LF or CRLF.

    Lines that it shares with the end of what was there keep their line ends; the others take those of their place or,
    where it had none, of the neighbourhood.
    """
    if is_cr_only(data):
        return new.replace("\r\n", "\n").encode().replace(b"\n", b"\r")
    lines = new.replace("\r\n", "\n").encode().split(b"\n")
    *before, last = data[start:end].split(b"\n")
    ends = [b"\r\n" if line.endswith(b"\r") else b"\n" for line in before]
    shared = _shared_tail(lines, [line.removesuffix(b"\r") for line in before] + [last])
    near = ends or [_line_end_near(data, start, end)]
    out = bytearray(lines[0])
    for index, line in enumerate(lines[1:]):
        from_the_end = len(lines) - 1 - index
        out += ends[-from_the_end] if from_the_end < shared else near[min(index, len(near) - 1)]
        out += line
    return bytes(out)


def is_cr_only(data: bytes) -> bool:
    """Whether lines end in a lone CR."""
    return b"\n" not in data and b"\r" in data


def line_number(data: bytes, position: int) -> int:
    """The number of the line, from 1, that a position is in."""
    return data.count(b"\r" if is_cr_only(data) else b"\n", 0, position) + 1


def _line_end_near(data: bytes, start: int, end: int) -> bytes:
    position = data.find(b"\n", end)
    if position < 0:
        position = data.rfind(b"\n", 0, start)
    return b"\r\n" if position > 0 and data[position - 1 : position] == b"\r" else b"\n"


def _shared_tail(one: list[bytes], other: list[bytes]) -> int:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
