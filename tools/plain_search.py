"""The search of ripgrep in plain Python, for machines without it: slower, and with Python's regular expressions.

Output has the form of ripgrep's, so that everything behind it is the same.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tools.base import CallRefused
from tools.glob_pattern import compile_glob
from tools.ignore_rules import IgnoreRules
from tools.limits import CHANGE_BYTES_MAX, SEARCH_BYTES_MAX, SEARCH_SECONDS_MAX
from tools.regex_text import asks_for_returns, for_python
from tools.regular_file import chunks, regular_file
from tools.search import Consume, Form, Query, SearchEnd

_Span = tuple[int, int]


async def plain_search(
    query: Query,
    where: Path,
    consume: Consume,
    stop: asyncio.Event,
    *,
    seconds_max: float = SEARCH_SECONDS_MAX,
    bytes_max: int = SEARCH_BYTES_MAX,
) -> SearchEnd:
    """Search in a thread; ended by its bounds, by `stop`, or when this call is cancelled."""
    given_up = threading.Event()
    job = _Job(query, where, consume, given_up, bytes_max)
    work = asyncio.ensure_future(asyncio.to_thread(job.run))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({work, stopped}, timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            job.cut = "The search was interrupted" if stop.is_set() else f"Stopped after {seconds_max:g} seconds"
    finally:
        given_up.set()
        stopped.cancel()
        await asyncio.wait({work, stopped})
    return work.result()


class _Job:
    def __init__(self, query: Query, where: Path, consume: Consume, given_up: threading.Event, bytes_max: int) -> None:
        self.cut = ""
        self._query = query
        self._where = where
        self._consume = consume
        self._given_up = given_up
        self._room = bytes_max
        self._unreadable = 0

    def run(self) -> SearchEnd:
        query = self._query
        try:
            searcher = None if query.form is Form.NAMES else _Searcher(query)
        except re.error as error:
            return SearchEnd(2, (f"regex parse error: {error}",), 0, "")
        if not os.access(self._where, os.X_OK):  # no process can be there, ripgrep neither
            return SearchEnd(2, (), 1, "")
        for name in self._newest() if searcher is None else self._names():
            if self._given_up.is_set():
                break
            for record in [os.fsencode(name) + b"\0"] if searcher is None else self._search(searcher, name):
                self._room -= len(record)
                if self._room < 0:
                    self.cut = self.cut or "Stopped at the bound of bytes of matches"
                    return self._end()
                self._consume(record)
        return self._end()

    def _end(self) -> SearchEnd:
        return SearchEnd(2 if self._unreadable else 0, (), self._unreadable, self.cut)

    def _search(self, searcher: _Searcher, name: str) -> Iterator[bytes]:
        try:
            with regular_file(self._where / name, name) as (file, looked_at):
                if looked_at.st_size > CHANGE_BYTES_MAX:
                    self._unreadable += 1
                    return
                data = b"".join(chunks(file, name))
        except CallRefused:
            self._unreadable += 1
            return
        shown = os.fsencode(name if self._query.name == "." else f"./{name}")
        yield from searcher.records(shown, data, named=self._query.name != ".")

    def _newest(self) -> list[str]:
        def age(name: str) -> tuple[int, str]:
            try:
                return -(self._where / name).lstat().st_mtime_ns, name
            except OSError:
                return 0, name  # gone meanwhile

        return sorted(self._names(), key=age)

    def _names(self) -> Iterator[str]:
        """Paths of regular files, relative to where the search begins."""
        query = self._query
        if query.name != ".":
            yield query.name
            return
        fits = None if query.file_glob is None else compile_glob(query.file_glob).fullmatch
        open_ = [("", None if query.ignored else IgnoreRules.of(self._where))]
        while open_ and not self._given_up.is_set():
            below, rules = open_.pop()
            for entry in self._entries(below):
                is_directory = entry.is_dir(follow_symlinks=False)
                hidden = entry.name.startswith(".") and not query.hidden
                if hidden or not (is_directory or entry.is_file(follow_symlinks=False)):
                    continue
                if rules is not None and rules.ignores(entry.path, is_directory=is_directory):
                    continue
                if is_directory:
                    inner = None if rules is None else IgnoreRules(Path(entry.path), rules)
                    open_.append((f"{below}{entry.name}/", inner))
                elif fits is None or fits(entry.name):
                    yield below + entry.name

    def _entries(self, below: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._where / below) as entries:
                return list(entries)
        except OSError:
            self._unreadable += 1
            return []


@dataclass(frozen=True)
class _Hit:
    """Lines that matches touch: from one index up to another, and the places within them in characters."""

    first: int
    after: int
    spans: tuple[_Span, ...]


class _Searcher:
    """Finds a pattern in the content of files."""

    def __init__(self, query: Query) -> None:
        """Raises re.error."""
        self._query = query
        if "\n" in query.pattern and not query.multiline:
            raise re.error("a line break is found only with multiline set")
        flags = re.IGNORECASE if query.ignore_case else re.NOFLAG
        flags |= re.DOTALL | re.MULTILINE if query.multiline else re.NOFLAG
        self._returns_end_lines = not asks_for_returns(query.pattern)
        line_ends = query.multiline and self._returns_end_lines
        self._pattern = re.compile(for_python(query.pattern, line_ends=line_ends), flags)

    def records(self, name: bytes, data: bytes, *, named: bool) -> Iterator[bytes]:
        """The records of one file. What holds a NUL byte is searched only when it was named."""
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            data = data.decode("utf-16", "replace").encode()
        if self._query.codec is not None:
            data = data.decode(self._query.codec, "replace").encode()
        if b"\0" in data and not named:
            return
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
        lines = text.removesuffix("\n").split("\n") if text else []
        if self._query.multiline:
            hits = self._hits_of_text(text, lines)
        else:
            hits = self._hits_of_lines(lines, is_last_open=not text.endswith("\n"))
        match self._query.form:
            case Form.LINES:
                yield from self._messages(name, lines, list(hits))
            case Form.COUNTS:
                if count := sum(len(hit.spans) or 1 for hit in hits):
                    yield name + b"\0" + str(count).encode() + b"\n"
            case _:
                if next(hits, None):
                    yield name + b"\0"

    def _hits_of_lines(self, lines: list[str], *, is_last_open: bool) -> Iterator[_Hit]:
        """An empty match at the end of all text is none, but its line is a hit, as in ripgrep."""
        search, finditer = self._pattern.search, self._pattern.finditer
        for index, line in enumerate(lines):
            if self._returns_end_lines and "\r" in line:
                spans = tuple(self._spans_between_returns(line))
            else:
                spans = tuple(found.span() for found in finditer(line)) if search(line) else ()
            if spans:
                is_open = is_last_open and index + 1 == len(lines)
                yield _Hit(index, index + 1, tuple(span for span in spans if span[0] < len(line) or not is_open))

    def _spans_between_returns(self, line: str) -> Iterator[_Span]:
        """Nothing matches over a carriage return: that is how `--crlf` of ripgrep takes those within lines, too."""
        start = 0
        for part in line.removesuffix("\r").split("\r"):
            for found in self._pattern.finditer(part):
                yield start + found.start(), start + found.end()
            start += len(part) + 1

    def _hits_of_text(self, text: str, lines: list[str]) -> Iterator[_Hit]:
        """Matches that share a line are one hit."""
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        hit: _Hit | None = None
        at = 0
        for found in self._pattern.finditer(text):
            start, end = found.span()
            if start == len(text) and (not text or text.endswith("\n")):
                break  # behind the last line
            while at + 1 < len(lines) and starts[at + 1] <= start:
                at += 1
            after = at + 1
            while after < len(lines) and starts[after] < end:
                after += 1
            first, spans = (hit.first, hit.spans) if hit is not None and at < hit.after else (at, ())
            if hit is not None and at >= hit.after:
                yield hit
            base = starts[first]
            place = ((start - base, end - base),) if start < len(text) else ()
            hit = _Hit(first, max(hit.after, after) if hit is not None else after, (*spans, *place))
        if hit is not None:
            yield hit

    def _messages(self, name: bytes, lines: list[str], hits: list[_Hit]) -> Iterator[bytes]:
        if not hits:
            return
        yield _message("begin", path=_text(name))
        done = 0
        for index, hit in enumerate(hits):
            for number in range(max(done, hit.first - self._query.before), hit.first):
                yield self._line("context", lines, number, number + 1, ())
            yield self._line("match", lines, hit.first, hit.after, hit.spans)
            next_first = hits[index + 1].first if index + 1 < len(hits) else len(lines)
            done = min(hit.after + self._query.after, next_first)
            for number in range(hit.after, done):
                yield self._line("context", lines, number, number + 1, ())

    def _line(self, kind: str, lines: list[str], first: int, after: int, spans: tuple[_Span, ...]) -> bytes:
        text = "\n".join(lines[first:after]) + "\n"
        places = [{"start": len(text[:start].encode("utf-8", "surrogateescape"))} for start, _ in spans]
        raw = text.encode("utf-8", "surrogateescape")
        return _message(kind, lines=_text(raw), line_number=first + 1, submatches=places)


def _message(kind: str, **data: object) -> bytes:
    return msgspec.json.encode({"type": kind, "data": data}) + b"\n"


def _text(raw: bytes) -> dict[str, str]:
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode()}
