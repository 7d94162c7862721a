"""Helpers for the tests of commands: a Bash tool on real directories, and a look at the process table."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import ParamSpec

from tools.background import BackgroundCommands
from tools.base import Action, ToolResult
from tools.bash import Bash, BashParams
from tools.command import CommandRunner

P = ParamSpec("P")
ROOT = Path(__file__).resolve().parents[2]


def in_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """An async test as a plain one."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def eventually(condition: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Wait, for at most ten seconds, for something that another process does."""
    end = time.monotonic() + 10
    while not condition(*args, **kwargs):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


async def eventually_in_loop(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


class Bench:
    """A workspace, an outputs folder, a runner, and a Bash tool over both. Use as `async with`."""

    def __init__(
        self,
        tmp_path: Path,
        *,
        secrets: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        shell: str | None = None,
    ) -> None:
        self.workspace = tmp_path / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.outputs = tmp_path / "memory" / "outputs" / "session-0123456789ab"
        self.runner = CommandRunner(environment=environment or os.environ, secrets=secrets, shell=shell)
        self.background = BackgroundCommands(self.runner)
        self.bash = Bash(self.runner, self.background, self.workspace)
        self._numbers = count(1)
        self.last = self.action()

    async def __aenter__(self) -> Bench:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.close()

    def action(self, progress: Callable[[str], None] = lambda _text: None) -> Action:
        action_id = f"act-{os.getpid()}-{time.monotonic_ns()}-{next(self._numbers)}"
        return Action(action_id, "call-1", self.outputs / action_id, asyncio.Event(), progress)

    async def run(self, command: str, timeout_ms: int = 20_000, action: Action | None = None) -> ToolResult:
        self.last = action or self.action()
        plan = await self.bash.plan(BashParams(command=command, timeout=timeout_ms))
        await self.bash.intent(plan, self.last)
        return await self.bash.act(plan, self.last)
