"""Looks at a session without its lease: nothing is repaired, sealed or decided. For `recover` and `sessions show`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.recovery.investigate import Investigated, Investigator
from agent.recovery.lost import LostCommand, find_lost
from agent.subagent import Children
from agent.toolbox import TaskService, Toolbox
from memory.blobs import BlobStore
from memory.disk import Disk
from memory.events import JsonObject
from memory.layout import MemoryFolder, SessionFiles
from memory.lease import Owner, read_owner
from memory.resume import ResumeLoader
from memory.state import ResumeState
from tools.command import CommandRunner
from tools.registry import ToolRegistry
from tools.task import TaskOrder, TaskReport


@dataclass(frozen=True)
class Inspection:
    """What a session's files tell, with the evidence of its uncertain actions."""

    files: SessionFiles
    state: ResumeState
    items: tuple[Investigated, ...]
    owner: Owner | None
    workspace: Path
    background: tuple[LostCommand, ...]

    @property
    def is_live(self) -> bool:
        return self.owner is not None and self.owner.is_alive()

    @property
    def is_open(self) -> bool:
        """Does an action wait for a decision? Those of a session at work do not."""
        return not self.is_live and any(item.is_open for item in self.items)

    def as_json(self) -> JsonObject:
        """The object of `recover --json`."""
        state = self.state
        owner = self.owner
        return {
            "session_id": state.session_id,
            "name": state.name,
            "transcript_path": str(self.files.transcript),
            "workspace": str(self.workspace),
            "live": self.is_live,
            "owner": {"pid": owner.pid, "host": owner.host, "alive": owner.is_alive()} if owner else None,
            "last_event": {"seq": state.last_seq, "timestamp": state.last_timestamp} if state.last_seq else None,
            "steps": state.steps,
            "files_changed": list(state.files_changed),
            "pending_tool_calls": [
                {"tool_call_id": missing.call.id, "tool_name": missing.call.name, "run_id": missing.run_id}
                for missing in state.pending_tool_calls
            ],
            "uncertain_actions": [item.as_json() for item in self.items],
            "background": [one.as_json() for one in self.background],
            "damage": [one.as_json() for one in state.damage],
        }


def inspect_session(files: SessionFiles, disk: Disk, *, workspace: Path) -> Inspection:
    """Load a session and ask the tools' probes. `workspace` stands in where the transcript names none.

    Raises:
        OSError: the transcript cannot be read.
    """
    owner = read_owner(files)
    is_live = owner is not None and owner.is_alive()
    state = ResumeLoader(files, BlobStore(files.blobs, disk)).load_session(live=is_live)
    root = Path(str(state.opened.get("workspace") or workspace))
    children = Children(MemoryFolder(files.folder), disk, lambda: registry)
    registry = _registry(root, disk, children)
    investigator = Investigator(files.session_id, registry, files.output, children.of)
    items = tuple(investigator.investigate(state.uncertain_actions))
    return Inspection(files, state, items, owner, root, find_lost(state.runtime_state, files.output))


def _registry(root: Path, disk: Disk, children: Children) -> ToolRegistry:
    """The tools for their probes alone: nothing is run, kept or spawned through it."""
    tasks = TaskService(_no_child, lambda: "", children.look)
    return Toolbox(root, disk, CommandRunner(environment={}), lambda _data: None, tasks).registry


async def _no_child(order: TaskOrder) -> TaskReport:
    raise AssertionError(f"an inspection starts no child: {order}")
