"""A fork: a new session that begins with another one's history and decides nothing of it (promise 5)."""

from __future__ import annotations

import msgspec

from agent.recovery.lost import OF_PARENT
from agent.recovery.words import MARK
from memory.blobs import BlobStore
from memory.checkpoint import CompactCheckpoint
from memory.events import (
    CheckpointPayload,
    HistoryMessage,
    JsonObject,
    MessagePayload,
    Reason,
    TerminalPayload,
    TransitionPayload,
)
from memory.recorder import TranscriptRecorder
from memory.state import MissingResult, ResumeState, RunFacts

_OPEN_CALL = (
    f"{MARK} This session is a fork. In the session that it was forked from, this call was at work or was cut short; "
    "what becomes of it belongs to that session. Check before you rely on it, and do not repeat it."
)
_NOT_RUN = f"{MARK} This session is a fork. In the session that it was forked from, this call had not been started."


def write_fork(
    recorder: TranscriptRecorder, blobs: BlobStore, parent: ResumeState, parent_blobs: BlobStore, created_at: str
) -> None:
    """Write the parent's history as the fork's own records and blobs.

    Every call gets a result; none is investigated or decided.

    Raises:
        OSError: a blob could not be written.
    """
    facts = parent.runtime_state.as_json()
    details: JsonObject = {
        "parent_session": parent.session_id,
        "parent_seq": parent.last_seq,
        "runtime_state": {**facts, "background": [{**one, OF_PARENT: True} for one in facts["background"]]},
    }
    recorder.record_state_transition("", 0, TransitionPayload(Reason.FORKED.value, details=details))
    run = parent.run
    if run is None:
        return
    if run.world:
        recorder.record_state_transition(run.run_id, 0, TransitionPayload(Reason.RUN_STARTED.value, details=run.world))
    if parent.checkpoint is not None:
        _checkpoint(recorder, parent, parent.checkpoint, run, created_at)
    for message in parent.history_messages:
        copy = MessagePayload(
            message.role,
            message.content,
            message.tool_calls,
            message.tool_call_id,
            message.action_id,
            _metadata(message, blobs, parent_blobs),
        )
        recorder.record_message(run.run_id, run.step, copy)
    for missing in parent.missing_results:
        recorder.record_message(run.run_id, run.step, _result(missing))
    if run.ended is not None:
        recorder.record_terminal(run.run_id, run.step, TerminalPayload(run.ended))


def _metadata(message: HistoryMessage, blobs: BlobStore, parent_blobs: BlobStore) -> JsonObject:
    """Of the copy of a message; the images of its result come along."""
    metadata = dict(message.metadata)
    for image in message.images:
        data = parent_blobs.get(image.blob)
        if data is not None:
            blobs.put(data)
    return {**metadata, "images": msgspec.to_builtins(message.images)} if message.images else metadata


def _checkpoint(
    recorder: TranscriptRecorder, parent: ResumeState, checkpoint: CompactCheckpoint, run: RunFacts, created_at: str
) -> None:
    payload = CheckpointPayload(
        checkpoint_id=checkpoint.checkpoint_id,
        summary=checkpoint.summary,
        source_message_count=parent.messages_before + len(parent.history_messages),
        retain_start_idx=parent.messages_before,
        messages_compacted=checkpoint.messages_compacted,
        created_at=created_at,
        retain_start_seq=0,
    )
    recorder.record_checkpoint(run.run_id, run.step, payload)


def _result(missing: MissingResult) -> MessagePayload:
    action = missing.action
    return MessagePayload(
        "tool",
        _OPEN_CALL if action is not None and action.started_at is not None else _NOT_RUN,
        tool_call_id=missing.call.id,
        action_id=action.action_id if action else None,
        metadata={"recovered": True},
    )
