"""The facade of the transcript: one method for each kind of fact."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from memory.errors import TranscriptUnavailable
from memory.events import (
    SCHEMA_VERSION,
    CheckpointPayload,
    EventType,
    LifecyclePayload,
    MessagePayload,
    NewEvent,
    Payload,
    TerminalPayload,
    ToolStatus,
    TransitionPayload,
)
from memory.store import TranscriptStore

# Plain strings: the member of an enumeration costs the encoder, and a comparison, three times as much.
_MESSAGE = EventType.MESSAGE.value
_STATE_TRANSITION = EventType.STATE_TRANSITION.value
_TOOL_LIFECYCLE = EventType.TOOL_LIFECYCLE.value
_CHECKPOINT = EventType.CHECKPOINT.value
_TERMINAL = EventType.TERMINAL.value
_REQUESTED = ToolStatus.REQUESTED.value

OnRecorded = Callable[[NewEvent, Payload], None]


def timestamp(moment: datetime) -> str:
    """A time as records hold it: UTC, milliseconds, Z."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"  # three times as fast as strftime


class TranscriptRecorder:
    """Writes facts, and hands each one that is written, or kept for later, to `on_recorded`.

    Every method returns the record's sequence number and raises TranscriptUnavailable when it is not on disk.
    """

    def __init__(
        self,
        store: TranscriptStore,
        session_id: str,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        on_recorded: OnRecorded,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._clock = clock
        self._new_id = new_id
        self._on_recorded = on_recorded
        self._second = datetime.min.replace(tzinfo=UTC)  # of the newest record, and its text but for the milliseconds
        self._second_text = ""

    def record_message(self, run_id: str, step: int, message: MessagePayload, *, sync: bool = False) -> int:
        """`sync` for what the user sent; the rest rides along with the next sync point."""
        return self._record(_MESSAGE, run_id, step, message, sync=sync)

    def record_state_transition(
        self, run_id: str, step: int, transition: TransitionPayload, *, sync: bool = False
    ) -> int:
        return self._record(_STATE_TRANSITION, run_id, step, transition, sync=sync)

    def record_tool_lifecycle(self, run_id: str, step: int, lifecycle: LifecyclePayload) -> int:
        """Synced before an effect (`started`) and after it (the outcome of what was not replay-safe)."""
        effect = not lifecycle.replay_safe and lifecycle.status != _REQUESTED
        return self._record(_TOOL_LIFECYCLE, run_id, step, lifecycle, sync=effect)

    def record_checkpoint(self, run_id: str, step: int, checkpoint: CheckpointPayload) -> int:
        return self._record(_CHECKPOINT, run_id, step, checkpoint, sync=True)

    def record_terminal(self, run_id: str, step: int, terminal: TerminalPayload) -> int:
        return self._record(_TERMINAL, run_id, step, terminal, sync=True)

    def _now(self) -> str:
        """The time as a record holds it. Most records share their second, and then half the work is done."""
        moment = self._clock()
        since = moment - self._second
        if since.days or since.seconds:
            self._second = moment.replace(microsecond=0)
            self._second_text = timestamp(self._second).removesuffix("000Z")
        return f"{self._second_text}{moment.microsecond // 1000:03d}Z"

    def _record(self, kind: str, run_id: str, step: int, payload: Payload, *, sync: bool) -> int:
        event = NewEvent(
            self._new_id(),
            self._now(),
            self._session_id,
            run_id,
            step,
            kind,
            payload,
            SCHEMA_VERSION,
            self._store.last_seq + 1,
        )
        try:
            self._store.append_event(event, sync=sync)
        except TranscriptUnavailable as error:
            if error.recoverable:  # the store keeps it in memory: it counts as a fact of this session
                self._on_recorded(event, payload)
            raise
        self._on_recorded(event, payload)
        return event.seq
