"""Long sessions, written quickly: what a user has after weeks of work."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import msgspec

from memory.blobs import BlobStore
from memory.codec import decode_event, encode_line
from memory.events import (
    CheckpointPayload,
    LifecyclePayload,
    MessagePayload,
    NewEvent,
    Payload,
    Reason,
    TerminalPayload,
    ToolCall,
    TransitionPayload,
)
from memory.fold import SessionFold
from memory.recorder import TranscriptRecorder
from memory.session import RecordedSession
from tests.crash.kit import Ours
from tests.memory.memory_kit import START, QuickDisk

WORDS = (
    "def",
    "return",
    "файл",
    "file",
    "错误",
    "error:",
    "in",
    "line",
    "self.value",
    "=",
    "🙂",
    "None",
    "the",
    "test",
)
PROMPTS_EVERY = 50  # steps of a run
RETAINED = 40  # messages that a checkpoint keeps


@dataclass(frozen=True)
class Size:
    """How much a long session holds, whichever limit comes first (0: none)."""

    events: int = 0
    bytes: int = 0
    checkpoint_every: int = 0  # events between two checkpoints; 0: there are none
    result_bytes: int = 6000  # of a command, in the mean: with the small records around it 2 KB an event


def code_like(source: random.Random, characters: int) -> str:
    """Text as tools print it: code, quotes, line ends, now and then another script."""
    return " ".join(source.choices(WORDS, k=characters // 3))[:characters]


class LongSession:
    """Writes one session event by event. Keeps a fold of its own, so that a checkpoint costs no reading."""

    def __init__(self, folder: Path, session_id: str, size: Size) -> None:
        self.store = Ours(folder, session_id)
        self._size = size
        self._random = random.Random(7)
        self._text = code_like(self._random, 400_000)
        self._session: RecordedSession = self.store.session(QuickDisk())
        self._fold = SessionFold(BlobStore(self.store.files.blobs, QuickDisk()))
        self._recorder = TranscriptRecorder(
            self._session.store, session_id, clock=lambda: START, new_id=_event_ids(), on_recorded=self._recorded
        )
        self._next_checkpoint = size.checkpoint_every
        self._messages: list[int] = []  # seqs of assistant messages: where a checkpoint may cut

    def write(self) -> Ours:
        """Write it all; the store that holds it."""
        run = 0
        self._note(
            "", 0, TransitionPayload(Reason.SESSION_OPENED.value, details={"workspace": "/home/user/project", "pid": 1})
        )
        while not self._is_full():
            run += 1
            self._run(f"run-{run}")
        self._session.close()
        return self.store

    def _is_full(self) -> bool:
        events = self._session.store.last_seq
        return 0 < self._size.events <= events or 0 < self._size.bytes <= self.store.path.stat().st_size

    def _run(self, run_id: str) -> None:
        self._note(run_id, 0, TransitionPayload(Reason.RUN_STARTED.value, details={"model": "m", "date": "2026-01-31"}))
        self._note(run_id, 0, MessagePayload("user", f"go on with {run_id} 请继续"))
        for step in range(1, PROMPTS_EVERY + 1):
            if self._is_full():
                return
            self._step(run_id, step)
            if 0 < self._next_checkpoint <= self._session.store.last_seq:
                self._checkpoint(run_id, step)
        self._note(run_id, PROMPTS_EVERY, MessagePayload("assistant", self._some(300)))
        self._note(run_id, PROMPTS_EVERY, TerminalPayload("completed"))

    def _step(self, run_id: str, step: int) -> None:
        call_id, action_id = f"call-{run_id}-{step}", f"act-{run_id}-{step}"
        call = ToolCall(call_id, "Bash", json.dumps({"command": f"pytest -q {self._some(20)}"}))
        self._messages.append(self._note(run_id, step, MessagePayload("assistant", self._some(200), (call,))))
        result = self._some(int(self._random.expovariate(1 / self._size.result_bytes)) % 60_000)
        for status in ("requested", "started", "completed"):
            is_done = status == "completed"
            self._note(
                run_id,
                step,
                LifecyclePayload(
                    "Bash",
                    call_id,
                    status,
                    action_id,
                    intent={"command": call.arguments} if status == "started" else None,
                    result=result if is_done else None,
                    exit_code=0 if is_done else None,
                ),
            )
        self._note(run_id, step, MessagePayload("tool", None, tool_call_id=call_id, action_id=action_id))

    def _checkpoint(self, run_id: str, step: int) -> None:
        start = self._messages[-RETAINED // 2]
        self._messages = self._messages[-RETAINED:]
        facts = msgspec.structs.asdict(self._fold.checkpoint_facts())
        payload = CheckpointPayload("ckpt", self._some(2000), 0, 0, 0, "2026-01-31T12:00:00.000Z", start, **facts)
        self._note(run_id, step, payload)
        self._next_checkpoint += self._size.checkpoint_every

    def _note(self, run_id: str, step: int, payload: Payload) -> int:
        match payload:
            case MessagePayload():
                return self._recorder.record_message(run_id, step, payload)
            case LifecyclePayload():
                return self._recorder.record_tool_lifecycle(run_id, step, payload)
            case TransitionPayload():
                return self._recorder.record_state_transition(run_id, step, payload)
            case CheckpointPayload():
                return self._recorder.record_checkpoint(run_id, step, payload)
            case TerminalPayload():
                return self._recorder.record_terminal(run_id, step, payload)

    def _recorded(self, event: NewEvent, _payload: Payload) -> None:
        if self._size.checkpoint_every:
            self._fold.ingest(decode_event(encode_line(event)[:-1]))

    def _some(self, characters: int) -> str:
        start = self._random.randrange(len(self._text) - characters)
        return self._text[start : start + characters]


def _event_ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"evt-{next(numbers)}"
