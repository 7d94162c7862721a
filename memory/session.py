"""One open session: its lease, what its transcript told, and everything that writes to its files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from itertools import count, takewhile
from pathlib import Path

from memory.blobs import BlobStore
from memory.disk import Disk
from memory.draft import DraftFile
from memory.layout import SessionFiles
from memory.lease import Lease
from memory.reader import Damage, DamageKind
from memory.recorder import TranscriptRecorder
from memory.resume import ResumeLoader
from memory.session_memory import SessionMemoryManager
from memory.snapshot import CheckpointFacts
from memory.state import ResumeState
from memory.store import Ending, TranscriptStore
from memory.trace import TraceLogger


class RecordedSession:
    """A session under its lease, repaired if that was needed. `state` is None for a new one.

    `damage` lists what the reader found and what the repair set aside; `new_damage` are the findings that no record
    names yet.
    """

    def __init__(
        self,
        files: SessionFiles,
        disk: Disk,
        lease: Lease,
        state: ResumeState | None,
        *,
        clock: Callable[[], datetime],
        new_event_id: Callable[[], str],
    ) -> None:
        self.files = files
        self.state = state
        self.memory = state.memory if state else SessionMemoryManager()
        self.blobs = BlobStore(files.blobs, disk)
        self.draft = DraftFile(files.draft, disk)
        self.trace = TraceLogger(files, disk, clock)
        self._lease = lease
        self.store = TranscriptStore(files, disk, self.blobs, state.ending if state else Ending())
        self.recorder = TranscriptRecorder(
            self.store,
            files.session_id,
            clock=clock,
            new_id=new_event_id,
            on_recorded=self.memory.ingest_event,
        )
        found = _with_repair(state.damage if state else (), self.store.repaired)
        self.damage = (*found, *_cut_short(files, found, state.ending.size if state else 0))

    @classmethod
    def open(
        cls, files: SessionFiles, disk: Disk, *, clock: Callable[[], datetime], new_event_id: Callable[[], str]
    ) -> RecordedSession:
        """Take the lease, load what there is, repair the tail.

        Raises:
            SessionBusy: another process holds the session.
            TranscriptUnavailable: it cannot be written.
            OSError: it cannot be read.
        """
        lease = Lease.acquire(files, disk)
        disk.discard_unfinished(files.transcript.parent, f"transcript-{files.session_id}.")
        disk.discard_unfinished(files.blobs, "")
        try:
            state = None
            if files.transcript.exists():
                state = ResumeLoader(files, BlobStore(files.blobs, disk)).load_session()
            return cls(files, disk, lease, state, clock=clock, new_event_id=new_event_id)
        except BaseException:
            lease.release()
            raise

    @property
    def new_damage(self) -> list[Damage]:
        recorded = self.state.recorded_damage if self.state else frozenset()
        return [
            damage
            for damage in self.damage
            if damage.kind != DamageKind.UNVERIFIED and damage.key not in recorded  # unverified is seen at every read
        ]

    def checkpoint_facts(self) -> CheckpointFacts:
        """What a checkpoint must hold. Everything recorded so far is on disk."""
        return ResumeLoader(self.files, self.blobs).checkpoint_facts()

    def close(self) -> None:
        """Close the files and give the lease back."""
        for close in (self.draft.close, self.trace.close, self.store.close):
            with suppress(OSError):
                close()
        self._lease.release()


def _with_repair(found: tuple[Damage, ...], repaired: Damage | None) -> tuple[Damage, ...]:
    """The findings, with the side file named where torn bytes were set aside."""
    if repaired is None:
        return found
    line = next((damage.line for damage in found if damage.key == repaired.key), 0)
    named = Damage(repaired.kind, line, repaired.offset, repaired.bytes, repaired.kept_in, repaired.text)
    return tuple(named if damage.key == repaired.key else damage for damage in found)


def _cut_short(files: SessionFiles, found: tuple[Damage, ...], size: int) -> tuple[Damage, ...]:
    """What openings set aside that died before they could say so: the side files that no finding names.

    Where each piece was is not known any more; the offsets behind the end only tell them apart.
    """
    named = {damage.kept_in for damage in found}
    sides = takewhile(Path.exists, map(files.torn, count(1)))
    unnamed = [side for side in sides if side.name not in named]
    text = "unfinished record set aside by an opening that was cut short"
    return tuple(
        Damage(DamageKind.TORN, 0, size + index, side.stat().st_size, kept_in=side.name, text=text)
        for index, side in enumerate(unnamed)
    )
