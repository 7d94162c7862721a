"""Grep: a regular expression over the files of the workspace, by ripgrep."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from tools.base import Action, CallRefused, ErrorCode, Plan, Tool, ToolParams, ToolResult
from tools.glob_pattern import compile_glob, names_hidden, normal_form
from tools.grep_result import Collector, Counts, Files, Matches
from tools.path_text import QUOTING_RULE
from tools.regular_file import refusal, refuse_special
from tools.ripgrep import SearchEnd, search
from tools.workspace import Workspace

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
    """What is searched: `name` is a file in `where`, or `.` for all of it."""

    where: Path
    name: str
    glob: str | None
    params: GrepParams


class Grep(Tool[GrepParams, GrepPlan]):
    name = "Grep"
    description = (
        "Search file contents by regular expression. Hidden, binary and git-ignored files are left out unless path "
        "names them; links are not followed. The result is cut at 30 KB, and a long line is shown as a window around "
        "its match. " + QUOTING_RULE
    )
    replay_safe = True
    params = GrepParams

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

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
        glob = None if params.glob is None else normal_form(params.glob)
        if glob is not None:
            compile_glob(glob)
        where, name = (path, ".") if is_directory else (path.parent, path.name)
        subject = f"{params.pattern} in {self._workspace.display(path)}"
        return GrepPlan(subject, where=where, name=name, glob=glob, params=params)

    async def act(self, plan: GrepPlan, action: Action) -> ToolResult:
        collector = self._collector(plan)
        end = await search(_arguments(plan), plan.where, collector.feed, action.stop)
        if end.exit_code == 2 and not collector.total and end.complaints:
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, _bad_pattern(end))
        if not collector.total:
            text = f"No match for {plan.params.pattern}."
            return ToolResult("\n".join([text, *end.notes()]))
        return ToolResult("\n".join([collector.render(plan.params.head_limit), *end.notes()]))

    def _collector(self, plan: GrepPlan) -> Collector:
        fits = None if plan.glob is None else compile_glob(plan.glob).fullmatch

        def show(name: bytes) -> str | None:
            relative = os.fsdecode(name.removeprefix(b"./"))
            return self._workspace.display(plan.where / relative) if fits is None or fits(relative) else None

        params = plan.params
        match params.output_mode:
            case "files_with_matches":
                return Files(show)
            case "count":
                return Counts(show)
            case "content":
                return Matches(show, params.line_numbers, bool(params.before or params.after or params.around))


def _arguments(plan: GrepPlan) -> list[str]:
    params = plan.params
    arguments = [
        *(["--ignore-case"] if params.ignore_case else []),
        *(["--multiline", "--multiline-dotall"] if params.multiline else []),
        *(["--hidden"] if plan.glob and names_hidden(plan.glob) else []),
        *_type_filter(plan.glob),
    ]
    match params.output_mode:
        case "files_with_matches":
            arguments += ["--files-with-matches", "--null"]
        case "count":
            arguments += ["--count-matches", "--with-filename", "--null"]
        case "content":
            before, after = max(params.before, params.around), max(params.after, params.around)
            arguments += ["--json", f"--before-context={before}", f"--after-context={after}"]
    return [*arguments, "-e", params.pattern, "--", f"./{plan.name}" if plan.name != "." else "./"]


def _type_filter(glob: str | None) -> list[str]:
    """Let ripgrep skip files whose name cannot fit; the whole pattern is checked on what it finds.

    As a file type and not by its --glob, which would bring ignored files back in.
    """
    name = (glob or "").rpartition("/")[2]
    if name.strip("*") == "" or "}" in name.partition("{")[0]:
        return []
    return ["--type-add", f"wanted:{name}", "--type", "wanted"]


def _bad_pattern(end: SearchEnd) -> str:
    words = " ".join(" ".join(line.split()) for line in end.complaints if line.strip()).removeprefix("rg: ")
    return f"The pattern cannot be used as a regular expression: {words}"
