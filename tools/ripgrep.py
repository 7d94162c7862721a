"""Running ripgrep: found beside our Python or on PATH, without a shell or settings of its own, and always stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import TypeVar

from tools.limits import SEARCH_BYTES_MAX, SEARCH_SECONDS_MAX
from tools.regex_text import asks_for_returns, with_stray_bytes
from tools.search import Consume, Form, Lines, Query, SearchEnd

T = TypeVar("T")

_CHUNK_BYTES = 64 * 1024
_COMPLAINT_BYTES_MAX = 1_000
_COMPLAINT_LINES_MAX = 20
_ALWAYS = ("--no-config", "--color=never", "--no-require-git")  # .gitignore counts outside of repositories too
_ENVIRONMENT = ("PATH", "HOME", "XDG_CONFIG_HOME", "LANG", "LC_ALL")  # what finds git's own ignore file; no keys
_LABELS = {  # by Python's codec: the names of https://encoding.spec.whatwg.org
    "gbk": "gbk",
    "gb18030": "gb18030",
    "latin-1": "windows-1252",
    "utf-16-le": "utf-16le",
    "utf-16-be": "utf-16be",
    "gb2312": "gbk",
    "big5": "big5",
    "shift_jis": "shift_jis",
    "cp932": "shift_jis",
    "euc_jp": "euc-jp",
    "euc_kr": "euc-kr",
    "koi8-r": "koi8-r",
    "mac_roman": "macintosh",
    **{f"cp{number}": f"windows-{number}" for number in range(1250, 1259)},
    **{f"iso8859-{part}": f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "iso8859-1": "windows-1252",
    "iso8859-9": "windows-1254",
}
_UNREADABLE = re.compile(r"\(os error \d+\)$")


class Complaints:
    """What ripgrep says on stderr: places that it cannot read are counted, the rest is kept (bounded)."""

    def __init__(self) -> None:
        self.unreadable = 0
        self.others: list[str] = []

    def take(self, line: bytes) -> None:
        text = line[:_COMPLAINT_BYTES_MAX].decode("utf-8", "replace")
        if _UNREADABLE.search(text):
            self.unreadable += 1
        elif len(self.others) < _COMPLAINT_LINES_MAX:
            self.others.append(text)


def find_ripgrep() -> str | None:
    """The program's path; None when there is none."""
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("rg")


async def ripgrep(
    query: Query,
    where: Path,
    consume: Consume,
    stop: asyncio.Event,
    *,
    seconds_max: float = SEARCH_SECONDS_MAX,
    bytes_max: int = SEARCH_BYTES_MAX,
) -> SearchEnd:
    """Run ripgrep in a directory and hand its output on, chunk by chunk, within bounds of time and bytes.

    It is ended when the bounds are reached, when `stop` is set, or when this call is cancelled.
    """
    process = await _start(query, where)
    if process is None:
        return SearchEnd(2, (), 1, "")
    complaints = Complaints()
    work = asyncio.ensure_future(_pump(process, consume, complaints, bytes_max))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({work, stopped}, timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            cut = work.result()
        else:
            cut = "The search was interrupted" if stop.is_set() else f"Stopped after {seconds_max:g} seconds"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await _cancelled(work)
        await _cancelled(stopped)
        await process.communicate()  # `wait` alone never returns while a full pipe is not read to its end
    return SearchEnd(process.returncode or 0, tuple(complaints.others), complaints.unreadable, cut)


async def _start(query: Query, where: Path) -> Process | None:
    """The program, at work in the directory; None when that may not be entered, or is gone."""
    try:
        return await asyncio.create_subprocess_exec(
            find_ripgrep() or "rg",
            *_ALWAYS,
            *_arguments(query),
            cwd=where,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
    except OSError as error:
        if error.filename is not None and Path(error.filename) == where:
            return None
        raise


def _arguments(query: Query) -> list[str]:
    arguments = ["--hidden"] if query.hidden else []
    arguments += ["--no-ignore"] if query.ignored else []
    if query.form is Form.NAMES:
        return [*arguments, "--files", "--null", "--sortr=modified"]
    arguments += ["--ignore-case"] if query.ignore_case else []
    arguments += [] if asks_for_returns(query.pattern) else ["--crlf"]
    arguments += ["--multiline", "--multiline-dotall"] if query.multiline else []
    if query.file_glob is not None:  # as a file type and not by --glob, which would bring ignored files back in
        arguments += ["--type-add", f"wanted:{query.file_glob}", "--type", "wanted"]
    arguments += [f"--encoding={_LABELS[query.codec]}"] if query.codec in _LABELS else []
    match query.form:
        case Form.FILES:
            arguments += ["--files-with-matches", "--null"]
        case Form.COUNTS:
            arguments += ["--count-matches", "--with-filename", "--null"]
        case Form.LINES:
            arguments += ["--json", f"--before-context={query.before}", f"--after-context={query.after}"]
    pattern = with_stray_bytes(query.pattern) if query.codec is None else query.pattern
    return [*arguments, "-e", pattern, "--", "./" if query.name == "." else f"./{query.name}"]


async def _pump(process: Process, consume: Consume, complaints: Complaints, bytes_max: int) -> str:
    """Read both outputs to their end. Returns why it ended early, or nothing."""
    assert process.stdout is not None and process.stderr is not None  # both are pipes
    listening = asyncio.ensure_future(_listen(process.stderr, complaints))
    try:
        size = 0
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > bytes_max:
                return f"Stopped after {bytes_max:,} bytes of matches"
            await asyncio.to_thread(consume, chunk)
        await listening
        await process.wait()
        return ""
    finally:
        await _cancelled(listening)


async def _listen(stderr: asyncio.StreamReader, complaints: Complaints) -> None:
    lines = Lines(b"\n", complaints.take)
    while chunk := await stderr.read(_CHUNK_BYTES):
        lines.feed(chunk)


async def _cancelled(future: asyncio.Future[T]) -> None:
    """Cancel, and wait until that has happened."""
    future.cancel()
    await asyncio.wait([future])
