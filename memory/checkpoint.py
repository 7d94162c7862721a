"""Where a history was compacted: the active checkpoint, whose summary stands for the messages before it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompactCheckpoint:
    """A compaction. Messages whose record comes before `retain_start_seq` are replaced by `summary` in the view."""

    checkpoint_id: str
    summary: str
    retain_start_seq: int
    messages_compacted: int


class CompactStore:
    """Holds the checkpoint in force, if any."""

    def __init__(self) -> None:
        self._active: CompactCheckpoint | None = None

    @property
    def active(self) -> CompactCheckpoint | None:
        return self._active

    def set_active(self, checkpoint: CompactCheckpoint | None) -> None:
        self._active = checkpoint
