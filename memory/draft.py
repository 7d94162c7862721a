"""The part of a streaming answer that is on the screen already, kept until its record is written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from memory.disk import Disk


@dataclass(frozen=True)
class Draft:
    """What came of an answer that has no record."""

    run_id: str
    step: int
    text: str


class _Piece(msgspec.Struct, frozen=True):
    run_id: str
    step: int
    text: str


class DraftFile:
    """Append-only pieces, not synced: they survive the process, which is what a `kill -9` takes."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._fd: int | None = None
        self._is_empty = False
        self._is_torn = False  # a piece was written in part

    def append(self, run_id: str, step: int, text: str) -> None:
        """Raises OSError when there is no room."""
        if self._fd is None:
            self._fd = self._disk.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        line = msgspec.json.encode(_Piece(run_id, step, text)) + b"\n"
        self._is_empty = False
        try:
            self._disk.write_all(self._fd, b"\n" + line if self._is_torn else line)
        except OSError:
            self._is_torn = True
            raise
        self._is_torn = False

    def clear(self) -> None:
        """Empty it: its text has a record now, or is given up."""
        if self._is_empty or (self._fd is None and not self._path.exists()):
            return
        if self._fd is None:
            self._fd = self._disk.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._disk.truncate(self._fd, 0)
        self._is_empty = True

    def close(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def read_draft(path: Path) -> Draft | None:
    """The newest answer in a draft file; a torn last piece is left out. None when there is nothing."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return None
    pieces: list[_Piece] = []
    for line in lines:
        try:
            pieces.append(msgspec.json.decode(line, type=_Piece))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    if not pieces:
        return None
    last = pieces[-1]
    mine = [piece.text for piece in pieces if (piece.run_id, piece.step) == (last.run_id, last.step)]
    return Draft(last.run_id, last.step, "".join(mine))
