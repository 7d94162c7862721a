"""What a transcript tells about its session, as values, and how they are put into a running agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memory.calls import ActionFacts
from memory.checkpoint import CompactCheckpoint, CompactStore
from memory.draft import Draft
from memory.events import HistoryMessage, JsonObject, ToolCall, list_in
from memory.reader import Damage
from memory.session_memory import SessionMemoryManager
from memory.store import Ending


class ContextHost(Protocol):
    """What a context engine lets a resume do."""

    @property
    def compact_store(self) -> CompactStore: ...
    def reset(self) -> None: ...


class HistoryHost(Protocol):
    def load_messages(self, messages: Sequence[HistoryMessage], *, messages_before: int) -> None: ...


class RegistryHost(Protocol):
    def import_read_cache(self, entries: Sequence[JsonObject]) -> list[str]: ...


class Host(Protocol):
    """The agent, as far as a resume touches it."""

    @property
    def context_engine(self) -> ContextHost: ...
    @property
    def history_manager(self) -> HistoryHost: ...
    @property
    def tool_registry(self) -> RegistryHost: ...


@dataclass(frozen=True)
class UncertainAction:
    """An action that was started and has no recorded outcome."""

    tool_name: str
    tool_call_id: str
    action_id: str
    run_id: str
    step: int
    started_at: str
    payload: JsonObject  # its intent, as the `started` record holds it
    arguments: str | None  # as the model wrote them; None when the asking message is not recorded
    replay_allowed: bool  # the record's replay_safe


@dataclass(frozen=True)
class MissingResult:
    """A call of the newest assistant message whose tool message is not recorded yet."""

    call: ToolCall
    run_id: str
    step: int
    action: ActionFacts | None  # None: not even requested


@dataclass(frozen=True)
class RunFacts:
    """The newest run. `ended` is the reason of its terminal record, None while there is none."""

    run_id: str
    step: int
    world: JsonObject  # what `run_started` recorded
    ended: str | None
    answer: str | None  # the final answer, when the model had given it


READ_CACHE_MAX = 2000  # files whose content counts as known, the newest: a checkpoint of them stays below 1 MiB


@dataclass
class RuntimeFacts:
    """What the tools knew: carried by records, restored at resume."""

    read_cache: dict[str, JsonObject] = field(default_factory=dict)
    cwd: str | None = None
    todos: list[JsonObject] = field(default_factory=list)
    grants: list[str] = field(default_factory=list)
    background: dict[str, JsonObject] = field(default_factory=dict)  # by bash_id; those whose end nobody was told
    background_count: int = 0  # of all ids that the session has given
    directories: list[str] = field(default_factory=list)  # where the file tools may work besides the workspace

    def remember_read(self, state: JsonObject) -> None:
        """A file's content is known; the one that was seen least recently is forgotten past the limit."""
        path = str(state.get("path"))
        self.read_cache.pop(path, None)
        self.read_cache[path] = state
        if len(self.read_cache) > READ_CACHE_MAX:
            del self.read_cache[next(iter(self.read_cache))]

    @classmethod
    def from_json(cls, found: JsonObject) -> RuntimeFacts:
        """The facts as a record holds them; what does not fit is left out."""
        states = [state for state in list_in(found, "read_cache") if isinstance(state, dict)]
        cwd = found.get("cwd")
        return cls(
            read_cache={str(state.get("path")): state for state in states},
            cwd=cwd if isinstance(cwd, str) else None,
            todos=[todo for todo in list_in(found, "todos") if isinstance(todo, dict)],
            grants=[str(grant) for grant in list_in(found, "grants")],
            background={str(one.get("bash_id")): one for one in list_in(found, "background") if isinstance(one, dict)},
            background_count=count if isinstance(count := found.get("background_count"), int) else 0,
            directories=[str(directory) for directory in list_in(found, "directories")],
        )

    def as_json(self) -> JsonObject:
        return {
            "read_cache": list(self.read_cache.values()),
            "cwd": self.cwd,
            "todos": self.todos,
            "grants": self.grants,
            "background": list(self.background.values()),
            "background_count": self.background_count,
            "directories": self.directories,
        }


@dataclass(frozen=True)
class ResumeState:
    """Everything that a transcript tells about its session."""

    session_id: str
    history_messages: tuple[HistoryMessage, ...]
    messages_before: int  # compacted away: their number
    checkpoint: CompactCheckpoint | None
    run: RunFacts | None
    runs: int
    steps: int
    runtime_state: RuntimeFacts
    uncertain_actions: tuple[UncertainAction, ...]
    missing_results: tuple[MissingResult, ...]
    files_changed: tuple[str, ...]
    opened: JsonObject  # details of the newest session_opened
    acted_boot_id: str  # boot of the machine when the user acted last
    name: str | None
    memory: SessionMemoryManager
    damage: tuple[Damage, ...]
    recorded_damage: frozenset[tuple[str, int]]  # findings that a record names already
    told_damage: frozenset[tuple[str, int]]  # findings that the model was told of
    draft: Draft | None
    queued_inputs: Mapping[str, str]
    last_seq: int
    last_timestamp: str | None
    ending: Ending

    @property
    def terminal(self) -> str | None:
        """How the newest run ended; None when it was cut short (or there is none)."""
        return self.run.ended if self.run else None

    @property
    def pending_tool_calls(self) -> tuple[MissingResult, ...]:
        """Calls that were asked for and never started: they may be planned again."""
        return tuple(m for m in self.missing_results if m.action is None or m.action.started_at is None)

    def apply_to_host(self, host: Host) -> list[str]:
        """Put the rebuilt state into a running agent. Returns the paths of read files that changed meanwhile."""
        host.context_engine.reset()
        host.history_manager.load_messages(self.history_messages, messages_before=self.messages_before)
        if self.checkpoint is not None:
            host.context_engine.compact_store.set_active(self.checkpoint)
        return host.tool_registry.import_read_cache(list(self.runtime_state.read_cache.values()))
