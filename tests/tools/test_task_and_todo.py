"""Task and TodoWrite: what the model is told, and what a record needs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.tools.files_kit import action
from tools.base import ErrorCode, ToolResult
from tools.task import Task, TaskOrder, TaskParams, TaskReport
from tools.todo import TodoWrite, TodoWriteParams
from tools.verdict import Finding, Verdict

CHILD = "subagent-0123456789ab"


def run(report: TaskReport, place: Path) -> tuple[TaskOrder, dict[str, object], ToolResult]:
    """One Task whose subagent comes to this report."""
    orders: list[TaskOrder] = []

    async def spawn(order: TaskOrder) -> TaskReport:
        orders.append(order)
        return report

    async def call() -> tuple[dict[str, object], ToolResult]:
        tool = Task(spawn, lambda: CHILD, lambda child: Finding(Verdict.RUNNING, child))
        act = action(place)
        plan = await tool.plan(TaskParams.model_validate({"description": "look", "prompt": "find it"}))
        intent = await tool.intent(plan, act)
        assert tool.probe(intent, place) == Finding(Verdict.RUNNING, CHILD)
        assert tool.probe({}, place).verdict == Verdict.UNKNOWN
        return dict(intent), await tool.act(plan, act)

    intent, result = asyncio.run(call())
    return orders[0], intent, result


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (TaskReport("completed", "found", CHILD), ToolResult("found")),
        (TaskReport("completed", "", CHILD), ToolResult("The subagent ended without an answer.")),
        (
            TaskReport("failed", "half", CHILD, ("a.py", "b.py"), "the server answered 529"),
            ToolResult(
                "The subagent failed: the server answered 529.\n"
                f"Files that it changed: a.py, b.py. Its session: {CHILD}.\n"
                "What it had found until then:\nhalf",
                ErrorCode.REFUSED,
            ),
        ),
        (
            TaskReport("failed", "", CHILD, error="max_steps"),
            ToolResult(
                "The subagent failed: max_steps.\n"
                f"Files that it changed: none. Its session: {CHILD}.\nIt left no findings.",
                ErrorCode.LIMIT,
            ),
        ),
        (
            TaskReport("interrupted", "", CHILD),
            ToolResult(
                "The subagent was interrupted: no reason was given.\n"
                f"Files that it changed: none. Its session: {CHILD}.\nIt left no findings.",
                ErrorCode.INTERRUPTED,
            ),
        ),
    ],
)
def test_k34_what_came_of_a_task(tmp_path: Path, report: TaskReport, expected: ToolResult) -> None:
    order, intent, result = run(report, tmp_path)
    assert (order.child_session_id, order.description, order.prompt, order.subagent_type) == (
        CHILD,
        "look",
        "find it",
        "general",
    )
    assert (intent, result) == ({"child_session_id": CHILD, "subagent_type": "general"}, expected)


def test_the_list_is_the_arguments_of_the_last_call(tmp_path: Path) -> None:
    todos = [
        {"content": "read", "status": "completed", "activeForm": "Reading"},
        {"content": "write", "status": "in_progress", "activeForm": "Writing"},
    ]

    async def call() -> ToolResult:
        return await tool.act(await tool.plan(TodoWriteParams.model_validate({"todos": todos})), action(tmp_path))

    tool = TodoWrite()
    assert asyncio.run(call()) == ToolResult("The list has 2 entries: 1 completed, 1 in_progress.")
    assert tool.todos == todos
    later = TodoWrite()
    later.load([*tool.todos, {"content": "from a newer version"}])
    assert later.todos == todos
    assert tool.probe({}, tmp_path).verdict == Verdict.NO_EFFECT
