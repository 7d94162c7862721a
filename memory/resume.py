"""Rebuilds a session from its transcript: a pure fold over its records.

The same bytes give the same state, every time: no clock, no network, no look at the world beyond the session's own
files. What became of the uncertain actions is for `agent.recovery` to find out.
"""

from __future__ import annotations

from memory.blobs import BlobStore
from memory.codec import decode_payload
from memory.events import CheckpointPayload, TranscriptEvent
from memory.fold import SessionFold
from memory.layout import SessionFiles
from memory.reader import TranscriptReader
from memory.snapshot import CheckpointFacts, FoldSnapshot, snapshot_in
from memory.state import Host, MissingResult, ResumeState, RunFacts, RuntimeFacts, UncertainAction

__all__ = [
    "Host",
    "MissingResult",
    "ResumeLoader",
    "ResumeState",
    "RunFacts",
    "RuntimeFacts",
    "UncertainAction",
]


class ResumeLoader:
    """Loads one session. Needs no lease and repairs nothing.

    Raises:
        OSError: the transcript cannot be read.
    """

    def __init__(self, files: SessionFiles, blobs: BlobStore) -> None:
        self._files = files
        self._blobs = blobs

    def load_session(self, *, live: bool = False) -> ResumeState:
        """`live`: another process owns it, so an unfinished last line is no finding."""
        reader = TranscriptReader(self._files.transcript, self._files.session_id, live=live).scan()
        return self._fold(reader).state(self._files, reader)

    def checkpoint_facts(self) -> CheckpointFacts:
        """What a checkpoint that is about to be written must hold. The caller owns the session."""
        reader = TranscriptReader(self._files.transcript, self._files.session_id).scan()
        return self._fold(reader).checkpoint_facts()

    def _fold(self, reader: TranscriptReader) -> SessionFold:
        """Fold from the newest checkpoint that can be used, else from the beginning."""
        for event in reversed(reader.checkpoints):
            payload = decode_payload(event)
            snapshot = snapshot_in(payload, self._blobs) if isinstance(payload, CheckpointPayload) else None
            if isinstance(payload, CheckpointPayload) and snapshot is not None:
                return self._fold_from(event, payload, snapshot, reader)
        fold = SessionFold(self._blobs)
        for event in reader.events():
            fold.ingest(event)
        return fold

    def _fold_from(
        self, checkpoint: TranscriptEvent, payload: CheckpointPayload, snapshot: FoldSnapshot, reader: TranscriptReader
    ) -> SessionFold:
        fold = SessionFold(self._blobs)
        for event in reader.events(reader.mark_before(payload.retain_start_seq)):
            if event.event_id == checkpoint.event_id:
                fold.restore(snapshot, event, payload)
            elif event.seq >= payload.retain_start_seq:
                fold.ingest(event)
        return fold
