"""Session memory: a bounded summary derived from the stream of facts, event by event.

Deriving is pure: the same events give the same memory, live or after a resume. It knows no tool by name, only what
every record says: was it replay-safe, did it fail, had it an exit code.
"""

from __future__ import annotations

import re
from contextlib import suppress

import msgspec

from memory.blobs import HEAD_CHARACTERS, STRING_BYTES_MAX
from memory.events import (
    CheckpointPayload,
    JsonObject,
    LifecyclePayload,
    MessagePayload,
    NewEvent,
    Payload,
    Reason,
    Text,
    ToolCall,
    ToolStatus,
    TransitionPayload,
)

ITEMS_MAX = 6  # of each kind, the newest: the whole stays within a few hundred words
ITEM_CHARACTERS_MAX = 160
GOAL_CHARACTERS_MAX = 400
TODOS_MAX = 12
INLINE_CHARACTERS = 600  # looked at for one line; less than a blob's reference keeps of its text

_COMPLETED = ToolStatus.COMPLETED.value
_FAILED = ToolStatus.FAILED.value

_FIRST_TEXT = re.compile(r'"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)')  # in JSON that may be cut off


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
        self._calls: dict[str, ToolCall] = {}

    def update(self, memory: SessionMemory, event: NewEvent, payload: Payload) -> SessionMemory:
        """The memory after one more event. Most events leave it as it is, and cost next to nothing.

        The exact type is asked for: of a struct, `isinstance` takes longer than all else here.
        """
        if type(payload) is LifecyclePayload:
            if payload.status == _COMPLETED:
                return self._completed(memory, event, payload)
            if payload.status == _FAILED:
                return self._failed(memory, event, payload)
        elif type(payload) is MessagePayload:
            if payload.role == "assistant":
                self._calls = {call.id: call for call in payload.tool_calls}
            elif payload.role == "user" and not payload.metadata.get("recovery"):
                goal = _item(event, _inline(payload.content), GOAL_CHARACTERS_MAX)
                return msgspec.structs.replace(memory, current_goal=goal)
        elif type(payload) is TransitionPayload and payload.reason == Reason.RECOVERY_DECIDED:
            text = f"after a crash: {payload.details.get('choice')} ({payload.details.get('verdict')})"
            return msgspec.structs.replace(memory, key_decisions=_newest(memory.key_decisions, _item(event, text)))
        return memory

    def _completed(self, memory: SessionMemory, event: NewEvent, payload: LifecyclePayload) -> SessionMemory:
        call = self._calls.get(payload.tool_call_id)
        if payload.exit_code is not None:
            item = _item(event, f"{_subject(call)} -> exit {payload.exit_code}")
            return msgspec.structs.replace(memory, verification_status=_newest(memory.verification_status, item))
        if not payload.replay_safe:
            item = _item(event, f"{payload.tool_name} {_subject(call)}")
            return msgspec.structs.replace(memory, completed_work=_newest(memory.completed_work, item))
        todos = _todos(call)
        if todos is None:
            return memory
        return msgspec.structs.replace(memory, todo_items=tuple(_item(event, todo) for todo in todos[:TODOS_MAX]))

    def _failed(self, memory: SessionMemory, event: NewEvent, payload: LifecyclePayload) -> SessionMemory:
        error = payload.error or {}
        what = _inline(str(error.get("message", "failed")))
        item = _item(event, f"{payload.tool_name} {_subject(self._calls.get(payload.tool_call_id))}: {what}")
        if error.get("code") == "PERMISSION_DENIED":
            return msgspec.structs.replace(memory, key_decisions=_newest(memory.key_decisions, item))
        return msgspec.structs.replace(memory, failed_attempts=_newest(memory.failed_attempts, item))


class SessionMemoryManager:
    """Keeps the memory up to date with every recorded event, and the frozen one that the model sees."""

    def __init__(self) -> None:
        self._deriver = SessionMemoryDeriver()
        self.memory = SessionMemory()
        self.in_view = SessionMemory()

    def as_json(self) -> JsonObject:
        """The memory for a checkpoint."""
        found: JsonObject = msgspec.to_builtins(self.memory)
        return found

    def restore(self, found: JsonObject) -> None:
        """Take in the memory that a checkpoint holds; it is also the one in view then."""
        with suppress(msgspec.ValidationError):
            self.memory = msgspec.convert(found, SessionMemory)
        self.in_view = self.memory

    def ingest_event(self, event: NewEvent, payload: Payload) -> None:
        """Take in one event. The view changes only where a run starts or a checkpoint stands (a stable prompt)."""
        if type(payload) is TransitionPayload:
            if payload.reason == Reason.RUN_STARTED:
                self.in_view = self.memory
        elif type(payload) is CheckpointPayload:
            self.in_view = self.memory
        self.memory = self._deriver.update(self.memory, event, payload)


def _item(event: NewEvent, text: str, limit: int = ITEM_CHARACTERS_MAX) -> SessionMemoryItem:
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return SessionMemoryItem(short, event.run_id, event.step, event.seq)


def _newest(items: tuple[SessionMemoryItem, ...], item: SessionMemoryItem) -> tuple[SessionMemoryItem, ...]:
    return (*items[-ITEMS_MAX + 1 :], item)


def _inline(text: Text | None) -> str:
    """The beginning of a text in one line: the same whether the text is at hand or stored as a blob."""
    whole = text if isinstance(text, str) else text.head if text else ""
    return " ".join(whole[:INLINE_CHARACTERS].split())


def _subject(call: ToolCall | None) -> str:
    """The first text among the arguments: a path, a command, a pattern."""
    if call is None:
        return ""
    head = call.arguments if isinstance(call.arguments, str) else call.arguments.head
    found = _FIRST_TEXT.search(head[:HEAD_CHARACTERS])
    if found is None:
        return ""
    try:
        return _inline(msgspec.json.decode(f'"{found[1]}"', type=str))
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return _inline(found[1])


def _todos(call: ToolCall | None) -> list[str] | None:
    """The todo list among the arguments; None when they hold none. One too large for a record is none."""
    text = call.arguments if call else None
    if not isinstance(text, str) or '"todos"' not in text or len(text.encode("utf-8", "replace")) > STRING_BYTES_MAX:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    todos = found.get("todos") if isinstance(found, dict) else None
    return [_todo(todo) for todo in todos] if isinstance(todos, list) else None


def _todo(todo: object) -> str:
    if not isinstance(todo, dict):
        return _inline(str(todo))
    return f"[{todo.get('status', '')}] {_inline(str(todo.get('content', '')))}"
