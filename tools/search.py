"""What Glob and Grep ask for, how a search ends, and who does it: ripgrep, or plain Python where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

Consume = Callable[[bytes], None]  # called in a thread: what it does may take its time


class Form(StrEnum):
    """What a search writes."""

    NAMES = "names"  # of all files, the newest first; each ends in a NUL byte
    FILES = "files_with_matches"  # names as above, in no order
    COUNTS = "count"  # name, NUL byte, number of matches, line break
    LINES = "content"  # ripgrep's JSON


@dataclass(frozen=True)
class Query:
    """A search below a directory: `name` is one file in it, or `.` for all of it.

    `hidden` looks at hidden files too, `ignored` at those that git ignores. `file_glob` leaves out files whose name
    does not fit; a pattern of ripgrep without a slash. `codec` is Python's name of the encoding that every file is
    read in, whatever it is; None: UTF-8, or UTF-16 where a mark says so.
    """

    form: Form
    hidden: bool = False
    ignored: bool = False
    name: str = "."
    file_glob: str | None = None
    pattern: str = ""
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0  # lines
    after: int = 0
    codec: str | None = None


@dataclass(frozen=True)
class SearchEnd:
    """How a search ended. `cut` says in words why it was stopped before its end; empty when it was not."""

    exit_code: int  # as ripgrep's: 2 when something was wrong
    complaints: tuple[str, ...]
    unreadable: int  # places
    cut: str

    def notes(self) -> list[str]:
        """What the reader of the result has to know about what is missing."""
        notes = [f"({self.cut}: the result is not complete. Search in a narrower path.)"] if self.cut else []
        if self.unreadable:
            notes.append(f"(Places that could not be read: {self.unreadable:,}.)")
        return notes


Search = Callable[[Query, Path, Consume, asyncio.Event], Awaitable[SearchEnd]]


class Lines:
    """Cuts a stream of bytes into records that end in a separator, and hands each to `take`."""

    def __init__(self, separator: bytes, take: Consume) -> None:
        self._separator = separator
        self._take = take
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        first, *others = chunk.split(self._separator)
        self._rest.append(first)
        for record in others:
            self._take(b"".join(self._rest))
            self._rest = [record]


async def search(query: Query, where: Path, consume: Consume, stop: asyncio.Event) -> SearchEnd:
    """Search a directory and hand the output on, chunk by chunk, within bounds of time and bytes."""
    from tools.ripgrep import find_ripgrep, ripgrep

    if find_ripgrep() is not None:
        return await ripgrep(query, where, consume, stop)
    from tools.plain_search import plain_search

    return await plain_search(query, where, consume, stop)
