"""The bridge from the event stream to memory: one sink for the transcript and its draft, one for the trace."""

from __future__ import annotations

from typing import assert_never

import msgspec

from agent.events import ModelReplied, ModelRequested, RuntimeEvent, TextDelta, ToolOutput
from memory.draft import DraftFile
from memory.errors import TranscriptUnavailable
from memory.events import (
    CheckpointPayload,
    LifecyclePayload,
    MessagePayload,
    Reason,
    TerminalPayload,
    TransitionPayload,
)
from memory.recorder import TranscriptRecorder
from memory.trace import TraceLogger

# Facts of the user, which must survive a power cut as soon as Enter was pressed or a choice was made.
_SYNCED_TRANSITIONS = frozenset({Reason.INPUT_QUEUED, Reason.USER_INPUT, Reason.RECOVERY_DECIDED, Reason.SESSION_NAMED})


class TranscriptRuntimeEventSink:
    """Durable: routes each fact to the recorder, and streamed text to the draft.

    Raises TranscriptUnavailable when it is not written.
    """

    def __init__(self, recorder: TranscriptRecorder, draft: DraftFile) -> None:
        self._recorder = recorder
        self._draft = draft

    def emit(self, event: RuntimeEvent) -> int:
        run_id, step = event.run_id, event.step
        match event.payload:
            case MessagePayload() as message:
                seq = self._recorder.record_message(run_id, step, message, sync=message.role == "user")
                if message.role == "assistant":
                    self._clear_draft()
                return seq
            case TransitionPayload() as transition:
                synced = transition.reason in _SYNCED_TRANSITIONS
                return self._recorder.record_state_transition(run_id, step, transition, sync=synced)
            case LifecyclePayload() as lifecycle:
                return self._recorder.record_tool_lifecycle(run_id, step, lifecycle)
            case CheckpointPayload() as checkpoint:
                return self._recorder.record_checkpoint(run_id, step, checkpoint)
            case TerminalPayload() as terminal:
                return self._recorder.record_terminal(run_id, step, terminal)
            case TextDelta(text=text):
                self._append_draft(run_id, step, text)
                return 0
            case ToolOutput() | ModelRequested() | ModelReplied():
                return 0
            case _:
                assert_never(event.payload)

    def _append_draft(self, run_id: str, step: int, text: str) -> None:
        try:
            self._draft.append(run_id, step, text)
        except OSError as error:
            raise _draft_unavailable(error) from error

    def _clear_draft(self) -> None:
        try:
            self._draft.clear()
        except OSError as error:
            raise _draft_unavailable(error) from error


def _draft_unavailable(error: OSError) -> TranscriptUnavailable:
    return TranscriptUnavailable(
        f"The answer cannot be kept while it streams ({error.strerror}), so it is stopped: free some space.",
        recoverable=True,
    )


class TraceRuntimeEventSink:
    """Observer: everything that happens, to the trace logger. Pieces of text are left out: the reply has them whole."""

    def __init__(self, logger: TraceLogger) -> None:
        self._logger = logger

    def emit(self, event: RuntimeEvent) -> None:
        if not isinstance(event.payload, TextDelta | ToolOutput):
            payload = msgspec.to_builtins(event.payload)
            self._logger.log(event.event_type, event.run_id, event.step, payload)
