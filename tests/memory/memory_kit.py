"""A session on a real disk, opened as the agent opens it, and short names for the facts that tests record."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.blobs import BlobStore
from memory.disk import Disk
from memory.events import (
    BlobRef,
    CheckpointPayload,
    JsonObject,
    LifecyclePayload,
    MessagePayload,
    Payload,
    Reason,
    TerminalPayload,
    ToolCall,
    TransitionPayload,
)
from memory.layout import MemoryFolder
from memory.reader import Damage
from memory.resume import ResumeLoader
from memory.session import RecordedSession
from memory.state import ResumeState

SESSION_ID = "session-0123456789ab"
START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class QuickDisk(Disk):
    """A real disk that is not waited for: a test cannot cut the power."""

    def fdatasync(self, fd: int) -> None:
        pass

    def fsync(self, fd: int) -> None:
        pass


QUICK_DISK = QuickDisk()

Fact = tuple[str, int, Payload]  # run, step, payload


class Place:
    """One session below a folder. Clock and ids are counted, so the same records have the same bytes."""

    def __init__(self, folder: Path, session_id: str = SESSION_ID) -> None:
        self.files = MemoryFolder(folder).session(session_id)
        self._ids = itertools.count(1)
        self._seconds = itertools.count()

    def open(self, disk: Disk = QUICK_DISK) -> RecordedSession:
        return RecordedSession.open(self.files, disk, clock=self._clock, new_event_id=lambda: f"evt-{next(self._ids)}")

    def opened_by_agent(self) -> list[Damage]:
        """Open, record the opening and the new findings as the agent does, and leave. What the user is shown."""
        session = self.open()
        record(session, ("", 0, transition(Reason.SESSION_OPENED, pid=1)))
        if session.new_damage:
            found = [one.as_json() for one in session.new_damage]
            record(session, ("", 0, transition(Reason.TRANSCRIPT_REPAIRED, damage=found)))
        session.close()
        return list(session.damage)

    def write(self, *facts: Fact) -> None:
        """Record facts in a session that is then closed."""
        session = self.open()
        record(session, *facts)
        session.close()

    def load(self) -> ResumeState:
        return ResumeLoader(self.files, BlobStore(self.files.blobs, QUICK_DISK)).load_session()

    @property
    def data(self) -> bytes:
        return self.files.transcript.read_bytes()

    @property
    def lines(self) -> list[bytes]:
        """The complete lines with their newlines."""
        return [line + b"\n" for line in self.data.split(b"\n")[:-1]]

    def put(self, *parts: bytes) -> None:
        """Give the transcript this content."""
        self.files.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.files.transcript.write_bytes(b"".join(parts))

    def _clock(self) -> datetime:
        return START + timedelta(seconds=next(self._seconds))


def record(session: RecordedSession, *facts: Fact) -> None:
    """Record each fact with the method that is meant for it."""
    recorder = session.recorder
    for run_id, step, payload in facts:
        match payload:
            case MessagePayload():
                recorder.record_message(run_id, step, payload)
            case TransitionPayload():
                recorder.record_state_transition(run_id, step, payload)
            case LifecyclePayload():
                recorder.record_tool_lifecycle(run_id, step, payload)
            case CheckpointPayload():
                recorder.record_checkpoint(run_id, step, payload)
            case TerminalPayload():
                recorder.record_terminal(run_id, step, payload)


# -- facts


def in_run(run_id: str, step: int, *payloads: Payload) -> list[Fact]:
    return [(run_id, step, payload) for payload in payloads]


def user(text: str, **metadata: object) -> MessagePayload:
    return MessagePayload("user", text, metadata=metadata)


def says(text: str) -> MessagePayload:
    return MessagePayload("assistant", text)


def asks(*call_ids: str, arguments: str = "{}", name: str = "Bash") -> MessagePayload:
    return MessagePayload("assistant", "", tuple(ToolCall(call_id, name, arguments) for call_id in call_ids))


def answers(call_id: str, text: str | None = None) -> MessagePayload:
    return MessagePayload("tool", text, tool_call_id=call_id)


def life(call_id: str, *statuses: str, result: str = "", name: str = "Bash", action_id: str = "") -> list[Payload]:
    """The records of one action that came this far."""
    return [
        LifecyclePayload(
            name,
            call_id,
            status,
            action_id or f"act-{call_id}",
            intent={"command": f"do {call_id}"} if status == "started" else None,
            result=(result or f"result of {call_id}") if status in ("completed", "failed") else None,
            error={"code": "INTERNAL", "message": "it broke"} if status == "failed" else None,
        )
        for status in statuses
    ]


def done(call_id: str) -> list[Payload]:
    """A whole life, with the tool message."""
    return [*life(call_id, "requested", "started", "completed"), answers(call_id)]


def transition(reason: Reason, **details: object) -> TransitionPayload:
    return TransitionPayload(reason.value, details=details)


def decided(action_id: str, choice: str = "skip") -> TransitionPayload:
    return transition(Reason.RECOVERY_DECIDED, action_id=action_id, verdict="unknown", evidence={}, choice=choice)


def compacted(retain_start_seq: int, count: int, summary: str | BlobRef = "so far") -> CheckpointPayload:
    return CheckpointPayload("ckpt-1", summary, count, count, count, "2026-01-31T12:00:00.000Z", retain_start_seq)


# -- what a state says


def shown(state: ResumeState) -> list[tuple[str, str]]:
    """The history as role (with the call, of a tool message) and text."""
    return [(f"tool {m.tool_call_id}" if m.role == "tool" else m.role, m.content) for m in state.history_messages]


def kinds(found: Sequence[Damage]) -> list[tuple[str, int, int, int]]:
    """Findings as kind, line, offset, bytes."""
    return [(str(one.kind), one.line, one.offset, one.bytes) for one in found]


def facts_of(state: ResumeState) -> JsonObject:
    """Everything that a state tells, comparable: its memory by value, and not where the file ends."""
    names = [name for name in state.__dataclass_fields__ if name not in ("memory", "ending", "last_timestamp")]
    return {
        **{name: getattr(state, name) for name in names},
        "memory": (state.memory.memory, state.memory.in_view),
    }


# -- a disk that fails


class FaultyDisk(Disk):
    """Counts the calls of one kind and fails at some of them: with an error, or by writing only a part."""

    def __init__(self, call: str, fails_at: Callable[[int], bool], *, error: int = errno.ENOSPC, part: int = 0) -> None:
        self._call = call
        self._fails_at = fails_at
        self._error = error
        self._part = part  # bytes written before the failure
        self.calls = 0
        self.is_mended = False

    def _may_fail(self, call: str) -> None:
        if call == self._call and not self.is_mended:
            self.calls += 1
            if self._fails_at(self.calls):
                raise OSError(self._error, os.strerror(self._error))

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        try:
            self._may_fail("write")
        except OSError:
            if self._part:
                return super().write(fd, memoryview(data)[: self._part])
            raise
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self._may_fail("truncate")
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._may_fail("fdatasync")
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._may_fail("fsync")
        super().fsync(fd)

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self._may_fail("open")
        return super().open(path, flags, mode)

    def rename(self, source: Path, target: Path) -> None:
        self._may_fail("rename")
        super().rename(source, target)

    def mkdir(self, path: Path) -> None:
        self._may_fail("mkdir")
        super().mkdir(path)


class SmallDisk(Disk):
    """Has room for so many bytes, whatever they are written to."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().write(fd, memoryview(data)[: self.room])
        self.room -= written
        return written
