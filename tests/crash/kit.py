"""What the batteries have in common: two stores (ours, and a naive one that must fail), a turn to write, and the rule.

The rule is the same for every battery: whatever happened, what a store knows afterwards is a beginning of what was
written, it holds every record that was acknowledged, and no effect took place whose record it does not hold.
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from agent.events import TEXT_DELTA, RuntimeEvent, TextDelta
from agent.sinks import TranscriptRuntimeEventSink
from memory.blobs import BlobStore
from memory.disk import Disk
from memory.errors import TranscriptUnavailable
from memory.events import (
    LifecyclePayload,
    MessagePayload,
    Payload,
    Reason,
    TerminalPayload,
    ToolCall,
    ToolStatus,
)
from memory.layout import MemoryFolder
from memory.reader import Damage, TranscriptReader
from memory.resume import ResumeLoader
from memory.session import RecordedSession
from memory.state import ResumeState
from tests.memory.memory_kit import Fact, answers, in_run, life, says, transition, user

SESSION_ID = "session-0123456789ab"
REAL_DISK = Disk()
ROOM_IN_A_RECORD = 70_000  # bytes of a text that does not find room in a record: it becomes a blob

Tell = Callable[[str], None]


def scaled(count: int) -> int:
    """A number of cases, times MYCODEAGENT_CRASH_SIZE (1 unless it is set)."""
    return max(1, round(count * float(os.environ.get("MYCODEAGENT_CRASH_SIZE", "1"))))


def quick_place(otherwise: Path | None = None) -> Path | None:
    """Where a sync takes no time: memory, where the system has a folder there."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else otherwise


# -- what is written


def conversation() -> list[Fact]:
    """Two runs with text of many scripts; the second one stands in the middle of a command."""
    calls = (
        ToolCall("call-1", "Edit", '{"file_path":"src/主程序.py","old_string":"café","new_string":"珈琲 ☕"}'),
        ToolCall("call-2", "Bash", '{"command":"printf \'%s\\\\n\' 🙂"}'),
    )
    return [
        ("", 0, transition(Reason.SESSION_OPENED, workspace="/home/李/проект", pid=4711)),
        *in_run(
            "run-1",
            0,
            transition(Reason.RUN_STARTED, model="scripted"),
            user("把 README 翻译成中文 👩‍👩‍👧‍👦\u2028and keep “quotes” \\ \x00 as they are"),
        ),
        ("run-1", 1, MessagePayload("assistant", "好的，先改文件。", calls)),
        *in_run("run-1", 1, *life("call-1", "requested", "started", "completed", result="已改 ✅", name="Edit")),
        *in_run("run-1", 1, answers("call-1")),
        *in_run("run-1", 1, *life("call-2", "requested", "started", "failed", result="exit 1: 失败\n")),
        *in_run("run-1", 1, answers("call-2")),
        *in_run("run-1", 2, says("完成了 🎉"), TerminalPayload("completed")),
        ("run-2", 0, user("再来一次")),
        ("run-2", 1, MessagePayload("assistant", None, (ToolCall("call-3", "Bash", '{"command":"make 测试"}'),))),
        *in_run("run-2", 1, *life("call-3", "requested", "started")),
    ]


def turn() -> list[Fact]:
    """One run with a large text, so that every file of a session is written."""
    large = life("call-b", "requested", "started", "completed", result="部分 " * (ROOM_IN_A_RECORD // 7))
    return [
        ("", 0, transition(Reason.SESSION_OPENED, pid=1)),
        ("run-1", 0, user("start 开始")),
        ("run-1", 1, MessagePayload("assistant", "two calls", (_call("call-a"), _call("call-b")))),
        *in_run("run-1", 1, *life("call-a", "requested", "started", "completed"), answers("call-a")),
        *in_run("run-1", 1, *large, answers("call-b")),
        *in_run("run-1", 2, says("done"), TerminalPayload("completed")),
    ]


def _call(call_id: str) -> ToolCall:
    return ToolCall(call_id, "Bash", json.dumps({"command": f"do {call_id}"}))


# -- who writes it


class Writer(Protocol):
    """One opening of a store. `record` gives the record's number, dense from 1, when the record is kept."""

    def record(self, fact: Fact) -> int: ...
    def draft(self, text: str) -> None: ...
    def close(self) -> None: ...


class Store(Protocol):
    """A place for one session's records."""

    path: Path

    def open(self, disk: Disk) -> Writer: ...
    def known(self) -> list[str]:
        """Every record that a reader gets, in order: its type and its payload."""
        ...

    def findings(self) -> list[Damage]:
        """What a reader has to say about the bytes."""
        ...


class Ours:
    """Sessions as the agent opens and writes them."""

    def __init__(self, folder: Path, session_id: str = SESSION_ID) -> None:
        self.files = MemoryFolder(folder).session(session_id)
        self.path = self.files.transcript

    def open(self, disk: Disk = REAL_DISK) -> OurWriter:
        return OurWriter(self.session(disk))

    def session(self, disk: Disk = REAL_DISK) -> RecordedSession:
        return RecordedSession.open(self.files, disk, clock=_now, new_event_id=_new_id)

    def load(self, *, live: bool = False) -> ResumeState:
        return ResumeLoader(self.files, BlobStore(self.files.blobs, REAL_DISK)).load_session(live=live)

    def reader(self, *, live: bool = False) -> TranscriptReader:
        return TranscriptReader(self.path, self.files.session_id, live=live).scan()

    def known(self) -> list[str]:
        if not self.path.exists():
            return []
        return [f"{event.event_type} {bytes(event.payload).decode()}" for event in self.reader().events()]

    def findings(self) -> list[Damage]:
        return list(self.load().damage) if self.path.exists() else []

    def put(self, data: bytes) -> None:
        """Give the transcript this content."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(data)

    def opened_by_agent(self) -> list[Damage]:
        """Open, record the opening and what is newly found, as the agent does, and leave. The new findings."""
        writer = self.open()
        try:
            writer.record(("", 0, transition(Reason.SESSION_OPENED, pid=1)))
            found = writer.session.new_damage
            if found:
                details = [one.as_json() for one in found]
                writer.record(("", 0, transition(Reason.TRANSCRIPT_REPAIRED, damage=details)))
            return found
        finally:
            writer.close()

    def torn_pieces(self) -> list[bytes]:
        """What was set aside, oldest first."""
        sides = sorted(self.path.parent.glob(f"{self.path.name}.torn-*"), key=lambda side: side.name)
        return [side.read_bytes() for side in sides]

    def remove(self) -> None:
        """Remove what one case left, so that the next one finds nothing."""
        for path in [*self.path.parent.glob("*"), *self.files.blobs.glob("*")]:
            path.unlink()


class OurWriter:
    """Writes through the agent's own bridge, and does what it does when there is no room: it tries once more."""

    def __init__(self, session: RecordedSession) -> None:
        self.session = session
        self._sink = TranscriptRuntimeEventSink(session.recorder, session.draft)

    def record(self, fact: Fact) -> int:
        run_id, step, payload = fact
        try:
            return self._sink.emit(_event(run_id, step, payload))
        except TranscriptUnavailable as error:
            if not error.recoverable:
                raise
            self.session.store.write_late()
            return self.session.store.last_seq

    def draft(self, text: str) -> None:
        self._sink.emit(_event("run-1", 1, TextDelta(text)))

    def close(self) -> None:
        self.session.close()


class Naive:
    """What many programs do: JSON lines, no checksum, no lock, no sync, no repair, and errors are ignored."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "naive.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, disk: Disk = REAL_DISK) -> NaiveWriter:
        return NaiveWriter(self, disk)

    def known(self) -> list[str]:
        return [text for _number, text in self.numbered()]

    def numbered(self) -> list[tuple[int, str]]:
        """Each record with the number that it was given."""
        lines = self.path.read_bytes().split(b"\n") if self.path.exists() else []
        found = []
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                record = json.loads(line)
                found.append((record["seq"], f"{record['event_type']} {record['payload']}"))
        return found

    def findings(self) -> list[Damage]:
        return []


class NaiveWriter:
    def __init__(self, store: Naive, disk: Disk) -> None:
        self._disk = disk
        self._fd = -1
        with suppress(OSError):
            self._fd = disk.open(store.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._seq = len(store.known())

    def record(self, fact: Fact) -> int:
        self._seq += 1
        record = {"seq": self._seq, "event_type": _kind(fact[2]), "payload": msgspec.json.encode(fact[2]).decode()}
        with suppress(OSError):
            self._disk.write(self._fd, json.dumps(record, ensure_ascii=False).encode() + b"\n")
        return self._seq

    def draft(self, text: str) -> None:
        del text  # a program of this kind keeps nothing of an answer before its end

    def close(self) -> None:
        with suppress(OSError):
            self._disk.close(self._fd)


# -- a turn, told as it goes


def work(store: Store, disk: Disk, tell: Tell, facts: Sequence[Fact] | None = None) -> None:
    """Write a turn in two openings.

    Tells, with N records each: `tried N`, `acked N`, `synced N` behind a sync point, `effect N`. At the end `refused`,
    when the store would not go on.
    """
    written = list(facts if facts is not None else turn())
    half = len(written) // 2
    numbers = itertools.count(1)
    try:
        for part in (written[:half], written[half:]):
            writer = store.open(disk)
            try:
                for fact in part:
                    tell(f"tried {next(numbers)}")
                    _write(writer, fact, tell)
            finally:
                writer.close()
    except (TranscriptUnavailable, OSError) as error:
        tell(f"refused {error}")


def _write(writer: Writer, fact: Fact, tell: Tell) -> None:
    payload = fact[2]
    if isinstance(payload, MessagePayload) and payload.role == "assistant":
        writer.draft("it streams ")
        writer.draft("流")
    number = writer.record(fact)
    tell(f"acked {number}")
    if _is_sync_point(payload):
        tell(f"synced {number}")
    if isinstance(payload, LifecyclePayload) and payload.status == ToolStatus.STARTED:
        tell(f"effect {number}")


def _is_sync_point(payload: Payload) -> bool:
    """Must everything up to this record survive a power cut as soon as it is acknowledged?"""
    match payload:
        case MessagePayload(role=role):
            return role == "user"
        case LifecyclePayload(status=status, replay_safe=is_safe):
            return not is_safe and status != ToolStatus.REQUESTED
        case _:
            return isinstance(payload, TerminalPayload)


def violations(
    known: Sequence[str], written: Sequence[str], told: Sequence[str], *, promised: str = "acked"
) -> list[str]:
    """Where a store breaks the rule, given what was told while it was written."""
    acked, effect, tried = (_newest(told, word) for word in (promised, "effect", "tried"))
    found = []
    if list(known) != list(written[: len(known)]):
        found.append(f"the {len(known)} records known are no beginning of those written")
    if len(known) < acked:
        found.append(f"{acked} records were {promised}, {len(known)} are known")
    if len(known) < effect:
        found.append(f"the effect of record {effect} took place, {len(known)} records are known")
    if len(known) > tried:
        found.append(f"{tried} records were written, {len(known)} are known")
    return found


def afterwards(store: Store, written: Sequence[str], told: Sequence[str], *, promised: str = "acked") -> list[str]:
    """The rule for what is known now, for what is known after the next opening, and for a reader after that."""
    known = store.known()
    found = violations(known, written, told, promised=promised)
    for opening in (1, 2):
        writer = store.open(REAL_DISK)
        number = writer.record(("", 0, transition(Reason.SESSION_OPENED, opening=opening)))
        writer.close()
        if number != len(known) + opening:
            found.append(f"record {number} follows {len(known) + opening - 1} known ones")
    now = store.known()
    if now[: len(known)] != known or len(now) != len(known) + 2:
        found.append(f"{len(known)} records were known, and two more later {len(now)}")
    return found


def _newest(told: Sequence[str], word: str) -> int:
    return max((int(line.split()[1]) for line in told if line.startswith(f"{word} ")), default=0)


def _event(run_id: str, step: int, payload: Payload | TextDelta) -> RuntimeEvent:
    return RuntimeEvent(SESSION_ID, run_id, step, TEXT_DELTA, payload)


def _kind(payload: Payload) -> str:
    return type(payload).__name__


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return f"evt-{uuid.uuid4().hex[:12]}"
