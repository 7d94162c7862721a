"""What a run needs from the agent that it runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from agent.context.engine import ContextEngine
from agent.context.history import HistoryManager
from agent.events import CompositeRuntimeEventSink
from agent.model_turn import ModelTurn
from agent.tool_runner import ToolRunner
from memory.snapshot import CheckpointFacts


class RunHost(Protocol):
    """`CodeAgent`, as far as its runs touch it."""

    session_id: str
    runtime_event_sink: CompositeRuntimeEventSink
    history_manager: HistoryManager
    context_engine: ContextEngine
    tool_runner: ToolRunner
    model_turn: ModelTurn
    context_tokens: int
    clock: Callable[[], datetime]

    def new_id(self, kind: str) -> str:
        """A fresh id of a kind, like `act-…`."""

    def next_seq(self) -> int:
        """The number that the next record will get; 0 when the session is not recorded."""

    def session_memory(self) -> str:
        """The session memory in view."""

    def checkpoint_facts(self) -> CheckpointFacts:
        """What a checkpoint carries besides its summary, so that a load can start there."""

    def tool_definitions(self, names: tuple[str, ...]) -> list[Mapping[str, object]]:
        """The definitions of the tools that are offered, of those that exist here."""
