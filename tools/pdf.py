"""PDF as text: its pages in order, read by `pdf_pages` as far as they are wanted."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from tools import pdf_pages
from tools.base import CallRefused, ErrorCode
from tools.line_window import LineWindow
from tools.search import Lines

COMMAND = (sys.executable, "-I", str(Path(pdf_pages.__file__)))
SECONDS_MAX = 30.0

_WAIT_S = 0.1  # between two looks at whether the user has interrupted
_NO_TEXT = "(No text on this page: perhaps it is a picture of one.)"
_NOT_INSTALLED = (
    "Its text can be read when the package pypdf is installed beside MyCodeAgent (the extra mycodeagent[pdf]); or "
    "convert it with a command (Bash), such as pdftotext."
)


class PdfUnreadable(Exception):
    """No text can be had of it; the message says why, and what to do."""


def pdf_text(
    file: FileIO,
    first: int,
    count: int,
    stop: asyncio.Event,
    *,
    command: Sequence[str] = COMMAND,
    seconds_max: float = SECONDS_MAX,
) -> str:
    """The lines from `first` on (from 1, at most `count`) of an open PDF's text, with notes of what is missing.

    Raises:
        PdfUnreadable: there is no text to be had.
        CallRefused: INTERRUPTED.
    """
    window, pages, done, cut = LineWindow(first, count), 0, 0, ""
    for fact in _facts(file, stop, command, seconds_max):
        match fact:
            case {"pages": int(pages)}:
                pass
            case {"text": str(text)}:
                done += 1
                text = text.encode("utf-8", "replace").decode().strip("\n") or _NO_TEXT
                window.feed(f"--- page {done} of {pages}\n{text}\n".encode())
                if window.is_full:
                    break
            case {"error": str(why)}:
                cut = why
    if not done:
        raise PdfUnreadable(f"Its text cannot be read: {cut or 'it has no pages'}.")
    window.close(at_end=done == pages)
    notes = [window.render()]
    if cut:
        notes.append(f"(After page {done} of {pages} nothing more can be read: {cut}.)")
    elif done < pages:
        notes.append(f"(These are lines of the pages 1 to {done}; {pages - done} more pages follow.)")
    return "\n".join([*notes, "(A PDF, shown as text: figures and layout are missing.)"])


def _facts(
    file: FileIO, stop: asyncio.Event, command: Sequence[str], seconds_max: float
) -> Iterator[dict[str, object]]:
    """What the program says, until it or the time comes to an end; it is gone afterwards."""
    file.seek(0)
    process = subprocess.Popen(
        command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, start_new_session=True
    )
    assert process.stdout is not None  # a pipe
    deadline = time.monotonic() + seconds_max
    records: list[bytes] = []
    lines = Lines(b"\n", records.append)
    try:
        while chunk := _next_chunk(process.stdout.fileno(), stop, deadline):
            lines.feed(chunk)
            yield from map(json.loads, records)
            records.clear()
        code = process.wait()
        if code == pdf_pages.NOT_INSTALLED:
            raise PdfUnreadable(_NOT_INSTALLED)
        if code not in (0, pdf_pages.UNREADABLE):
            yield {"error": "it takes more memory or time than it may"}
    except TimeoutError:
        yield {"error": f"reading was stopped after {seconds_max:g} seconds"}
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _next_chunk(fd: int, stop: asyncio.Event, deadline: float) -> bytes:
    """Empty at the end. Raises CallRefused (INTERRUPTED) or TimeoutError."""
    while not select.select([fd], [], [], _WAIT_S)[0]:
        if stop.is_set():
            raise CallRefused(ErrorCode.INTERRUPTED, "Reading the PDF was interrupted. It only reads.")
        if time.monotonic() > deadline:
            raise TimeoutError
    return os.read(fd, 64 * 1024)
