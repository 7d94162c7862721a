"""Reads a transcript from its first to its last byte: every intact record, and what is wrong with the rest.

Repairs nothing. Checksum and sequence of every line are checked at every read, so that findings never depend on what
was looked at; payloads stay raw.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from memory.codec import (
    RECORD_START,
    Undecodable,
    decode_event,
    is_sealed,
    looks_sealed,
)
from memory.events import JsonObject, TranscriptEvent
from memory.foreign import decode_foreign

RECORD_BYTES_MAX = 1 << 20  # contract.md: a record stays below 1 MiB
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
        """The object of contract.md, "Damage"."""
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


class TranscriptReader:
    """Iterate once over the records of a file; afterwards ask for `damage`, `last_seq`, `tail` and `size`.

    `live`: another process is writing the file, so an unfinished last line is no finding.

    Raises:
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path, session_id: str, *, live: bool = False) -> None:
        self._path = path
        self._session_id = session_id
        self._live = live
        self.damage: list[Damage] = []
        self.last_seq = 0
        self.size = 0
        self.tail: Tail | None = None
        self.is_foreign = False  # at least one record without a checksum was accepted
        self._verified = False  # a record with a checksum was seen
        self._records = 0
        self._hole_before = False  # a bad line stands right before: it explains a gap
        self._foreign_ids: set[str] = set()
        self._seen_ids: set[str] | None = None  # built only when a sequence number comes again

    def __iter__(self) -> Iterator[TranscriptEvent]:
        number = 0
        with self._path.open("rb") as file:
            for raw in file:
                number += 1
                offset, self.size = self.size, self.size + len(raw)
                if raw.endswith(b"\n"):
                    yield from self._line(raw[:-1], number, offset)
                else:
                    yield from self._unfinished(raw, number, offset)
        if self.is_foreign:
            self.damage.append(
                Damage(DamageKind.UNVERIFIED, 1, 0, self.size, text="records without a checksum were taken as they are")
            )

    # -- one line

    def _line(self, line: bytes, number: int, offset: int) -> Iterator[TranscriptEvent]:
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
        if self._seen_ids is not None:
            self._seen_ids.add(event.event_id)
        self._hole_before = False
        self.last_seq = max(self.last_seq, event.seq)
        yield event

    def _accept_foreign(self, event: TranscriptEvent, number: int, offset: int, size: int) -> Iterator[TranscriptEvent]:
        self.is_foreign = True
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
        if self._seen_ids is None:
            self._seen_ids = set(_record_ids(self._path, offset))
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


def _record_ids(path: Path, end: int) -> Iterator[str]:
    with path.open("rb") as file:
        at = 0
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
