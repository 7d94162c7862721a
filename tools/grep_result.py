"""What ripgrep found, put together for the model: sorted, bounded, with exact notes of what is left out."""

from __future__ import annotations

import base64
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from tools.limits import GREP_BYTES_MAX, GREP_KEPT_BYTES_MAX, GREP_LINE_CHARACTERS_MAX, GREP_WINDOW_CHARACTERS
from tools.search import Consume, Lines

Show = Callable[[bytes], str | None]  # a path as the model sees it; None: not wanted
Words = Callable[[bytes, bytes], str]  # a part of a line of the file with this path, as text


@dataclass(frozen=True)
class _Entry:
    line: str
    counts: int = 1  # towards `total`; lines of context do not


class Collector(ABC):
    """Takes the output of one search after the other. `total` counts what there is to show, whether kept or not."""

    separator = b"\n"

    def __init__(self) -> None:
        self.total = 0
        self._show: Show = os.fsdecode
        self._room = GREP_KEPT_BYTES_MAX
        self._kept: dict[str, list[_Entry]] = {}  # by path, sorted when shown: ripgrep's threads have no order

    def begin(self, show: Show) -> Consume:
        """The next search begins: what to hand its output to, chunk by chunk."""
        self._show = show
        return Lines(self.separator, self.take).feed

    @abstractmethod
    def take(self, record: bytes) -> None:
        """One record of ripgrep's output."""

    @abstractmethod
    def note(self, missing: int) -> str:
        """What the result has to say at its end; `missing` of `total` are not shown."""

    def keep(self, path: str, entry: _Entry) -> None:
        """Count a line, and keep it as long as there is room."""
        self.total += entry.counts
        if self._room > 0:
            self._room -= len(entry.line)
            self._kept.setdefault(path, []).append(entry)

    def render(self, head_limit: int | None) -> str:
        """The first lines within the bounds, and the note."""
        entries = [entry for path in sorted(self._kept) for entry in self._kept[path]][:head_limit]
        lines, size, shown = [], 0, 0
        for entry in entries:
            size += len(entry.line.encode()) + 1
            if size > GREP_BYTES_MAX:
                break
            lines.append(entry.line)
            shown += entry.counts
        note = self.note(self.total - shown)
        return "\n".join([*lines, note] if note else lines)


class Files(Collector):
    """Paths of files with a match."""

    separator = b"\0"

    def take(self, record: bytes) -> None:
        path = self._show(record)
        if path is not None:
            self.keep(path, _Entry(path))

    def note(self, missing: int) -> str:
        return f"({missing:,} of {self.total:,} files are left out.)" if missing else ""


class Counts(Collector):
    """The number of matches in each file."""

    def __init__(self) -> None:
        super().__init__()
        self._matches = 0
        self._name_begun = b""

    def begin(self, show: Show) -> Consume:
        self._name_begun = b""
        return super().begin(show)

    def take(self, record: bytes) -> None:
        name, zero, count = record.rpartition(b"\0")
        if not zero:
            self._name_begun += record + b"\n"  # a line break within the name
            return
        path = self._show(self._name_begun + name)
        self._name_begun = b""
        if path is not None:
            self._matches += int(count)
            self.keep(path, _Entry(f"{path}:{int(count)}"))

    def note(self, missing: int) -> str:
        left_out = f", of which {missing:,} are left out" if missing else ""
        return f"(In total {self._matches:,}, in files: {self.total:,}{left_out}.)"


class Matches(Collector):
    """The matching lines, with the lines around them."""

    def __init__(self, words: Words, numbers: bool, context: bool) -> None:
        super().__init__()
        self._words = words
        self._name = b""
        self._numbers = numbers
        self._context = context
        self._path: str | None = None
        self._next_number = 0

    def take(self, record: bytes) -> None:
        message = _DECODER.decode(record)
        if message.type == "begin":
            self._name = message.data.path.decoded()
            self._path, self._next_number = self._show(self._name), 0
        elif message.type in ("match", "context") and self._path is not None:
            self._take_lines(self._path, message.data, is_match=message.type == "match")

    def note(self, missing: int) -> str:
        return f"({missing:,} of {self.total:,} matches are left out.)" if missing else ""

    def _take_lines(self, path: str, data: _Data, *, is_match: bool) -> None:
        """A match is one line, or several with `multiline`; it counts once. It has no place at the end of all text."""
        number, position = data.line_number or 0, 0
        if self._context and self._next_number and number != self._next_number:
            self.keep(path, _Entry("--", 0))
        sign = ":" if is_match else "-"
        for index, line in enumerate(data.lines.decoded().removesuffix(b"\n").split(b"\n")):
            spans = [s for s in data.submatches if position <= s.start <= position + len(line)]
            text = _excerpt(partial(self._words, self._name), line, [span.start - position for span in spans])
            where = f"{path}{sign}{number + index}{sign}" if self._numbers else f"{path}{sign}"
            self.keep(path, _Entry(where + text, int(is_match and index == 0)))
            position += len(line) + 1
            self._next_number = number + index + 1


class _Text(msgspec.Struct):
    """A text of ripgrep's JSON; in base64 when it is not UTF-8."""

    text: str | None = None
    encoded: str = msgspec.field(default="", name="bytes")

    def decoded(self) -> bytes:
        return base64.b64decode(self.encoded) if self.text is None else self.text.encode()


class _Span(msgspec.Struct):
    start: int  # in bytes of the lines


class _Data(msgspec.Struct):
    path: _Text = msgspec.field(default_factory=_Text)
    lines: _Text = msgspec.field(default_factory=_Text)
    line_number: int | None = None
    submatches: list[_Span] = []


class _Message(msgspec.Struct):
    type: str
    data: _Data


_DECODER = msgspec.json.Decoder(_Message)


def _excerpt(words: Callable[[bytes], str], line: bytes, starts: list[int]) -> str:
    """The line; of a long one the part around its first match, with the column in characters, from 1."""
    text = words(line.removesuffix(b"\r")).replace("\0", "␀")
    if len(text) <= GREP_LINE_CHARACTERS_MAX:
        return text
    if not starts:
        return text[:GREP_LINE_CHARACTERS_MAX] + f"… [the line has {len(text):,} characters]"
    column = len(words(line[: starts[0]]))
    begin, end = max(0, column - GREP_WINDOW_CHARACTERS), column + GREP_WINDOW_CHARACTERS
    more = f", {len(starts)} matches" if len(starts) > 1 else ""
    marks = ("…" if begin else "", "…" if end < len(text) else "")
    return f"[column {column + 1:,} of {len(text):,}{more}; cut] {marks[0]}{text[begin:end]}{marks[1]}"
