"""Glob: files by name, newest first."""

from __future__ import annotations

import heapq
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from tools.base import Action, CallRefused, ErrorCode, Plan, Tool, ToolParams, ToolResult
from tools.glob_pattern import compile_glob, names_hidden, normal_form
from tools.limits import GLOB_PATHS_MAX
from tools.path_text import QUOTING_RULE
from tools.regular_file import refusal
from tools.ripgrep import Lines, search
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
        "Find files by name, newest first, at most 100. Files ignored by git are left out, hidden ones too unless the "
        "pattern writes the dot (.github/**); links are not followed. " + QUOTING_RULE
    )
    replay_safe = True
    params = GlobParams

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def plan(self, params: GlobParams) -> GlobPlan:
        where = self._workspace.resolve(params.path)
        try:
            if not stat.S_ISDIR(where.stat().st_mode):
                raise CallRefused(ErrorCode.REFUSED, f"{params.path} is a file. Give the directory to search in.")
        except OSError as error:
            raise refusal(error, params.path) from error
        pattern = normal_form(params.pattern)
        compile_glob(pattern)
        return GlobPlan(f"{params.pattern} in {self._workspace.display(where)}", where=where, pattern=pattern)

    async def act(self, plan: GlobPlan, action: Action) -> ToolResult:
        found = _Newest(plan)
        arguments = ["--files", "--null", *(["--hidden"] if names_hidden(plan.pattern) else [])]
        end = await search(arguments, plan.where, Lines(b"\0", found.take).feed, action.stop)
        paths = [self._workspace.display(plan.where / name) for name in found.names()]
        if not paths:
            paths = [f"No file matches {plan.subject} (files that git ignores are not looked at)"]
        left_out = found.count - GLOB_PATHS_MAX
        if left_out > 0:
            paths.append(
                f"(The {GLOB_PATHS_MAX} newest of {found.count:,} files; {left_out:,} are left out. "
                "Use a narrower pattern or path.)"
            )
        return ToolResult("\n".join(paths + end.notes()))


class _Newest:
    """Keeps the newest files that fit, in constant memory."""

    def __init__(self, plan: GlobPlan) -> None:
        self._fits = compile_glob(plan.pattern).fullmatch
        self._where = plan.where
        self._heap: list[tuple[int, str]] = []
        self.count = 0

    def take(self, record: bytes) -> None:
        name = os.fsdecode(record)
        if not self._fits(name):
            return
        try:
            found = (self._where / name).lstat()
        except OSError:
            return  # gone meanwhile
        if not stat.S_ISREG(found.st_mode):
            return
        self.count += 1
        entry = (found.st_mtime_ns, name)
        if len(self._heap) < GLOB_PATHS_MAX:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def names(self) -> list[str]:
        """Newest first."""
        return [name for _, name in sorted(self._heap, reverse=True)]
