"""Read: numbered lines of a text file, and the hash that later edits of it rely on."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from tools.base import Action, CallRefused, ErrorCode, FileState, Plan, Tool, ToolParams, ToolResult
from tools.limits import READ_LINES_MAX
from tools.line_window import LineWindow
from tools.path_text import QUOTING_RULE
from tools.read_cache import ReadCache
from tools.regular_file import chunks, state_of
from tools.text_file import Utf8Check
from tools.workspace import Workspace


class ReadParams(ToolParams):
    file_path: str = Field(description="File to read, relative to the workspace.")
    offset: int = Field(1, ge=1, description="First line, counted from 1.")
    limit: int = Field(READ_LINES_MAX, ge=1, description="How many lines at most.")


@dataclass(frozen=True, kw_only=True)
class ReadPlan(Plan):
    """The lines to show of one file."""

    path: Path
    first: int
    count: int


class Read(Tool[ReadParams, ReadPlan]):
    name = "Read"
    description = (
        "Read a text file. Lines come with their numbers and a tab in front, which are not part of the file. At most "
        "2,000 lines, 50 KB and 2,000 characters a line; what is left out is said, and offset and limit reach it. "
        "A file must be read before it can be edited. " + QUOTING_RULE
    )
    replay_safe = True
    params = ReadParams

    def __init__(self, workspace: Workspace, read_cache: ReadCache) -> None:
        self._workspace = workspace
        self._read_cache = read_cache

    async def plan(self, params: ReadParams) -> ReadPlan:
        path = self._workspace.resolve(params.file_path)
        return ReadPlan(self._workspace.display(path), path=path, first=params.offset, count=params.limit)

    async def act(self, plan: ReadPlan, action: Action) -> ToolResult:
        window = LineWindow(plan.first, plan.count)
        state = await asyncio.to_thread(self._scan, plan, window, action.stop)
        self._read_cache.remember(state)
        return ToolResult(window.render(), file_states=(state,))

    def _scan(self, plan: ReadPlan, window: LineWindow, stop: asyncio.Event) -> FileState:
        """One pass over the whole file, whatever part is shown: a later edit needs the hash of all of it."""
        content, size = hashlib.sha256(), 0
        with self._workspace.open(plan.path) as (file, looked_at):
            check = Utf8Check(plan.subject, looked_at.st_size)
            for chunk in chunks(file, plan.subject):
                check.feed(chunk)
                content.update(chunk)
                window.feed(chunk)
                size += len(chunk)
                if stop.is_set():
                    raise CallRefused(ErrorCode.INTERRUPTED, f"Reading {plan.subject} was interrupted.")
            check.feed(b"", final=True)
        window.close()
        return state_of(plan.path, content.hexdigest(), size, looked_at)
