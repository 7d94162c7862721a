"""TodoWrite: the list of what is still to do. Its record is its whole effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, ValidationError

from tools.base import Action, Plan, Tool, ToolParams, ToolResult
from tools.limits import TODOS_MAX
from tools.verdict import Json


class Todo(ToolParams):
    content: str = Field(min_length=1, description="What is to be done.")
    status: Literal["pending", "in_progress", "completed"]
    active_form: str = Field(alias="activeForm", min_length=1, description="The same as an activity: 'Running tests'.")


class TodoWriteParams(ToolParams):
    todos: list[Todo] = Field(max_length=TODOS_MAX, description="The whole list; it replaces the one before.")


@dataclass(frozen=True, kw_only=True)
class TodoPlan(Plan):
    """The new list."""

    todos: tuple[Todo, ...]


class TodoWrite(Tool[TodoWriteParams, TodoPlan]):
    name = "TodoWrite"
    description = "Keep the list of steps of a longer task: the user sees it. One step at a time is in_progress."
    replay_safe = True
    params = TodoWriteParams

    def __init__(self) -> None:
        self._todos: tuple[Todo, ...] = ()

    @property
    def todos(self) -> list[dict[str, Json]]:
        """The list in the form of the parameters."""
        return [{"content": t.content, "status": t.status, "activeForm": t.active_form} for t in self._todos]

    def load(self, todos: Iterable[Mapping[str, Json]]) -> None:
        """Take over a recorded list. An entry that this version does not understand is left out."""
        self._todos = tuple(todo for entry in todos if (todo := _todo_from(entry)))

    async def plan(self, params: TodoWriteParams) -> TodoPlan:
        return TodoPlan(f"{len(params.todos)} todos", todos=tuple(params.todos))

    async def act(self, plan: TodoPlan, action: Action) -> ToolResult:
        del action
        self._todos = plan.todos
        counts = Counter(todo.status for todo in plan.todos)
        parts = [f"{counts[status]} {status}" for status in ("completed", "in_progress", "pending") if counts[status]]
        return ToolResult(
            f"The list has {len(plan.todos)} entries: {', '.join(parts)}." if parts else "The list is empty."
        )


def _todo_from(entry: Mapping[str, Json]) -> Todo | None:
    try:
        return Todo.model_validate(entry)
    except ValidationError:
        return None
