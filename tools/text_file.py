"""Text as it lies in a file: encoding, byte-order mark and line ends, none of which an edit may disturb.

The encoding is UTF-8, with or without a mark; anything else is refused by name. Line ends are LF or CRLF, also mixed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import takewhile

from tools.base import CallRefused, ErrorCode

BOM = codecs.BOM_UTF8

_ANY_LINE_END = rb"(?:\r\n|(?<!\r)\n)"  # never the second half of one

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
}
_OTHERS = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (or an office document)",
    b"\x1f\x8b": "gzip data",
    b"\x7fELF": "an ELF program or library",
    b"SQLite format 3\x00": "an SQLite database",
    codecs.BOM_UTF16_LE: "UTF-16 text",
    codecs.BOM_UTF16_BE: "UTF-16 text",
}


class Utf8Check:
    """Checks a stream of bytes for being text, chunk by chunk, in constant memory."""

    def __init__(self, shown: str, size: int) -> None:
        self._shown = shown
        self._size = size
        self._head = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, chunk: bytes, final: bool = False) -> None:
        """Raises CallRefused (NOT_TEXT) with the kind and size of what it is instead."""
        self._head = self._head or chunk[:16]
        if b"\0" in chunk:
            raise self._not_text("binary data")
        try:
            self._decoder.decode(chunk, final)
        except UnicodeDecodeError as error:
            raise self._not_text("text in another encoding, or binary data") from error

    def _not_text(self, otherwise: str) -> CallRefused:
        kind = kind_of(self._head) or otherwise
        message = f"{self._shown} is not UTF-8 text: {kind}, {self._size:,} bytes. Use a command (Bash) to look at it."
        return CallRefused(ErrorCode.NOT_TEXT, message)


def require_text(data: bytes, shown: str) -> None:
    """Raises CallRefused (NOT_TEXT) unless the content is UTF-8 without NUL bytes."""
    Utf8Check(shown, len(data)).feed(data, final=True)


def kind_of(head: bytes) -> str:
    """What a file is by its first bytes; empty for what is not known."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP image"
    return next((kind for magic, kind in {**_IMAGES, **_OTHERS}.items() if head.startswith(magic)), "")


def occurrences(data: bytes, old: str, *, overlapping: bool) -> Iterator[tuple[int, int]]:
    """Where a text stands, as (start, end) in bytes: each of its line breaks matches LF and CRLF.

    A text that holds a carriage return itself means exactly its bytes.
    """
    needle = old.encode()
    if "\n" not in old or "\r" in old or b"\r" not in data:
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
    """The bytes to put in place of `data[start:end]` for a text whose line breaks are LF.

    Lines that it shares with the end of what was there keep their line ends; the others take those of their place or,
    where it had none, of the neighbourhood.
    """
    lines = new.encode().split(b"\n")
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


def is_all_crlf(data: bytes) -> bool:
    """Whether every line of a file that has lines ends in CRLF."""
    return b"\n" in data and data.count(b"\n") == data.count(b"\r\n")


def _line_end_near(data: bytes, start: int, end: int) -> bytes:
    position = data.find(b"\n", end)
    if position < 0:
        position = data.rfind(b"\n", 0, start)
    return b"\r\n" if position > 0 and data[position - 1 : position] == b"\r" else b"\n"


def _shared_tail(one: list[bytes], other: list[bytes]) -> int:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
