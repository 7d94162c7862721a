"""Turns what a command wrote into text that a model can use: bounded, without screen control, cuts named exactly."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass

# CSI (colours, cursor), OSC (titles, links) with either terminator, and the short two-byte sequences.
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
OVERSTRIKE = re.compile(r"[^\x08]\x08")
UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all controls but tab and newline

# A line is looked at whole before it is cut. Longer ones are cut first: their reduction may then see half a sequence.
LINE_BYTES_MAX = 1024 * 1024
OUTPUT_CHARS_MAX = 30_000  # of one command: about 8,000 tokens, more would push out the task itself
STDERR_CHARS_MIN = 10_000  # of them, when both streams are long: errors are what is looked for
CUT_CHARS_MAX = 60  # the line that names a cut


@dataclass(frozen=True)
class Spooled:
    """The two ends of a stream. They do not overlap; together they may be less than `total` bytes."""

    head: bytes
    tail: bytes
    total: int


def streams_text(out: Spooled, err: Spooled, *, nothing: str = "(no output)") -> str:
    """What a command wrote, for the model: stdout, then stderr under its name; `nothing` when both are blank."""
    err_chars = max(STDERR_CHARS_MIN, OUTPUT_CHARS_MAX - out.total) if err.total else 0
    err_text = clip(err, min(err_chars, OUTPUT_CHARS_MAX))
    out_text = clip(out, OUTPUT_CHARS_MAX - len(err_text))
    if not err_text.strip():
        return out_text if out_text.strip() else nothing
    if out_text and not out_text.endswith("\n"):
        out_text += "\n"
    return f"{out_text}[stderr]\n{err_text}"


def without_half_character(stream: Spooled) -> Spooled:
    """The stream without the UTF-8 character at its end of which not all bytes have come yet."""
    end = stream.tail or stream.head
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(end[-4:])  # no character is longer
    half = len(decoder.getstate()[0])
    if not half:
        return stream
    if stream.tail:
        return Spooled(stream.head, stream.tail[:-half], stream.total - half)
    return Spooled(stream.head[:-half], b"", stream.total - half)


def reduce_line(line: str) -> str:
    """What a terminal would show of one line at last: a progress bar counts by its final state."""
    if line.isprintable():
        return line
    line = ESCAPES.sub("", line)
    states = [state for state in line.split("\r") if state]
    line = states[-1] if states else ""
    while "\x08" in line:
        shorter = OVERSTRIKE.sub("", line.lstrip("\x08"))
        if shorter == line:
            break
        line = shorter
    return line


def live_text(data: bytes) -> str:
    """For the screen, while it runs: best effort, in whatever pieces it comes."""
    return UNSHOWABLE.sub("", ESCAPES.sub("", data.decode("utf-8", "replace").replace("\r", "\n")))


def clip(stream: Spooled, chars_max: int) -> str:
    """The stream as text of at most `chars_max` characters: all of it, or its two ends with the cut named.

    The number in the cut is exact: the bytes of the stream that no shown character stands for. A line that was only
    reduced (colours, progress) counts as shown.
    """
    if len(stream.head) + len(stream.tail) == stream.total:
        whole = stream.head + stream.tail
        text, used = _take(_lines(whole), chars_max)
        if used == len(whole):
            return _clean(text)
        stream = Spooled(whole, whole, stream.total)
    chars_max -= CUT_CHARS_MAX
    first, first_bytes = _take(_lines(stream.head), chars_max // 2)
    last, last_bytes = _take_back(_lines(stream.tail), chars_max - chars_max // 2)
    left_out = stream.total - first_bytes - last_bytes
    return f"{_clean(first)}\n[... {left_out} bytes left out ...]\n{_clean(last)}"


def _lines(data: bytes) -> list[bytes]:
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        pieces = [line[at : at + LINE_BYTES_MAX] for at in range(0, len(line), LINE_BYTES_MAX)] or [b""]
        pieces[-1] += b"\n"
        lines += pieces
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _shown(line: bytes) -> str:
    # surrogateescape: every byte that is no UTF-8 stays countable; _clean makes it a replacement character at last
    text = line.decode("utf-8", "surrogateescape")
    return reduce_line(text[:-1]) + "\n" if text.endswith("\n") else reduce_line(text)


def _take(lines: Iterable[bytes], chars_max: int) -> tuple[str, int]:
    """Text from the front and the number of bytes it stands for."""
    text: list[str] = []
    used = 0
    for line in lines:
        shown = _shown(line)
        if len(shown) > chars_max:
            part = shown[:chars_max]
            return "".join([*text, part]), used + _byte_count(part)
        text.append(shown)
        used += len(line)
        chars_max -= len(shown)
    return "".join(text), used


def _take_back(lines: list[bytes], chars_max: int) -> tuple[str, int]:
    text: list[str] = []
    used = 0
    for line in reversed(lines):
        shown = _shown(line)
        if len(shown) > chars_max:
            part = shown[len(shown) - chars_max :]
            return "".join(reversed([*text, part])), used + _byte_count(part)
        text.append(shown)
        used += len(line)
        chars_max -= len(shown)
    return "".join(reversed(text)), used


def _byte_count(part: str) -> int:
    return len(part.encode("utf-8", "surrogateescape"))


def _clean(text: str) -> str:
    return UNSHOWABLE.sub("\ufffd", text)
