"""A workspace with the file tools on a real disk, and calls that live through plan, intent and act."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory.disk import Disk
from tools.base import Action, CallRefused, ErrorCode, ToolResult
from tools.edit import Edit
from tools.glob import Glob
from tools.grep import Grep
from tools.read import Read
from tools.read_cache import ReadCache
from tools.registry import AnyTool, ToolRegistry
from tools.search import Search, search
from tools.verdict import Json, Verdict
from tools.workspace import Workspace
from tools.write import Write

OTHER_ID = 12345


class Files:
    """The tools below one root. `kept` holds the old contents that intents stored, by name."""

    def __init__(
        self,
        root: Path,
        disk: Disk | None = None,
        link: Callable[[Path, Path], None] = os.link,
        keeps: bool = True,
        search: Search = search,
        extra_roots: Sequence[Path] = (),
        sees_images: bool = False,
    ) -> None:
        self.root = root
        self.workspace = Workspace(root, disk or Disk(), link, extra_roots)
        self.cache = ReadCache()
        self.kept: dict[str, bytes] = {}
        self._keeps = keeps
        self.tools: list[AnyTool] = [
            Read(self.workspace, self.cache, self.keep if sees_images else None),
            Edit(self.workspace, self.cache, self.keep),
            Write(self.workspace, self.cache, self.keep),
            Glob(self.workspace, search),
            Grep(self.workspace, search),
        ]
        self.registry = ToolRegistry(self.tools, self.cache)
        self.intents: list[dict[str, Json]] = []

    def keep(self, content: bytes) -> str | None:
        if not self._keeps:
            return None
        name = hashlib.sha256(content).hexdigest()
        self.kept[name] = content
        return name

    def put(self, name: str, content: bytes | str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def call(self, tool: str, /, **arguments: Json) -> ToolResult | CallRefused:
        """One whole call. A refusal is given back as what it is."""
        return asyncio.run(self._call(tool, lambda: None, arguments))

    def call_late(self, before_act: Callable[[], object], tool: str, /, **arguments: Json) -> ToolResult | CallRefused:
        """A call with something that happens between intent and act."""
        return asyncio.run(self._call(tool, before_act, arguments))

    async def _call(
        self, name: str, before_act: Callable[[], object], arguments: dict[str, Json]
    ) -> ToolResult | CallRefused:
        tool = self.tool(name)
        act = action(self.root)
        try:
            plan = await tool.plan(tool.params.model_validate(arguments))
            if plan.nothing_to_do is not None:
                done: ToolResult = plan.nothing_to_do
                return done
            if not tool.replay_safe:
                self.intents.append(await tool.intent(plan, act))
            before_act()
            result: ToolResult = await tool.act(plan, act)
            return result
        except CallRefused as refused:
            return refused

    def text(self, tool: str, /, **arguments: Json) -> str:
        """The text of a call that must succeed."""
        result = self.call(tool, **arguments)
        assert isinstance(result, ToolResult), result
        return result.text

    def refusal(self, tool: str, /, **arguments: Json) -> tuple[ErrorCode, str]:
        """Code and message of a call that must be refused."""
        refused = self.call(tool, **arguments)
        assert isinstance(refused, CallRefused), refused
        return refused.code, refused.message

    def code(self, tool: str, /, **arguments: Json) -> ErrorCode:
        return self.refusal(tool, **arguments)[0]

    def tool(self, name: str) -> AnyTool:
        found = self.registry.get(name)
        assert found is not None
        return found

    def verdict(self, tool: str) -> Verdict:
        """What a probe of the last intent says."""
        return self.tool(tool).probe(self.intents[-1], self.root).verdict

    def names(self) -> set[str]:
        """Every name below the root."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


def action(root: Path, action_id: str = "act-0123456789ab") -> Action:
    return Action(action_id, "call-1", root / "nowhere", asyncio.Event())


@contextmanager
def as_another_user() -> Iterator[None]:
    """Root becomes a user who owns nothing, as far as files are concerned. Others cannot, and skip the test."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(OTHER_ID, OTHER_ID, 0)
    os.setresuid(OTHER_ID, OTHER_ID, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A directory that other users can reach too; those of pytest are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)
