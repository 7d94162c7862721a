"""Glob: files by name, newest first."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from tools import ignored
from tools.base import Action, CallRefused, ErrorCode, Plan, Tool, ToolParams, ToolResult
from tools.glob_pattern import compile_glob, names_hidden, normal_form
from tools.limits import GLOB_PATHS_MAX
from tools.path_text import QUOTING_RULE
from tools.regular_file import refusal
from tools.search import Form, Query, Search, SearchEnd, search
from tools.workspace import Workspace


class GlobParams(ToolParams):
    pattern: str = Field(
        description="Pattern such as **/*.py or src/*.{ts,tsx}; without a slash: at any depth; ./*.md: here alone."
    )
    path: str = Field(".", description="Directory to search in, relative to the workspace.")


@dataclass(frozen=True, kw_only=True)
class GlobPlan(Plan):
    """A pattern in its normal form, below a directory."""

    where: Path
    pattern: str


class Glob(Tool[GlobParams, GlobPlan]):
    name = "Glob"
    description = (
        "Find files by name, newest first, at most 100. Files ignored by git are left out unless path names their "
        "directory, hidden ones unless the pattern writes the dot (.github/**); links are not followed. " + QUOTING_RULE
    )
    replay_safe = True
    params = GlobParams

    def __init__(self, workspace: Workspace, search: Search = search) -> None:
        self._workspace = workspace
        self._search = search

    async def plan(self, params: GlobParams) -> GlobPlan:
        where = self._workspace.resolve(params.path)
        try:
            if not stat.S_ISDIR(where.stat().st_mode):
                raise CallRefused(ErrorCode.REFUSED, f"{params.path} is a file. Give the directory to search in.")
        except OSError as error:
            raise refusal(error, params.path) from error
        pattern = normal_form(params.pattern, where)
        compile_glob(pattern)
        return GlobPlan(f"{params.pattern} in {self._workspace.display(where)}", where=where, pattern=pattern)

    async def act(self, plan: GlobPlan, action: Action) -> ToolResult:
        query = Query(Form.NAMES, hidden=names_hidden(plan.pattern))
        found, end = await self._found(plan, query, action)
        is_again = not (found.count or end.cut) and ignored.is_asked_for(self._workspace, plan.where)
        if is_again:
            found, end = await self._found(plan, replace(query, ignored=True), action)
        lines = [self._workspace.display(plan.where / name) for name in found.names]
        if not lines:
            lines.append(f"No file matches {plan.subject}" + ("" if is_again else f" {ignored.NOT_LOOKED_AT}"))
        left_out = found.count - GLOB_PATHS_MAX
        if left_out > 0:
            lines.append(
                f"(The {GLOB_PATHS_MAX} newest of {found.count:,} files; {left_out:,} are left out. "
                "Use a narrower pattern or path.)"
            )
        if is_again and found.count:
            lines.append(ignored.LOOKED_AT)
        return ToolResult("\n".join(lines + end.notes()))

    async def _found(self, plan: GlobPlan, query: Query, action: Action) -> tuple[_First, SearchEnd]:
        found = _First(compile_glob(plan.pattern))
        return found, await self._search(query, plan.where, found.feed, action.stop)


class _First:
    """Keeps the first paths that fit, and counts them all: 100,000 of them in less time than it takes to list them."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._fits = pattern.fullmatch
        self._rest = b""
        self.names: list[str] = []
        self.count = 0

    def feed(self, chunk: bytes) -> None:
        """Take more paths, each of which ends in a NUL byte."""
        *records, self._rest = (self._rest + chunk).split(b"\0")
        fitting = [name for name in map(os.fsdecode, records) if self._fits(name)]
        self.count += len(fitting)
        self.names += fitting[: GLOB_PATHS_MAX - len(self.names)]
