"""Reads a transcript from its first to its last byte: every intact record, and what is wrong with the rest.

Repairs nothing. Checksum and sequence of every line are checked at every read, so that findings never depend on what
was looked at; payloads stay raw.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from zlib import crc32

import msgspec

from memory.codec import (
    RECORD_START,
    Undecodable,
    decode_event,
    is_sealed,
    looks_sealed,
)
from memory.disk import open_regular
from memory.events import EventType, JsonObject, TranscriptEvent
from memory.foreign import decode_foreign

RECORD_BYTES_MAX = 1 << 20  # a record stays below 1 MiB
BUFFER_BYTES = 256 * 1024  # a larger one than usual makes a scan a fifth faster
MARK_EVERY_LINES = 512  # reading from a mark passes over half of that in the mean
CHECKPOINTS_KEPT = 3  # the newest that can be used counts; an older one stands in for it
_CHECKPOINT = EventType.CHECKPOINT.value.encode()
_SEAL = re.compile(rb',"crc":"[0-9a-f]{8}"\}')


class DamageKind(StrEnum):
    TORN = "torn"
    CORRUPT = "corrupt"
    GAP = "gap"
    DUPLICATE = "duplicate"
    UNVERIFIED = "unverified"
    BLOB_MISSING = "blob_missing"


class Damage(msgspec.Struct, frozen=True):
    """One finding. `line` counts from 1, `offset` and `bytes` are in bytes; `kept_in` names the side file, if any."""

    kind: str
    line: int
    offset: int
    bytes: int
    kept_in: str | None = None
    text: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """What makes two findings the same one."""
        return (self.kind, self.offset)

    def as_json(self) -> JsonObject:
        """The finding as JSON output and records have it."""
        found: JsonObject = msgspec.to_builtins(self)
        return found

    @property
    def costs_facts(self) -> bool:
        """May something be missing from the history because of it?"""
        return self.kind in (DamageKind.TORN, DamageKind.CORRUPT, DamageKind.GAP, DamageKind.BLOB_MISSING)


class Tail(msgspec.Struct, frozen=True):
    """The bytes after the last newline. `holds_record`: an intact record is among them, so they must not be cut off."""

    offset: int
    data: bytes
    holds_record: bool


class Mark(msgspec.Struct, frozen=True):
    """A place before an undamaged line, from which reading can go on."""

    offset: int = 0
    lines: int = 0  # before it
    last_seq: int = 0


class TranscriptReader:
    """`scan` looks at every line once; then `events` yields records, from the beginning or from a mark.

    After `scan`: `damage`, `last_seq`, `tail`, `size`, and the newest `checkpoints`. `live`: another process is writing
    the file, so an unfinished last line is no finding.

    Raises:
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path, session_id: str, *, live: bool = False) -> None:
        self._path = path
        self._session_id = session_id
        self._live = live
        self._usual = _usual_line(session_id)
        self.damage: list[Damage] = []
        self.last_seq = 0
        self.size = 0
        self.tail: Tail | None = None
        self.checkpoints: deque[TranscriptEvent] = deque(maxlen=CHECKPOINTS_KEPT)
        self._marks: list[Mark] = []
        self._is_foreign = False  # at least one record without a checksum was accepted
        self._verified = False  # a record with a checksum was seen
        self._records = 0
        self._lines = 0
        self._hole_before = False  # a bad line stands right before: it explains a gap
        self._foreign_ids: set[str] = set()
        self._seen_ids: set[str] = set()  # of unusual records; of all before `_ids_until` when a number came again
        self._ids_until = 0

    def scan(self) -> TranscriptReader:
        """Check every line. Decodes nothing but what is unusual, and checkpoints."""
        self.checkpoints.extend(self._walk(Mark(), decode_all=False))
        if self._is_foreign:
            text = "records without a checksum were taken as they are"
            self.damage.append(Damage(DamageKind.UNVERIFIED, 1, 0, self.size, text=text))
        return self

    def events(self, start: Mark | None = None) -> Iterator[TranscriptEvent]:
        """The records from a mark on, or all of them. Findings are those of `scan`."""
        if self._is_regular:
            return self._checked(start or Mark())
        again = TranscriptReader(self._path, self._session_id, live=self._live)
        again._verified = start is not None
        return again._walk(start or Mark(), decode_all=True)

    @property
    def _is_regular(self) -> bool:
        """Was every line a usual one?"""
        return not self.damage and self._lines == self._records

    def _checked(self, start: Mark) -> Iterator[TranscriptEvent]:
        """The records of a file in which `scan` found every line as it should be."""
        left = self._lines - start.lines
        with os.fdopen(open_regular(self._path), "rb", BUFFER_BYTES) as file:
            file.seek(start.offset)
            offset = start.offset
            for number, raw in enumerate(islice(file, left), start.lines + 1):
                event = self._decoded(raw)
                if event is not None:
                    yield event
                else:  # sealed, and yet no record: nobody writes that, but it must not pass in silence
                    text = "a sealed line that is no record"
                    self.damage.append(Damage(DamageKind.CORRUPT, number, offset, len(raw), text=text))
                offset += len(raw)

    def mark_before(self, seq: int) -> Mark | None:
        """The last mark at or before a record; None when only the beginning is."""
        index = bisect_right(self._marks, seq, key=lambda mark: mark.last_seq + 1)
        return self._marks[index - 1] if index else None

    # -- line by line

    def _walk(self, start: Mark, *, decode_all: bool) -> Iterator[TranscriptEvent]:
        usual, number, offset = self._usual.fullmatch, start.lines, start.offset
        self.last_seq = start.last_seq
        with os.fdopen(open_regular(self._path), "rb", BUFFER_BYTES) as file:
            file.seek(offset)
            for raw in file:
                number += 1
                found = usual(raw)
                if found is not None and int(found[2]) == self.last_seq + 1 and _is_sealed_line(raw):
                    events = self._usual_record(raw, found[1], number, offset, decode=decode_all)
                elif raw.endswith(b"\n"):
                    events = self._unusual(raw[:-1], number, offset)
                else:
                    events = self._unfinished(raw, number, offset)
                offset += len(raw)
                for event in events:
                    if decode_all or event.event_type == EventType.CHECKPOINT:
                        yield event
                if not raw.endswith(b"\n"):
                    break  # what a live writer adds meanwhile is the rest of this line, and no other line
        self.size, self._lines = offset, number

    def _usual_record(
        self, raw: bytes, kind: bytes, number: int, offset: int, *, decode: bool
    ) -> Iterable[TranscriptEvent]:
        """An undamaged line that follows the one before: nearly all of them."""
        if decode or kind == _CHECKPOINT:
            event = self._decoded(raw[:-1])
            if event is None:
                return self._bad(raw[:-1], number, offset)
            events: tuple[TranscriptEvent, ...] = (event,)
        else:
            events = ()
        if number % MARK_EVERY_LINES == 1:
            self._marks.append(Mark(offset, number - 1, self.last_seq))
        self._verified = True
        self._hole_before = False
        self._records += 1
        self.last_seq += 1
        return events

    def _unusual(self, line: bytes, number: int, offset: int) -> Iterator[TranscriptEvent]:
        if line.startswith(RECORD_START) and is_sealed(line):
            event = self._decoded(line)
            if event is not None:
                yield from self._accept(event, number, offset, len(line) + 1)
                return
        elif not self._verified and not looks_sealed(line):
            if not line.strip():
                return
            event = self._foreign(line)
            if event is not None:
                yield from self._accept_foreign(event, number, offset, len(line) + 1)
                return
        yield from self._bad(line, number, offset)

    def _decoded(self, line: bytes) -> TranscriptEvent | None:
        try:
            event = decode_event(line)
        except Undecodable:
            return None
        return event if event.session_id == self._session_id else None

    def _foreign(self, line: bytes) -> TranscriptEvent | None:
        try:
            return decode_foreign(line, self._records + 1)
        except Undecodable:
            return None

    def _accept(self, event: TranscriptEvent, number: int, offset: int, size: int) -> Iterator[TranscriptEvent]:
        self._verified = True
        self._records += 1
        if event.seq <= self.last_seq:
            again = self._seen_before(event.event_id, offset)
            what = f"record {event.seq} again" if again else f"sequence number {event.seq} again, with another record"
            self.damage.append(Damage(DamageKind.DUPLICATE, number, offset, size, text=what))
            if again:
                return
        elif event.seq > self.last_seq + 1 and not self._hole_before:
            first, last = self.last_seq + 1, event.seq - 1
            what = f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
            self.damage.append(Damage(DamageKind.GAP, number, offset, 0, text=what))
        self._seen_ids.add(event.event_id)
        self._hole_before = False
        self.last_seq = max(self.last_seq, event.seq)
        yield event

    def _accept_foreign(self, event: TranscriptEvent, number: int, offset: int, size: int) -> Iterator[TranscriptEvent]:
        self._is_foreign = True
        self._records += 1
        if event.event_id in self._foreign_ids:
            self.damage.append(Damage(DamageKind.DUPLICATE, number, offset, size, text="a record again"))
            return
        self._foreign_ids.add(event.event_id)
        self.last_seq = max(self.last_seq, event.seq)
        yield event

    def _bad(self, line: bytes, number: int, offset: int) -> Iterator[TranscriptEvent]:
        """A line that is no record: what is intact inside it is used, the rest is reported."""
        found = [event for event in map(self._decoded, sealed_spans(line)) if event and event.seq > self.last_seq]
        inside = f", {len(found)} intact record(s) in it used" if found else ""
        self.damage.append(
            Damage(DamageKind.CORRUPT, number, offset, len(line) + 1, text=f"damaged line left where it is{inside}")
        )
        self._hole_before = True
        for event in found:
            yield from self._accept(event, number, offset, 0)
        self._hole_before = True  # the bad part may stand behind the intact one

    def _unfinished(self, data: bytes, number: int, offset: int) -> Iterator[TranscriptEvent]:
        """The bytes after the last newline: a record that lacks only its newline, or what a crash left of one."""
        spans = list(sealed_spans(data))
        events = [event for event in map(self._decoded, spans) if event and event.seq > self.last_seq]
        whole = bool(events) and len(spans) == 1 and spans[0] == data
        if not events and not self._verified:
            foreign = self._foreign(data)
            if foreign is not None:
                self.tail = Tail(offset, data, holds_record=True)
                yield from self._accept_foreign(foreign, number, offset, len(data))
                return
        self.tail = Tail(offset, data, holds_record=bool(events))
        if events and not whole:
            self.damage.append(
                Damage(
                    DamageKind.CORRUPT, number, offset, len(data), text="unfinished line with an intact record in it"
                )
            )
        elif not events and not self._live:
            self.damage.append(Damage(DamageKind.TORN, number, offset, len(data), text="unfinished record"))
        for event in events:
            yield from self._accept(event, number, offset, 0)

    def _seen_before(self, event_id: str, offset: int) -> bool:
        if event_id not in self._seen_ids and offset > self._ids_until:
            self._seen_ids.update(_record_ids(self._path, self._ids_until, offset))
            self._ids_until = offset
        return event_id in self._seen_ids


def sealed_spans(line: bytes) -> Iterator[bytes]:
    """The stretches of a line that are whole sealed records, whatever stands around them.

    Inside a record every quote is escaped, so a start can only be a real one, and the first seal behind it is its own.
    """
    start = line.find(RECORD_START)
    while start >= 0:
        following = line.find(RECORD_START, start + 1)
        limit = start + RECORD_BYTES_MAX if following < 0 else min(following, start + RECORD_BYTES_MAX)
        for seal in _SEAL.finditer(line, start, limit):
            span = line[start : seal.end()]
            if is_sealed(span):
                yield span
                break
        start = following


def _usual_line(session_id: str) -> re.Pattern[bytes]:
    """A line as this program writes it: event type and sequence number. Its checksum is still to be compared."""
    text = rb'"[^"\\]*"'
    before = (
        rb'\{"event_id":%b,"timestamp":%b,"session_id":"%b","run_id":%b,"step":-?\d+,"event_type":"(\w+)","payload":'
    )
    after = rb',"schema_version":\d+,"seq":(\d+)(?:,"late":true)?,"crc":"[0-9a-f]{8}"\}\n'
    head = before % (text, text, re.escape(session_id.encode()), text)
    return re.compile(head + rb".*" + after, re.DOTALL)


def _is_sealed_line(raw: bytes) -> bool:
    return raw[-11:-3] == b"%08x" % crc32(memoryview(raw)[:-19])


def _record_ids(path: Path, start: int, end: int) -> Iterator[str]:
    """The ids of the records in the lines between two places."""
    with os.fdopen(open_regular(path), "rb", BUFFER_BYTES) as file:
        file.seek(start)
        at = start
        for raw in file:
            if at >= end:
                return
            at += len(raw)
            for span in sealed_spans(raw):
                try:
                    yield decode_event(span).event_id
                except Undecodable:
                    continue


def describe(damage: Damage) -> str:
    """One finding in one line for people: what, where, and where the bytes are."""
    kept = f", kept in {damage.kept_in}" if damage.kept_in else ""
    where = f"line {damage.line}, byte {damage.offset:,}"
    size = f", {damage.bytes:,} bytes" if damage.bytes else ""
    return f"{damage.kind}: {damage.text or damage.kind} ({where}{size}{kept})"
