"""Rebuilds a session from its transcript: a pure fold over its records (design.md section 5).

The same bytes give the same state, every time: no clock, no network, no look at the world beyond the session's own
files. What became of the uncertain actions is for `agent.recovery` to find out.
"""

from __future__ import annotations

from memory.blobs import BlobStore
from memory.fold import SessionFold
from memory.layout import SessionFiles
from memory.reader import TranscriptReader
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
        reader = TranscriptReader(self._files.transcript, self._files.session_id, live=live)
        fold = SessionFold(self._blobs)
        for event in reader:
            fold.ingest(event)
        return fold.state(self._files, reader)
