"""Subagents: a child agent with a session of its own, and what became of one after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from agent.events import RuntimeEvent
from agent.recovery.investigate import Investigated, Investigator
from agent.recovery.policies import Policy
from agent.recovery.settle import Decider, PolicyDecider
from agent.state import RunResult
from memory.blobs import BlobStore
from memory.disk import Disk
from memory.events import End, LifecyclePayload, ToolStatus
from memory.layout import MemoryFolder
from memory.lease import read_owner
from memory.resume import ResumeLoader
from memory.state import ResumeState, UncertainAction
from tools.registry import ToolRegistry
from tools.task import TaskOrder, TaskReport
from tools.verdict import Finding, Json, Verdict

STEPS_MAX = 60  # of one child: a task that needs more is better split
ANSWER_CHARACTERS_MAX = 20_000


class Child(Protocol):
    """A child agent, as far as driving it to its end needs one: `CodeAgent` is one."""

    @property
    def can_continue(self) -> bool: ...
    async def run(self, prompt: str, *, decider: Decider | None = None) -> RunResult: ...
    async def continue_run(self, *, decider: Decider | None = None) -> RunResult: ...
    def interrupt(self, end: End) -> None: ...
    async def close(self, reason: str) -> None: ...


class FilesChanged:
    """Observer: the files that a child changed, in the order in which it changed them first."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}

    def emit(self, event: RuntimeEvent) -> None:
        payload = event.payload
        if isinstance(payload, LifecyclePayload) and payload.status == ToolStatus.COMPLETED and not payload.replay_safe:
            self.paths.update((str(state["path"]), None) for state in payload.file_states)


async def run_child(child: Child, order: TaskOrder, changed: FilesChanged) -> tuple[TaskReport, RunResult]:
    """Drive a child to its end; when its action is told to stop, the child is interrupted and reports what it has."""
    run = asyncio.ensure_future(_driven(child, order))
    stop = asyncio.ensure_future(order.action.stop.wait())
    try:
        await asyncio.wait({run, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not run.done():
            child.interrupt(End.INTERRUPTED)
        result = await run
    finally:
        stop.cancel()
        await child.close("completed")
    return _report(order, result, tuple(changed.paths)), result


async def _driven(child: Child, order: TaskOrder) -> RunResult:
    """A resumed child looks at its own interrupted actions before it goes on; nothing of them is run again."""
    if not order.resumes:
        return await child.run(order.prompt)
    decider = PolicyDecider(Policy.VERIFY)
    if child.can_continue:
        return await child.continue_run(decider=decider)
    return await child.run(order.prompt, decider=decider)


def _report(order: TaskOrder, result: RunResult, files_changed: tuple[str, ...]) -> TaskReport:
    match result.status:
        case "completed":
            return TaskReport("completed", result.response, order.child_session_id, files_changed)
        case "interrupted":
            return TaskReport("interrupted", result.response, order.child_session_id, files_changed, result.end.value)
        case _:
            why = result.error_message or result.end.value
            error = result.end.value if result.end in (End.MAX_STEPS, End.TOKEN_BUDGET) else why
            return TaskReport("failed", result.response, order.child_session_id, files_changed, error)


class Children:
    """Looks at the sessions of subagents after a crash, and writes no record of theirs."""

    def __init__(self, folder: MemoryFolder | None, disk: Disk, registry: Callable[[], ToolRegistry]) -> None:
        self._folder = folder
        self._disk = disk
        self._registry = registry

    def look(self, child_id: str) -> Finding:
        """What became of a child, for Task's probe."""
        state = self._load(child_id)
        if self._folder is None or state is None:
            return Finding(
                Verdict.NOT_STARTED, "the subagent's session was never opened", {"child_session_id": child_id}
            )
        facts: dict[str, Json] = {
            "child_session_id": child_id,
            "steps": state.steps,
            "files_changed": list(state.files_changed),
        }
        owner = read_owner(self._folder.session(child_id))
        if owner is not None and owner.is_alive():
            return Finding(Verdict.RUNNING, f"the subagent is at work in process {owner.pid}", facts)
        answer = state.run.answer if state.run else None
        if answer is not None:
            text = f"the subagent had given its answer after {state.steps} steps"
            return Finding(Verdict.COMPLETED, text, {**facts, "answer": answer[:ANSWER_CHARACTERS_MAX]})
        changed = len(state.files_changed)
        text = f"the subagent was cut short after {state.steps} steps and {changed} changed files"
        said = [m.content for m in state.history_messages if m.role == "assistant" and m.content.strip()]
        partial = said[-1][:ANSWER_CHARACTERS_MAX] if said else ""
        return Finding(Verdict.INTERRUPTED, text, {**facts, "answer": partial})

    def of(self, action: UncertainAction) -> list[Investigated]:
        """The uncertain actions beneath a Task."""
        child_id = action.payload.get("child_session_id")
        state = self._load(child_id) if isinstance(child_id, str) else None
        if state is None or self._folder is None:
            return []
        files = self._folder.session(state.session_id)
        return Investigator(state.session_id, self._registry(), files.output).investigate(state.uncertain_actions)

    def seal(self, actions: Sequence[UncertainAction]) -> None:
        """Do for what is beneath each Task what opening the child's own session would: nobody may ever open it.

        Only under the parent's lease. A child at work in another process is left alone. Raises OSError.
        """
        for action in actions:
            child_id = action.payload.get("child_session_id")
            state = self._load(child_id) if isinstance(child_id, str) else None
            if state is None or self._folder is None:
                continue
            files = self._folder.session(state.session_id)
            owner = read_owner(files)
            if owner is None or not owner.is_alive():
                Investigator(state.session_id, self._registry(), files.output).seal(state.uncertain_actions)

    def _load(self, child_id: str) -> ResumeState | None:
        if self._folder is None:
            return None
        files = self._folder.session(child_id)
        try:
            return ResumeLoader(files, BlobStore(files.blobs, self._disk)).load_session(live=True)
        except OSError:
            return None
