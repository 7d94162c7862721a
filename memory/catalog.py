"""Sessions on disk: listed from the head and the tail of each file, found by id, prefix or name.

One bad file never hides another session: whatever a file is, it is listed as that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memory.codec import Undecodable, decode_event, decode_payload, is_sealed
from memory.disk import open_regular
from memory.events import MessagePayload, Reason, TerminalPayload, TranscriptEvent, TransitionPayload
from memory.foreign import decode_foreign
from memory.layout import SUBAGENT_PREFIX, MemoryFolder, SessionFiles
from memory.lease import read_owner
from memory.reader import sealed_spans

HEAD_BYTES = 16 * 1024  # holds the opening, the first run's start and the first prompt
TAIL_BYTES = 16 * 1024
PROMPT_CHARACTERS_MAX = 80


@dataclass(frozen=True)
class SessionSummary:
    """One session as a list shows it. `problem` says what is wrong with its file, '' when it can be read."""

    files: SessionFiles
    last_timestamp: str
    workspace: str = ""
    name: str = ""
    first_prompt: str = ""
    ended: str = ""  # reason of the newest terminal record in the tail
    live_pid: int | None = None
    bytes: int = 0
    problem: str = ""

    @property
    def session_id(self) -> str:
        return self.files.session_id

    @property
    def is_subagent(self) -> bool:
        return self.session_id.startswith(SUBAGENT_PREFIX)


def list_sessions(folders: Sequence[MemoryFolder]) -> list[SessionSummary]:
    """Every session below the folders, the one with the latest last record first."""
    found = [summarize(folder.session(session_id)) for folder in folders for session_id in folder.transcripts()]
    return sorted(found, key=lambda one: (one.last_timestamp, one.session_id), reverse=True)


def find_sessions(sessions: Sequence[SessionSummary], word: str) -> list[SessionSummary]:
    """The sessions that a word means: an id, else a name, else a prefix of ids. Several: the word is ambiguous."""
    if not word:
        return []
    by_id = [one for one in sessions if one.session_id == word]
    by_name = [one for one in sessions if one.name == word]
    return by_id or by_name or [one for one in sessions if one.session_id.startswith(word)]


def summarize(files: SessionFiles) -> SessionSummary:
    """What the head and the tail of a transcript tell."""
    owner = read_owner(files)
    live_pid = owner.pid if owner and owner.is_alive() else None
    try:
        head, tail, size, changed = _ends(files.transcript)
    except OSError as error:
        return SessionSummary(files, "", live_pid=live_pid, problem=f"cannot be read: {error.strerror or error}")
    first, last = _events(head), _events(tail)
    if not first and not last:
        problem = "empty" if size == 0 else "no record of ours in it"
        return SessionSummary(files, changed, live_pid=live_pid, bytes=size, problem=problem)
    payloads = [decode_payload(event) for event in (*first, *last)]
    opened = [p.details for p in payloads if isinstance(p, TransitionPayload) and p.reason == Reason.SESSION_OPENED]
    prompts = [p for p in payloads if isinstance(p, MessagePayload) and p.role == "user"]
    ends = [p.reason for p in payloads if isinstance(p, TerminalPayload)]
    stamps = [event.timestamp for event in (*first, *last) if event.timestamp]
    content = prompts[0].content if prompts else ""
    return SessionSummary(
        files,
        last_timestamp=stamps[-1] if stamps else changed,
        workspace=str(opened[-1].get("workspace", "")) if opened else "",
        name=_name(payloads),
        first_prompt=" ".join(content.split())[:PROMPT_CHARACTERS_MAX] if isinstance(content, str) else "",
        ended=ends[-1] if ends else "",
        live_pid=live_pid,
        bytes=size,
    )


def _name(payloads: Sequence[object]) -> str:
    """The newest name: every opening and closing of a session repeats it, so that head or tail has it."""
    named = (Reason.SESSION_OPENED, Reason.SESSION_NAMED, Reason.SESSION_CLOSED)
    found = [p.details for p in payloads if isinstance(p, TransitionPayload) and p.reason in named]
    return next((str(details["name"]) for details in reversed(found) if details.get("name")), "")


def _ends(path: Path) -> tuple[bytes, bytes, int, str]:
    """Head and tail bytes, size, and the time of the last change as a timestamp."""
    from datetime import UTC, datetime

    fd = open_regular(path)
    try:
        info = os.fstat(fd)
        head = os.pread(fd, HEAD_BYTES, 0)
        start = max(len(head), info.st_size - TAIL_BYTES)
        tail = os.pread(fd, TAIL_BYTES, start)
    finally:
        os.close(fd)
    return head, tail, info.st_size, datetime.fromtimestamp(info.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _events(data: bytes) -> list[TranscriptEvent]:
    found = []
    for ordinal, line in enumerate(data.split(b"\n"), 1):
        try:
            found.append(decode_event(line) if is_sealed(line) else decode_foreign(line, ordinal))
        except Undecodable:
            found.extend(_inside(line))
    return found


def _inside(line: bytes) -> Iterator[TranscriptEvent]:
    """The intact records in a damaged line."""
    for span in sealed_spans(line):
        with suppress(Undecodable):
            yield decode_event(span)
