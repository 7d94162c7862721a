"""Builds the tools of one agent and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.disk import Disk
from memory.events import JsonObject
from tools.background import BackgroundCommands
from tools.base import Keep, Tool
from tools.bash import Bash
from tools.bash_output import BashOutput
from tools.command import CommandRunner
from tools.edit import Edit
from tools.glob import Glob
from tools.grep import Grep
from tools.kill_bash import KillBash
from tools.path_text import path_to_text, text_to_path
from tools.read import Read
from tools.read_cache import ReadCache
from tools.registry import ToolRegistry
from tools.task import Task, TaskOrder, TaskReport
from tools.todo import TodoWrite
from tools.verdict import Finding
from tools.workspace import Workspace
from tools.write import Write


@dataclass(frozen=True)
class TaskService:
    """How the Task tool reaches subagents."""

    spawn: Callable[[TaskOrder], Awaitable[TaskReport]]
    new_child_id: Callable[[], str]
    look: Callable[[str], Finding]


class Toolbox:
    """The registry of one agent, and the tools whose state a resume restores."""

    def __init__(
        self,
        root: Path,
        disk: Disk,
        commands: CommandRunner,
        keep: Keep,
        tasks: TaskService | None,
        *,
        read_only: bool = False,
        keep_image: Keep | None = None,
        extra_roots: Sequence[Path] = (),
    ) -> None:
        self._workspace = workspace = Workspace(root, disk, extra_roots=extra_roots)
        cache = ReadCache()
        self._root = root
        self.commands = commands
        self.background = BackgroundCommands(commands)
        self.bash = Bash(commands, self.background, root)
        self.todo = TodoWrite()
        tools: list[Tool[Any, Any]] = [Read(workspace, cache, keep_image), Glob(workspace), Grep(workspace)]
        if not read_only:
            tools += [Edit(workspace, cache, keep), Write(workspace, cache, keep)]
            tools += [self.bash, BashOutput(self.background), KillBash(self.background), self.todo]
        if tasks is not None:
            tools.append(Task(tasks.spawn, tasks.new_child_id, tasks.look))
        self.registry = ToolRegistry(tools, cache)

    @property
    def extra_roots(self) -> Sequence[Path]:
        """Where the file tools may work besides the workspace."""
        return self._workspace.extra_roots

    @property
    def directories(self) -> list[str]:
        """The extra roots as records and the model have them."""
        return [path_to_text(root) for root in self.extra_roots]

    def runtime_state(self, grants: list[str]) -> JsonObject:
        """What a checkpoint carries of it."""
        return {
            "read_cache": self.registry.export_read_cache(),
            "cwd": str(self.bash.cwd),
            "todos": self.todo.todos,
            "grants": grants,
            "directories": self.directories,
        }

    def add_directories(self, directories: Sequence[str]) -> None:
        """Let the file tools work where the user let them work before."""
        for directory in directories:
            with suppress(UnicodeEncodeError):  # a damaged record
                self._workspace.add_root(text_to_path(directory))

    def restore(self, cwd: str | None, todos: list[JsonObject]) -> str | None:
        """Put back what a transcript tells. Returns the recorded directory when it is gone, else None."""
        self.todo.load(todos)
        if cwd is None:
            return None
        path = Path(cwd)
        if path.is_dir() and path.resolve().is_relative_to(self._root.resolve()):
            self.bash.cwd = path
            return None
        return cwd

    async def close(self) -> None:
        """End every command that still runs, and what finished ones left behind."""
        await asyncio.gather(self.commands.close(), self.background.close())
