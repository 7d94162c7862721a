"""What can go wrong with a session's files.

MemoryFault
├── SessionBusy             another process owns the session
└── TranscriptUnavailable   a record could not be written: no effect may start
"""

from __future__ import annotations


class MemoryFault(Exception):
    """One sentence for the user."""


class SessionBusy(MemoryFault):
    """Another live process owns the session."""

    def __init__(self, session_id: str, owner_pid: int | None) -> None:
        owner = f"process {owner_pid}" if owner_pid else "another process"
        super().__init__(f"Session {session_id} is in use by {owner}.")
        self.session_id = session_id
        self.owner_pid = owner_pid


class TranscriptUnavailable(MemoryFault):
    """The transcript cannot be written. `recoverable`: it is tried again when the user acts."""

    def __init__(self, message: str, *, recoverable: bool) -> None:
        super().__init__(message)
        self.recoverable = recoverable
