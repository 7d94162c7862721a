"""Checks the integrity of sessions: checksums, numbers, pairing of calls, blobs, links. Changes no byte of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from memory.blobs import BlobStore
from memory.codec import decode_payload, encode_line, encode_payload
from memory.disk import Disk
from memory.events import (
    PAYLOAD_TYPES,
    SCHEMA_VERSION,
    CheckpointPayload,
    JsonObject,
    LifecyclePayload,
    MessagePayload,
    Reason,
    ToolStatus,
    TranscriptEvent,
    TransitionPayload,
)
from memory.layout import MemoryFolder, SessionFiles
from memory.lease import read_owner
from memory.reader import Damage, DamageKind, TranscriptReader

_OUTCOMES = (ToolStatus.COMPLETED, ToolStatus.FAILED)


@dataclass(frozen=True)
class Report:
    """What a check of one session found. `damage` is of its bytes, `problems` of what its records say."""

    files: SessionFiles
    records: int = 0
    damage: tuple[Damage, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Nothing is wrong. Records without a checksum cannot be verified, which is no damage."""
        return not self.problems and all(one.kind == DamageKind.UNVERIFIED for one in self.damage)

    def as_json(self) -> JsonObject:
        return {
            "session_id": self.files.session_id,
            "transcript_path": str(self.files.transcript),
            "sound": self.is_sound,
            "records": self.records,
            "damage": [one.as_json() for one in self.damage],
            "problems": list(self.problems),
        }


def check_session(files: SessionFiles, disk: Disk) -> Report:
    """Check one session. A file that cannot be read is a problem, no exception."""
    owner = read_owner(files)
    reader = TranscriptReader(files.transcript, files.session_id, live=owner is not None and owner.is_alive())
    try:
        reader.scan()
        check = _RecordCheck(files, BlobStore(files.blobs, disk))
        for event in reader.events():
            check.take(event)
    except OSError as error:
        return Report(files, problems=(f"cannot be read: {error.strerror or error}",))
    return Report(files, check.count, tuple(reader.damage), tuple(check.problems()))


@dataclass
class _Life:
    """What was seen of one action."""

    tool_name: str
    statuses: list[str] = field(default_factory=list)


class _RecordCheck:
    """Takes the records in their order and keeps what does not fit together."""

    def __init__(self, files: SessionFiles, blobs: BlobStore) -> None:
        self.count = 0
        self._files = files
        self._blobs = blobs
        self._found: list[str] = []
        self._lives: dict[str, _Life] = {}
        self._calls: set[str] = set()

    def take(self, event: TranscriptEvent) -> None:
        self.count += 1
        for name in _blob_names(event):
            if self._blobs.get(name) is None:
                self._found.append(f"record {event.seq}: blob {name} is missing or altered")
        payload = decode_payload(event)
        match payload:
            case None:
                if event.event_type in PAYLOAD_TYPES and event.schema_version <= SCHEMA_VERSION:
                    self._found.append(f"record {event.seq}: its {event.event_type} payload cannot be understood")
            case MessagePayload(role="assistant"):
                self._calls.update(call.id for call in payload.tool_calls)
            case MessagePayload(role="tool") if payload.tool_call_id not in self._calls:
                self._found.append(f"record {event.seq}: a result of {payload.tool_call_id}, which no message asks for")
            case LifecyclePayload():
                self._lifecycle(event, payload)
            case TransitionPayload(reason=Reason.SESSION_OPENED):
                self._linked(event, payload.details.get("parent_session"), "parent")
            case _:
                pass

    def problems(self) -> list[str]:
        return self._found

    def _lifecycle(self, event: TranscriptEvent, payload: LifecyclePayload) -> None:
        if not payload.action_id:
            return  # an old file: attempts are told apart by their order alone
        life = self._lives.setdefault(payload.action_id, _Life(payload.tool_name))
        if payload.status in _OUTCOMES and any(status in _OUTCOMES for status in life.statuses):
            self._found.append(f"record {event.seq}: a second outcome of {payload.tool_name} {payload.action_id}")
        life.statuses.append(payload.status)
        if payload.status == ToolStatus.STARTED and payload.intent:
            self._linked(event, payload.intent.get("child_session_id"), "child", may_be_missing=True)

    def _linked(self, event: TranscriptEvent, session_id: object, what: str, *, may_be_missing: bool = False) -> None:
        """The other session of a link exists. A child that was never opened is no damage."""
        if not isinstance(session_id, str) or may_be_missing:
            return
        if not MemoryFolder(self._files.folder).session(session_id).transcript.exists():
            self._found.append(f"record {event.seq}: the {what} session {session_id} is missing")


def _blob_names(event: TranscriptEvent) -> Iterator[str]:
    """The blobs that a record names, in whatever field."""
    if b'"blob":"' not in bytes(event.payload):
        return
    pending: list[object] = [msgspec.json.decode(event.payload)]
    while pending:
        value = pending.pop()
        match value:
            case {"blob": str(name), "bytes": int()}:  # a `BlobRef` or an `ImageRef`
                yield name
            case dict():
                pending.extend(value.values())
            case list():
                pending.extend(value)


def write_repaired(files: SessionFiles, disk: Disk) -> int:
    """Write a copy beside the transcript that holds its intact records alone, numbered anew. Returns their number.

    Raises:
        OSError: it cannot be read or written.
    """
    reader = TranscriptReader(files.transcript, files.session_id).scan()
    numbers: dict[int, int] = {}
    lines: list[bytes] = []
    for event in reader.events():
        numbers[event.seq] = seq = len(lines) + 1
        lines.append(encode_line(_renumbered(event, seq, numbers)))
    disk.replace(files.repaired, b"".join(lines))
    return len(lines)


def _renumbered(event: TranscriptEvent, seq: int, numbers: dict[int, int]) -> TranscriptEvent:
    payload = event.payload
    checkpoint = decode_payload(event)
    if isinstance(checkpoint, CheckpointPayload) and checkpoint.retain_start_seq in numbers:
        start = numbers[checkpoint.retain_start_seq]
        payload = msgspec.Raw(encode_payload(msgspec.structs.replace(checkpoint, retain_start_seq=start)))
    return msgspec.structs.replace(event, seq=seq, payload=payload)
