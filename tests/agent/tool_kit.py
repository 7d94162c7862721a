"""A tool runner over scripted tools, and everything that it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent.events import Observation
from agent.permissions import Mode, NobodyToAsk, PermissionGate
from agent.tool_runner import (
    Emit,
    ToolRunner,
)
from memory.errors import TranscriptUnavailable
from memory.events import ImageRef, JsonObject, LifecyclePayload, Payload, ToolCall
from memory.text import TextCleaner
from tools.base import Action, CallRefused, ErrorCode, FileState, Plan, Tool, ToolParams, ToolResult
from tools.read_cache import ReadCache
from tools.registry import ToolRegistry
from tools.verdict import Json

KEY = "sk-0123456789-key"
STATE = FileState("/f", "aa", 1, 2)

Act = Callable[[Action], Awaitable[ToolResult]]


class OneText(ToolParams):
    text: str = ""


async def done(_action: Action) -> ToolResult:
    return ToolResult("did it", file_states=(STATE,), cwd="/here", exit_code=0)


def refusing(code: ErrorCode, message: str) -> Callable[[], None]:
    def refuse() -> None:
        raise CallRefused(code, message, (STATE,))

    return refuse


class Effect(Tool[OneText, Plan]):
    """A tool with an effect; what it does in each of its acts is handed in."""

    name = "Effect"
    description = "d"
    params = OneText

    def __init__(
        self,
        act: Act = done,
        *,
        plan: Callable[[], object] = lambda: None,
        intent: Callable[[], object] = lambda: None,
        nothing_to_do: ToolResult | None = None,
    ) -> None:
        self._act = act
        self._plan = plan
        self._intent = intent
        self._nothing_to_do = nothing_to_do
        self.acted: list[str] = []

    async def plan(self, params: OneText) -> Plan:
        self._plan()
        return Plan(f"the {params.text}", f"preview {params.text}", self._nothing_to_do)

    async def intent(self, plan: Plan, action: Action) -> dict[str, Json]:
        del action
        self._intent()
        return {"what": plan.subject}

    async def act(self, plan: Plan, action: Action) -> ToolResult:
        self.acted.append(plan.subject)
        return await self._act(action)


class Look(Effect):
    name = "Look"
    replay_safe = True


@dataclass
class Desk:
    """A tool runner over some tools, and everything that it says; the n-th word may fail."""

    tools: list[Effect]
    gate: PermissionGate = field(default_factory=lambda: PermissionGate(Mode.AUTO, NobodyToAsk()))
    fails_at: int = 0
    failure: Exception = field(default_factory=lambda: TranscriptUnavailable("full", recoverable=True))
    said: list[LifecyclePayload] = field(default_factory=list)
    observed: list[Payload | Observation] = field(default_factory=list)
    messages: list[tuple[str, str]] = field(default_factory=list)  # call, text

    def __post_init__(self) -> None:
        actions = iter(range(1, 1000))
        self.runner = ToolRunner(
            ToolRegistry(self.tools, ReadCache()),
            self.gate,
            TextCleaner((KEY,)),
            place=Path,
            new_action_id=lambda: f"act-{next(actions)}",
            monotonic=lambda: 0.0,
        )

    def emit(self, _event_type: str, payload: Payload | Observation) -> int:
        if isinstance(payload, LifecyclePayload):
            self.said.append(payload)
            self._maybe_fail()
        else:
            self.observed.append(payload)
        return len(self.said)

    def say_tool(self, call_id: str, _action_id: str, text: str, _images: tuple[ImageRef, ...]) -> None:
        self.messages.append((call_id, text))
        self._maybe_fail()

    def _maybe_fail(self) -> None:
        """Fails from the n-th word on, as a full disk does."""
        if self.fails_at and len(self.said) + len(self.messages) >= self.fails_at:
            raise self.failure

    async def run(self, *calls: ToolCall) -> None:
        await self.runner.run(calls, Emit(self.emit, self.say_tool))

    def story(self) -> list[tuple[str, str, str | None]]:
        """What was said: call, status, error code."""
        return [(one.tool_call_id, one.status, one.error["code"] if one.error else None) for one in self.said]


def a_call(ident: str = "c1", name: str = "Effect", arguments: str = "{}") -> ToolCall:
    return ToolCall(ident, name, arguments)


def lived(desk: Desk, *calls: ToolCall) -> Desk:
    asyncio.run(desk.run(*(calls or (a_call(),))))
    return desk


def code_and_result(desk: Desk) -> tuple[JsonObject | None, object]:
    return desk.said[-1].error, desk.said[-1].result
