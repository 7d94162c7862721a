"""The place of a line in a file that is too large to be looked through in Python.

`wc` counts lines at several times the speed; what is near the end is then found backwards from there.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from io import FileIO

from tools.limits import CHUNK_BYTES

_POLL_S = 0.05  # how soon an interruption is seen


def start_near_end(file: FileIO, line: int, stop: asyncio.Event) -> int | None:
    """Where a line begins, counted from 1, if it lies in the second half of the file's lines.

    None when it does not, when there is no `wc`, or when `stop` is set. The file is at any position afterwards.
    """
    breaks = _count(file, stop)
    if breaks is None or not breaks // 2 < line <= breaks:
        return None
    end = file.tell()  # how far `wc` has read: what is appended meanwhile does not count
    wanted = breaks - line + 2  # the line begins behind this line break, counted from the end
    while end > 0:
        start = max(0, end - CHUNK_BYTES)
        chunk = os.pread(file.fileno(), end - start, start)
        found = chunk.count(b"\n")
        if found >= wanted:
            position = len(chunk)
            for _ in range(wanted):
                position = chunk.rindex(b"\n", 0, position)
            return start + position + 1
        wanted -= found
        end = start
    return None


def _count(file: FileIO, stop: asyncio.Event) -> int | None:
    """The number of line breaks. The file is read from its start, through the offset that both processes share."""
    file.seek(0)
    try:
        process = subprocess.Popen(["wc", "-l"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    with process:
        while True:
            try:
                out, _ = process.communicate(timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                if stop.is_set():
                    process.kill()
    return int(out) if process.returncode == 0 else None
