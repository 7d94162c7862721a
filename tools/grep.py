"""Grep: a regular expression over the files of the workspace, by ripgrep."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from tools import ignored
from tools.base import Action, CallRefused, ErrorCode, Plan, Tool, ToolParams, ToolResult
from tools.content import Content
from tools.encoding import is_utf_8
from tools.glob_pattern import compile_glob, names_hidden, normal_form
from tools.grep_result import Collector, Counts, Files, Matches, Show
from tools.limits import DECODED_BYTES_MAX
from tools.path_text import QUOTING_RULE
from tools.regular_file import refusal, refuse_special
from tools.search import Form, Query, Search, SearchEnd, search
from tools.workspace import Workspace

CodecOf = Callable[[bytes], str | None]  # of the file with this path; None: UTF-8, or UTF-16 with a mark
_LEGACY = {"gbk": "gb18030", "cp1252": "cp1252"}  # whose letters: what to read a whole tree in
_FAMILIES = {"gbk": "gb18030", "gb18030": "gb18030", "latin-1": "cp1252", "cp1252": "cp1252"}
# Not so: a colon, which ends the name of a file type, ? and most classes, which are of bytes, braces nested or empty.
_SAME_IN_RIPGREP = re.compile(r"(?:[^:?\[\]{},\\]|\[[A-Za-z0-9]+\]|\{[^:?\[\]{},\\]+(?:,[^:?\[\]{},\\]+)*\})*")

OutputMode = Literal["files_with_matches", "content", "count"]


class GrepParams(ToolParams):
    pattern: str = Field(min_length=1, description="Regular expression (Rust syntax).")
    path: str = Field(".", description="File or directory to search, relative to the workspace.")
    glob: str | None = Field(None, description="Only files like this, such as *.py or src/**/*.{ts,tsx}.")
    output_mode: OutputMode = Field("files_with_matches", description="Paths, matching lines, or matches by file.")
    ignore_case: bool = Field(False, alias="-i", description="Ignore upper and lower case.")
    line_numbers: bool = Field(True, alias="-n", description="Line numbers (content).")
    after: int = Field(0, alias="-A", ge=0, le=1_000, description="Lines after each match (content).")
    before: int = Field(0, alias="-B", ge=0, le=1_000, description="Lines before each match (content).")
    around: int = Field(0, alias="-C", ge=0, le=1_000, description="Lines before and after each match (content).")
    head_limit: int | None = Field(None, ge=1, description="Only the first so many lines or paths.")
    multiline: bool = Field(False, description="The pattern may match over line breaks; . matches them too.")


@dataclass(frozen=True, kw_only=True)
class GrepPlan(Plan):
    """What is searched: `name` is a file in `where`, or `.` for all of it.

    One search for each of `codecs`: of a directory in each legacy encoding that the pattern may stand in, of which
    only files in that encoding count, and the last one for the rest.
    """

    where: Path
    name: str
    glob: str | None
    codecs: tuple[str | None, ...]
    params: GrepParams


class Grep(Tool[GrepParams, GrepPlan]):
    name = "Grep"
    description = (
        "Search file contents by regular expression. Hidden, binary and git-ignored files are left out unless path "
        "names them; links are not followed. Letters beyond ASCII are found in UTF-8, UTF-16, GBK and Western files. "
        "The result is cut at 30 KB, and a long line is shown as a window around its match. " + QUOTING_RULE
    )
    replay_safe = True
    params = GrepParams

    def __init__(self, workspace: Workspace, search: Search = search) -> None:
        self._workspace = workspace
        self._search = search

    async def plan(self, params: GrepParams) -> GrepPlan:
        if "\0" in params.pattern:
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, "The pattern holds a NUL byte; write \\x00 for it.")
        path = self._workspace.resolve(params.path)
        try:
            found = path.stat()
        except OSError as error:
            raise refusal(error, params.path) from error
        is_directory = stat.S_ISDIR(found.st_mode)
        if not is_directory:
            refuse_special(found, params.path)
        where, name = (path, ".") if is_directory else (path.parent, path.name)
        glob = None if params.glob is None else normal_form(params.glob, where)
        if glob is not None:
            compile_glob(glob)
        codecs = _legacy_codecs(params.pattern) if is_directory else ()
        last = None if is_directory else await asyncio.to_thread(self._codec, path)
        subject = f"{params.pattern} in {self._workspace.display(path)}"
        return GrepPlan(subject, where=where, name=name, glob=glob, codecs=(*codecs, last), params=params)

    async def act(self, plan: GrepPlan, action: Action) -> ToolResult:
        codec_of = lru_cache(maxsize=1)(partial(self._codec_of, plan.where))
        collector = _collector(plan.params, codec_of)
        end = await self._searched(plan, collector, codec_of, action, ignored_too=False)
        is_again = not (collector.total or end.cut) and self._asks_for_ignored(plan)
        if is_again:
            end = await self._searched(plan, collector, codec_of, action, ignored_too=True)
        if collector.total:
            notes = [ignored.LOOKED_AT] if is_again else []
            return ToolResult("\n".join([collector.render(plan.params.head_limit), *notes, *end.notes()]))
        left_out = "" if is_again or plan.name != "." else f" {ignored.NOT_LOOKED_AT}"
        return ToolResult("\n".join([f"No match for {plan.params.pattern}{left_out}.", *end.notes()]))

    def _asks_for_ignored(self, plan: GrepPlan) -> bool:
        return plan.name == "." and ignored.is_asked_for(self._workspace, plan.where)

    async def _searched(
        self, plan: GrepPlan, collector: Collector, codec_of: CodecOf, action: Action, *, ignored_too: bool
    ) -> SearchEnd:
        """Search in all encodings. Raises CallRefused (INVALID_ARGUMENTS)."""
        shown: set[bytes] = set()
        cut = ""
        for codec in plan.codecs:
            query = replace(_query(plan, codec), ignored=ignored_too)
            show = self._show(plan, codec, codec_of, shown)
            end = await self._search(query, plan.where, collector.begin(show), action.stop)
            if end.exit_code == 2 and not collector.total and end.complaints:
                raise CallRefused(ErrorCode.INVALID_ARGUMENTS, _bad_pattern(end))
            cut = cut or end.cut
        return replace(end, cut=cut)

    def _codec(self, path: Path) -> str | None:
        """How to decode a file that is neither UTF-8 nor UTF-16."""
        try:
            encoding = Content((self._workspace.read(path, DECODED_BYTES_MAX),), "").encoding
        except CallRefused:
            return None  # large, or no text: searched as it is
        if encoding.ascii_only:
            return "cp1252"
        return None if encoding.mark else encoding.codec

    def _codec_of(self, where: Path, name: bytes) -> str | None:
        return self._codec(where / os.fsdecode(name))

    def _show(self, plan: GrepPlan, codec: str | None, codec_of: CodecOf, shown: set[bytes]) -> Show:
        """Which files of one of the searches count. `shown` holds those that were found in their own encoding."""
        fits = None if plan.glob is None else compile_glob(plan.glob).fullmatch
        is_legacy = plan.name == "." and codec is not None

        def show(name: bytes) -> str | None:
            relative = os.fsdecode(name.removeprefix(b"./"))
            if name in shown or (fits is not None and not fits(relative)):
                return None
            if is_legacy:
                if _FAMILIES.get(codec_of(name) or "") != codec:
                    return None
                shown.add(name)
            return self._workspace.display(plan.where / relative)

        return show


def _collector(params: GrepParams, codec_of: CodecOf) -> Collector:
    match params.output_mode:
        case "files_with_matches":
            return Files()
        case "count":
            return Counts()
        case "content":
            return Matches(
                partial(_words, codec_of), params.line_numbers, bool(params.before or params.after or params.around)
            )


def _words(codec_of: CodecOf, name: bytes, line: bytes) -> str:
    """A line in the encoding of its file, which is looked at once and only when the line is not UTF-8."""
    return line.decode("utf-8" if is_utf_8(line) else codec_of(name) or "utf-8", "replace")


def _legacy_codecs(pattern: str) -> tuple[str, ...]:
    """The legacy encodings that have a letter of the pattern: only there another search can find more."""
    letters = [character for character in pattern if character > "\x7f"]
    return tuple(codec for narrow, codec in _LEGACY.items() if any(_has(narrow, letter) for letter in letters))


def _has(codec: str, letter: str) -> bool:
    try:
        return bool(letter.encode(codec))
    except UnicodeEncodeError:
        return False


def _query(plan: GrepPlan, codec: str | None) -> Query:
    params = plan.params
    return Query(
        Form(params.output_mode),
        hidden=plan.glob is not None and names_hidden(plan.glob),
        name=plan.name,
        file_glob=_file_glob(plan.glob),
        pattern=params.pattern,
        ignore_case=params.ignore_case,
        multiline=params.multiline,
        codec=codec,
        before=max(params.before, params.around),
        after=max(params.after, params.around),
    )


def _file_glob(glob: str | None) -> str | None:
    """What the name alone must fit, if ripgrep reads that as we do; the whole pattern is checked on what is found."""
    name = (glob or "").rpartition("/")[2]
    return name if name.strip("*") and _SAME_IN_RIPGREP.fullmatch(name) else None


def _bad_pattern(end: SearchEnd) -> str:
    words = " ".join(" ".join(line.split()) for line in end.complaints if line.strip()).removeprefix("rg: ")
    return f"The pattern cannot be used as a regular expression: {words}"
