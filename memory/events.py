"""The five kinds of fact: the records of a transcript. Values only: nothing here reads or writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

SCHEMA_VERSION = 2

JsonObject = dict[str, Any]  # any JSON object; msgspec knows no recursive alias


def list_in(found: JsonObject, key: str) -> list[object]:
    """The list that an object of any version holds by this name; an empty one where there is none."""
    value = found.get(key)
    return value if isinstance(value, list) else []


class EventType(StrEnum):
    MESSAGE = "message"
    STATE_TRANSITION = "state_transition"
    TOOL_LIFECYCLE = "tool_lifecycle"
    CHECKPOINT = "checkpoint"
    TERMINAL = "terminal"


class ToolStatus(StrEnum):
    REQUESTED = "requested"
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"


class Reason(StrEnum):
    """Reasons of a `state_transition`."""

    SESSION_OPENED = "session_opened"
    SESSION_CLOSED = "session_closed"
    SESSION_NAMED = "session_named"
    FORKED = "forked"
    RUN_STARTED = "run_started"
    INPUT_QUEUED = "input_queued"
    USER_INPUT = "user_input"
    MODEL_RETURNED_TOOL_CALLS = "model_returned_tool_calls"
    TOOLS_EXECUTED = "tools_executed"
    MODEL_RETURNED_FINAL = "model_returned_final"
    MODEL_RETRY = "model_retry"
    INTERRUPTED_BY_USER = "interrupted_by_user"
    CONTEXT_COMPACTED = "context_compacted"
    CONTEXT_TRUNCATED = "context_truncated"
    TRANSCRIPT_REPAIRED = "transcript_repaired"
    TRANSCRIPT_GAP = "transcript_gap"
    RECOVERY_DECIDED = "recovery_decided"


class End(StrEnum):
    """Reasons of a `terminal` record: how a run ended."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    MAX_STEPS = "max_steps"
    TOKEN_BUDGET = "token_budget"
    MODEL_ERROR = "model_error"
    PERMISSION_NEEDED = "permission_needed"
    DECISION_NEEDED = "decision_needed"
    TRANSCRIPT_ERROR = "transcript_error"
    OUTPUT_CLOSED = "output_closed"
    TERMINATED = "terminated"
    HANGUP = "hangup"
    INTERNAL_ERROR = "internal_error"


class BlobRef(msgspec.Struct, frozen=True):
    """Stands where a string above 64 KiB stood: the whole text is a blob of the session."""

    blob: str  # SHA-256 of its UTF-8 bytes, which is also its file name
    bytes: int
    head: str
    tail: str


Text = str | BlobRef


class ImageRef(msgspec.Struct, frozen=True):
    """An image that a tool returned; its content is a blob of the session."""

    name: str  # as people and model know it
    media_type: str  # such as image/png
    blob: str
    bytes: int


def image_refs(found: Iterable[object]) -> tuple[ImageRef, ...]:
    """The images that a record names; what does not fit is left out."""
    refs = []
    for one in found:
        with suppress(msgspec.ValidationError):
            refs.append(msgspec.convert(one, ImageRef))
    return tuple(refs)


class ToolCall(msgspec.Struct, frozen=True):
    """One call as the model wrote it. `arguments` is its text, valid JSON or not."""

    id: str
    name: str
    arguments: Text


class MessagePayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `message`. A tool message of an action with a recorded outcome has no content: the outcome holds it.

    `metadata.images` lists those of a tool message that has its own content.
    """

    role: str
    content: Text | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    action_id: str | None = None
    metadata: JsonObject = {}


class TransitionPayload(msgspec.Struct, frozen=True):
    """A `state_transition`."""

    reason: str
    from_state: str | None = None
    to_state: str | None = None
    details: JsonObject = {}


class LifecyclePayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `tool_lifecycle`.

    Absent in old files: `action_id` (an attempt begins at each `requested`) and `replay_safe` (assume the worst).
    """

    tool_name: str
    tool_call_id: str
    status: str
    action_id: str = ""
    replay_safe: bool = False
    permission: JsonObject | None = None
    intent: JsonObject | None = None
    result: Text | None = None
    error: JsonObject | None = None  # {code, message}
    file_states: tuple[JsonObject, ...] = ()
    images: tuple[JsonObject, ...] = ()  # as `ImageRef`
    cwd: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    redo_of: str | None = None
    reverts: str | None = None
    background: JsonObject | None = None  # {bash_id}: what was set going; with `ended` true, found ended and told


class CheckpointPayload(msgspec.Struct, frozen=True):
    """A `checkpoint`: messages before `retain_start_seq` are replaced by the summary."""

    checkpoint_id: str
    summary: Text
    source_message_count: int
    retain_start_idx: int
    messages_compacted: int
    created_at: str
    retain_start_seq: int = 0
    session_memory: JsonObject = {}
    runtime_state: JsonObject = {}
    metadata: JsonObject = {}


class TerminalPayload(msgspec.Struct, frozen=True):
    """A `terminal`: the end of a run."""

    reason: str
    details: JsonObject = {}


Payload = MessagePayload | TransitionPayload | LifecyclePayload | CheckpointPayload | TerminalPayload

PAYLOAD_TYPES: Mapping[str, type[Payload]] = {
    EventType.MESSAGE: MessagePayload,
    EventType.STATE_TRANSITION: TransitionPayload,
    EventType.TOOL_LIFECYCLE: LifecyclePayload,
    EventType.CHECKPOINT: CheckpointPayload,
    EventType.TERMINAL: TerminalPayload,
}


class NewEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One record as it is written, its payload encoded with the rest. The first seven fields are the customer's format.

    `seq` is dense from 1 and checked by the store. `late` marks a record that waited in memory until there was room.
    """

    event_id: str
    timestamp: str
    session_id: str
    run_id: str
    step: int
    event_type: str
    payload: Payload | msgspec.Raw
    schema_version: int
    seq: int
    late: bool = False


class TranscriptEvent(NewEvent, frozen=True, gc=False, omit_defaults=True):
    """One record as it is read: its payload stays raw until it is needed."""

    payload: msgspec.Raw


@dataclass(frozen=True)
class HistoryMessage:
    """One message of the conversation, with every text in full: what live process and loader agree on."""

    role: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    action_id: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    seq: int = 0  # of its record; 0 when the session is not recorded
    images: tuple[ImageRef, ...] = ()  # of a tool message: what the result shows besides its text
