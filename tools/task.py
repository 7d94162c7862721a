"""Task: a piece of work for a subagent with a session of its own. How one is run is handed in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from tools.base import Action, CallRefused, ErrorCode, Plan, Tool, ToolParams, ToolResult
from tools.verdict import Finding, Json, Verdict

SubagentType = Literal["general", "explore"]
LIMIT_REASONS = ("max_steps", "token_budget")  # terminal reasons, as records have them


@dataclass(frozen=True)
class TaskOrder:
    """What a subagent is to do, under which session id, and the action that stands for it."""

    child_session_id: str
    description: str
    prompt: str
    subagent_type: SubagentType
    action: Action
    resumes: bool = False  # the child's session exists: its interrupted run goes on


@dataclass(frozen=True)
class TaskReport:
    """What came of it. `error` is the child's terminal reason, or a sentence; `text` its answer as far as it came."""

    status: Literal["completed", "failed", "interrupted"]
    text: str
    child_session_id: str
    files_changed: tuple[str, ...] = ()
    error: str | None = None


class TaskParams(ToolParams):
    description: str = Field(min_length=1, description="The work in three to five words.")
    prompt: str = Field(min_length=1, description="The work in full: the subagent knows nothing of this conversation.")
    subagent_type: SubagentType = Field("general", description="explore only reads and searches.")


@dataclass(frozen=True, kw_only=True)
class TaskPlan(Plan):
    """An order that waits for its action."""

    child_session_id: str
    params: TaskParams
    resumes: bool = False


class Task(Tool[TaskParams, TaskPlan]):
    """`spawn` runs a subagent to its end, `new_child_id` makes a session id, `look` says what became of a child."""

    name = "Task"
    description = (
        "Give a self-contained piece of work to a subagent and get its report. It has the same workspace, a context of "
        "its own, and cannot start subagents."
    )
    params = TaskParams

    def __init__(
        self,
        spawn: Callable[[TaskOrder], Awaitable[TaskReport]],
        new_child_id: Callable[[], str],
        look: Callable[[str], Finding],
    ) -> None:
        self._spawn = spawn
        self._new_child_id = new_child_id
        self._look = look

    async def plan(self, params: TaskParams) -> TaskPlan:
        subject = f"{params.description} ({params.subagent_type})"
        return TaskPlan(subject, params.prompt, child_session_id=self._new_child_id(), params=params)

    async def intent(self, plan: TaskPlan, action: Action) -> dict[str, Json]:
        del action
        return {"child_session_id": plan.child_session_id, "subagent_type": plan.params.subagent_type}

    async def act(self, plan: TaskPlan, action: Action) -> ToolResult:
        params = plan.params
        order = TaskOrder(
            plan.child_session_id, params.description, params.prompt, params.subagent_type, action, plan.resumes
        )
        report = await self._spawn(order)
        return ToolResult(_told(report), _error_code(report))

    async def plan_resume(self, intent: dict[str, Json]) -> TaskPlan:
        child = intent.get("child_session_id")
        if not isinstance(child, str):
            raise CallRefused(ErrorCode.REFUSED, "Its record does not name the subagent's session.")
        explore = intent.get("subagent_type") == "explore"
        params = TaskParams(description="resumed", prompt="Go on.", subagent_type="explore" if explore else "general")
        return TaskPlan(f"resume {child}", child_session_id=child, params=params, resumes=True)

    def recall(self, intent: dict[str, Json], place: Path) -> ToolResult | None:
        """The child's own words, as far as its transcript has them."""
        answer = self.probe(intent, place).facts.get("answer")
        return ToolResult(answer) if isinstance(answer, str) and answer else None

    def probe(self, intent: dict[str, Json], place: Path) -> Finding:
        del place
        child = intent.get("child_session_id")
        if not isinstance(child, str):
            return Finding(Verdict.UNKNOWN, "its record does not name the subagent's session")
        return self._look(child)


def _error_code(report: TaskReport) -> ErrorCode | None:
    if report.status == "completed":
        return None
    if report.status == "interrupted":
        return ErrorCode.INTERRUPTED
    return ErrorCode.LIMIT if report.error in LIMIT_REASONS else ErrorCode.REFUSED


def _told(report: TaskReport) -> str:
    """The answer; of a subagent that did not come to its end also why, and all that there is of its work."""
    if report.status == "completed":
        return report.text or "The subagent ended without an answer."
    parts = [
        f"The subagent {'was interrupted' if report.status == 'interrupted' else 'failed'}: "
        f"{report.error or 'no reason was given'}.",
        f"Files that it changed: {', '.join(report.files_changed) or 'none'}. Its session: {report.child_session_id}.",
        f"What it had found until then:\n{report.text}" if report.text else "It left no findings.",
    ]
    return "\n".join(parts)
