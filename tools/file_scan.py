"""One pass over a file in constant memory: its lines, its hash, and whether it is UTF-8."""

from __future__ import annotations

import codecs
import hashlib
import os
from pathlib import Path

from tools.base import FileState
from tools.limits import CHANGE_BYTES_MAX
from tools.line_window import LineWindow
from tools.regular_file import state_of


class FileScan:
    """Feed it the whole content in chunks, as long as `goes_on`.

    A file that is too large to be edited needs no hash, and is looked at for being text in its first chunk only: then
    counting its lines is all that is left to do, and that only from `line` on, where the chunks begin.
    """

    def __init__(self, looked_at: os.stat_result, first: int, count: int, line: int = 1) -> None:
        self.window = LineWindow(first, count, line)
        self.head = b""
        self.size = 0
        self.has_nul = False
        self.is_utf_8 = True
        self.has_line_feed = False
        self._looked_at = looked_at
        self._is_editable = looked_at.st_size <= CHANGE_BYTES_MAX
        self._content = hashlib.sha256()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._between_characters = True

    @property
    def goes_on(self) -> bool:
        """False as soon as it can be no UTF-8 text: what holds a NUL byte is looked at otherwise."""
        return not self.has_nul

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.head = self.head or chunk
        if self._is_editable or not self.size:
            self.has_nul = b"\0" in chunk
            self._check(chunk)
        if self._is_editable:
            self._content.update(chunk)
        self.has_line_feed = self.has_line_feed or b"\n" in chunk
        self.window.feed(chunk)
        self.size += len(chunk)

    def close(self) -> None:
        """The content ends here."""
        if self._is_editable:
            self._check(b"", final=True)
        self.window.close()

    def state(self, path: Path) -> FileState | None:
        """What an edit relies on; None for a file that is too large for one."""
        if not self._is_editable:
            return None
        return state_of(path, self._content.hexdigest(), self.size, self._looked_at)

    def _check(self, chunk: bytes, *, final: bool = False) -> None:
        if not self.is_utf_8 or (self._between_characters and chunk.isascii()):
            return  # ASCII is told ten times as fast as it is decoded
        try:
            self._decoder.decode(chunk, final)
        except UnicodeDecodeError:
            self.is_utf_8 = False
        self._between_characters = not self._decoder.getstate()[0]
