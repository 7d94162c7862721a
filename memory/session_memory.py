"""Session memory: a bounded summary derived from the stream of facts, event by event.

Deriving is pure: the same events give the same memory, live or after a resume. It knows no tool by name, only what
every record says: was it replay-safe, did it fail, had it an exit code.
"""

from __future__ import annotations

import msgspec

from memory.events import (
    EventType,
    JsonObject,
    LifecyclePayload,
    MessagePayload,
    Payload,
    Reason,
    Text,
    ToolStatus,
    TranscriptEvent,
    TransitionPayload,
)

ITEMS_MAX = 6  # of each kind, the newest: the whole stays within a few hundred words
ITEM_CHARACTERS_MAX = 160
GOAL_CHARACTERS_MAX = 400


class SessionMemoryItem(msgspec.Struct, frozen=True):
    """One remembered thing, and the record that it comes from."""

    text: str
    run_id: str
    step: int
    seq: int


class SessionMemory(msgspec.Struct, frozen=True):
    """What the model should know across runs without reading the whole history."""

    current_goal: SessionMemoryItem | None = None
    completed_work: tuple[SessionMemoryItem, ...] = ()
    key_decisions: tuple[SessionMemoryItem, ...] = ()
    failed_attempts: tuple[SessionMemoryItem, ...] = ()
    todo_items: tuple[SessionMemoryItem, ...] = ()
    verification_status: tuple[SessionMemoryItem, ...] = ()

    def render(self) -> str:
        """The text for the model; '' when there is nothing to remember."""
        sections = [
            ("Current goal", (self.current_goal,) if self.current_goal else ()),
            ("Done so far", self.completed_work),
            ("Decisions", self.key_decisions),
            ("Failed attempts", self.failed_attempts),
            ("Todo list", self.todo_items),
            ("Commands and their exit codes", self.verification_status),
        ]
        lines = []
        for title, items in sections:
            if items:
                lines.append(f"{title}:")
                lines.extend(f"- {item.text}" for item in items)
        return "\n".join(lines)


class SessionMemoryDeriver:
    """Folds events into a memory. Holds, besides, the calls of the newest assistant message: outcomes name only ids."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, JsonObject]] = {}

    def update(self, memory: SessionMemory, event: TranscriptEvent, payload: Payload) -> SessionMemory:
        """The memory after one more event."""
        match payload:
            case MessagePayload(role="user") if not payload.metadata.get("recovery"):
                goal = self._item(event, _inline(payload.content), GOAL_CHARACTERS_MAX)
                return msgspec.structs.replace(memory, current_goal=goal)
            case MessagePayload(role="assistant"):
                self._calls = {call.id: (call.name, _arguments(call.arguments)) for call in payload.tool_calls}
                return memory
            case LifecyclePayload(status=ToolStatus.COMPLETED):
                return self._completed(memory, event, payload)
            case LifecyclePayload(status=ToolStatus.FAILED):
                return self._failed(memory, event, payload)
            case TransitionPayload(reason=Reason.RECOVERY_DECIDED):
                text = f"after a crash: {payload.details.get('choice')} ({payload.details.get('verdict')})"
                return self._with(memory, "key_decisions", self._item(event, text))
            case _:
                return memory

    def _completed(self, memory: SessionMemory, event: TranscriptEvent, payload: LifecyclePayload) -> SessionMemory:
        name, arguments = self._calls.get(payload.tool_call_id, (payload.tool_name, {}))
        todos = arguments.get("todos")
        if isinstance(todos, list):
            items = [self._item(event, _todo(todo)) for todo in todos[: ITEMS_MAX * 2]]
            return msgspec.structs.replace(memory, todo_items=tuple(items))
        if payload.exit_code is not None:
            text = f"{_subject(arguments)} -> exit {payload.exit_code}"
            return self._with(memory, "verification_status", self._item(event, text))
        if payload.replay_safe:
            return memory
        return self._with(memory, "completed_work", self._item(event, f"{name} {_subject(arguments)}"))

    def _failed(self, memory: SessionMemory, event: TranscriptEvent, payload: LifecyclePayload) -> SessionMemory:
        name, arguments = self._calls.get(payload.tool_call_id, (payload.tool_name, {}))
        error = payload.error or {}
        text = f"{name} {_subject(arguments)}: {_inline(str(error.get('message', 'failed')))}"
        kind = "key_decisions" if error.get("code") == "PERMISSION_DENIED" else "failed_attempts"
        return self._with(memory, kind, self._item(event, text))

    @staticmethod
    def _with(memory: SessionMemory, kind: str, item: SessionMemoryItem) -> SessionMemory:
        items = (*getattr(memory, kind), item)[-ITEMS_MAX:]
        return msgspec.structs.replace(memory, **{kind: items})

    @staticmethod
    def _item(event: TranscriptEvent, text: str, limit: int = ITEM_CHARACTERS_MAX) -> SessionMemoryItem:
        short = text if len(text) <= limit else text[: limit - 1] + "…"
        return SessionMemoryItem(short, event.run_id, event.step, event.seq)


class SessionMemoryManager:
    """Keeps the memory up to date with every recorded event, and the frozen one that the model sees."""

    def __init__(self) -> None:
        self._deriver = SessionMemoryDeriver()
        self.memory = SessionMemory()
        self.in_view = SessionMemory()

    def ingest_event(self, event: TranscriptEvent, payload: Payload) -> None:
        """Take in one event. The view changes only where a run starts or a checkpoint stands (a stable prompt)."""
        if event.event_type == EventType.CHECKPOINT or (
            isinstance(payload, TransitionPayload) and payload.reason == Reason.RUN_STARTED
        ):
            self.in_view = self.memory
        self.memory = self._deriver.update(self.memory, event, payload)


def _inline(text: Text | None) -> str:
    whole = text if isinstance(text, str) else text.head if text else ""
    return " ".join(whole[: 4 * GOAL_CHARACTERS_MAX].split())


def _arguments(text: Text) -> JsonObject:
    if not isinstance(text, str):
        return {}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _subject(arguments: JsonObject) -> str:
    """The first short text among the arguments: a path, a command, a pattern."""
    return next((_inline(value) for value in arguments.values() if isinstance(value, str) and value.strip()), "")


def _todo(todo: object) -> str:
    if not isinstance(todo, dict):
        return _inline(str(todo))
    return f"[{todo.get('status', '')}] {_inline(str(todo.get('content', '')))}"
