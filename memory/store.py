"""The transcript file: one line a record, appended and never rewritten.

The store is in one of three states. *Open*: a record is one `write`. *Full*: a write failed and was cut back; records
wait in memory, in order, until `write_late` finds room. *Stopped*: the file is not what we left, or a sync or a
cut-back failed; only a new process goes on.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from pathlib import Path

import msgspec

from memory.blobs import STRING_BYTES_MAX, BlobStore
from memory.codec import encode_line_into, encode_payload, with_raw_payload
from memory.disk import Disk
from memory.errors import TranscriptUnavailable
from memory.events import NewEvent
from memory.layout import SessionFiles
from memory.reader import Damage, DamageKind, Tail, TranscriptReader

LATE_BYTES_MAX = 64 * 1024 * 1024  # of records that wait for room; one turn without a disk stays far below


class Ending(msgspec.Struct, frozen=True):
    """What a reader found at the end of the file: all that the store needs to go on behind it."""

    size: int = 0
    last_seq: int = 0
    tail: Tail | None = None

    @classmethod
    def of(cls, reader: TranscriptReader) -> Ending:
        """The ending that a reader saw when it came to the end."""
        return cls(reader.size, reader.last_seq, reader.tail)


class Late(msgspec.Struct, frozen=True):
    """What became of records that could not be written at once."""

    written: int
    lost: int  # beyond what is kept in memory


class TranscriptStore:
    """Appends to one transcript. The caller holds the session's lease for the store's whole life.

    Raises:
        TranscriptUnavailable: the file cannot be opened, or its tail not repaired.
    """

    def __init__(self, files: SessionFiles, disk: Disk, blobs: BlobStore, ending: Ending) -> None:
        self._files = files
        self._blobs = blobs
        self._disk = disk
        self._last_seq = ending.last_seq
        self._late: deque[NewEvent] = deque()
        self._late_bytes = 0
        self._lost = 0
        self._line = bytearray()  # of the newest record
        self._stopped: TranscriptUnavailable | None = None
        self.repaired: Damage | None = None  # the torn record that was set aside at this open
        try:
            is_new = not files.transcript.exists()
            disk.private_directory(files.transcript.parent)
            self._fd = disk.open(files.transcript, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            if is_new:
                disk.sync_directory(files.transcript.parent)
            self._size = disk.size(self._fd)
            if self._size != ending.size:
                raise TranscriptUnavailable("The transcript changed while it was opened.", recoverable=False)
            self._repair_trailing_record(ending.tail)
        except OSError as error:
            raise _unavailable(files.transcript, error, recoverable=False) from error

    @property
    def last_seq(self) -> int:
        """The number of the newest record, written or waiting."""
        return self._last_seq

    @property
    def is_writable(self) -> bool:
        """May an effect or a model request start?"""
        return self._stopped is None and not self._late

    def append_event(self, event: NewEvent, *, sync: bool = False) -> NewEvent:
        """Append a record in one write; with `sync`, durable on return. Its `seq` is the next one: `last_seq` + 1.

        Large texts in it become blobs first.

        Raises:
            ValueError: the record has another number.
            TranscriptUnavailable: it is not on disk. A recoverable one is kept in memory and written by `write_late`.
        """
        if self._stopped is not None:
            raise self._stopped
        if event.seq != self._last_seq + 1:
            raise ValueError(f"record {event.seq} cannot follow record {self._last_seq}")
        if self._late:
            self._keep(event)
            raise TranscriptUnavailable("The transcript still cannot be written.", recoverable=True)
        try:
            self._append(event)
        except TranscriptUnavailable as error:
            if error.recoverable:
                self._keep(event)
            raise
        self._last_seq = event.seq
        if sync:
            self.sync()
        return event

    def write_late(self) -> Late:
        """Write the records that waited for room, marked late, and sync; called when the user acts.

        Raises:
            TranscriptUnavailable: there is still no room; what is not written goes on waiting.
        """
        if self._stopped is not None:
            raise self._stopped
        late = Late(len(self._late), self._lost)
        while self._late:
            self._append(msgspec.structs.replace(self._late[0], late=True))
            self._late_bytes -= len(encode_payload(self._late.popleft().payload))
        self._lost = 0
        if late.written:
            self.sync()
        return late

    def sync(self) -> None:
        """Make everything appended so far durable. A failure stops the store: what the disk holds is not known then."""
        try:
            self._disk.fdatasync(self._fd)
            if self._disk.is_removed(self._fd):
                raise OSError(errno.ENOENT, "it was removed by another program")
        except OSError as error:
            raise self._stop(error) from error

    def close(self) -> None:
        self._disk.close(self._fd)
        self._stopped = TranscriptUnavailable("The transcript is closed.", recoverable=False)

    def _append(self, event: NewEvent) -> None:
        self._refuse_changed()
        line = self._line
        encode_line_into(line, event)
        try:
            if len(line) > STRING_BYTES_MAX:
                slim = msgspec.Raw(self._blobs.slimmed(encode_payload(event.payload)))
                encode_line_into(line, msgspec.structs.replace(event, payload=slim))
            written = self._disk.write(self._fd, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._cut_back()
            raise _unavailable(self._files.transcript, error, recoverable=True) from error
        self._size += len(line)

    def _refuse_changed(self) -> None:
        """Stop when the file is not as long as we left it."""
        try:
            is_changed = self._disk.size(self._fd) != self._size
        except OSError as error:
            raise self._stop(error) from error
        if is_changed:
            self._stopped = TranscriptUnavailable(
                f"Another program changed {self._files.transcript}. Nothing more is written to it by this process; "
                "resume the session to go on.",
                recoverable=False,
            )
            raise self._stopped

    def _cut_back(self) -> None:
        try:
            self._disk.truncate(self._fd, self._size)
        except OSError as error:
            raise self._stop(error) from error

    def _keep(self, event: NewEvent) -> None:
        """Let a record wait for room. Past the limit it is lost, and counted: its number stays free."""
        event = with_raw_payload(event)
        size = len(encode_payload(event.payload))
        self._last_seq = event.seq
        if self._late_bytes + size > LATE_BYTES_MAX:
            self._lost += 1
            return
        self._late.append(event)
        self._late_bytes += size

    def _stop(self, error: OSError) -> TranscriptUnavailable:
        self._stopped = _unavailable(self._files.transcript, error, recoverable=False)
        return self._stopped

    def _repair_trailing_record(self, tail: Tail | None) -> None:
        """Once, at open: give a record that lacks only its newline this newline; set everything else aside."""
        if tail is None:
            return
        if tail.holds_record:
            self._disk.write_all(self._fd, b"\n")
            self._size += 1
        else:
            side = self._set_aside(tail.data)
            self._disk.truncate(self._fd, tail.offset)
            self._size = tail.offset
            self.repaired = Damage(
                DamageKind.TORN, 0, tail.offset, len(tail.data), kept_in=side.name, text="unfinished record set aside"
            )
        self._disk.fdatasync(self._fd)

    def _set_aside(self, data: bytes) -> Path:
        number = 1
        while (side := self._files.torn(number)).exists():
            if side.read_bytes() == data:
                return side  # a crash came between this copy and the cut
            number += 1
        self._disk.replace(side, data)  # whole or not there: half a copy would look like another finding
        return side


def _unavailable(path: Path, error: OSError, *, recoverable: bool) -> TranscriptUnavailable:
    reason = error.strerror or str(error)
    advice = "free some space and try again" if recoverable else "resume the session when that is mended"
    return TranscriptUnavailable(
        f"The transcript {path} cannot be written ({reason}), so nothing more is done: {advice}.",
        recoverable=recoverable,
    )
