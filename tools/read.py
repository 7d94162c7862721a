"""Read: numbered lines of a text file, and the hash that later edits of it rely on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from pydantic import Field

from tools.base import Action, CallRefused, ErrorCode, Image, Keep, Plan, Tool, ToolParams, ToolResult
from tools.content import Content, not_text
from tools.encoding import UTF_8, UTF_8_MARKED, UTF_8_STRAY, Encoding, remembered_name
from tools.file_kind import image_type, is_pdf, kind_of
from tools.file_scan import FileScan
from tools.limits import CHANGE_BYTES_MAX, DECODED_BYTES_MAX, IMAGE_BYTES_MAX, READ_LINES_MAX
from tools.line_count import start_near_end
from tools.line_window import LineWindow
from tools.notebook import NOTE, notebook_text
from tools.path_text import QUOTING_RULE
from tools.pdf import COMMAND, PdfUnreadable, pdf_text
from tools.read_cache import ReadCache
from tools.regular_file import chunks, state_of
from tools.workspace import Workspace


class ReadParams(ToolParams):
    file_path: str = Field(description="File to read, relative to the workspace.")
    offset: int = Field(1, ge=1, description="First line, counted from 1.")
    limit: int = Field(READ_LINES_MAX, ge=1, description="How many lines at most.")


@dataclass(frozen=True, kw_only=True)
class ReadPlan(Plan):
    """The lines to show of one file."""

    path: Path
    first: int
    count: int


class Read(Tool[ReadParams, ReadPlan]):
    """`keep_image` keeps what the model is to see and returns its name, or None when it must not be kept.

    Without it the model cannot see images, and they are described only.
    """

    name = "Read"
    description = (
        "Read a text file, a notebook, a PDF or, when you can see images, an image. Lines come with their numbers "
        "and a tab in front, which are not part of the file. At most 2,000 lines, 50 KB and 2,000 characters a line; "
        "what is left out is said, and offset and limit reach it. A file must be read before it can be edited. "
        + QUOTING_RULE
    )
    replay_safe = True
    params = ReadParams

    def __init__(
        self,
        workspace: Workspace,
        read_cache: ReadCache,
        keep_image: Keep | None = None,
        pdf_command: Sequence[str] = COMMAND,
    ) -> None:
        self._workspace = workspace
        self._read_cache = read_cache
        self._keep_image = keep_image
        self._pdf_command = pdf_command

    async def plan(self, params: ReadParams) -> ReadPlan:
        path = self._workspace.resolve(params.file_path)
        return ReadPlan(self._workspace.display(path), path=path, first=params.offset, count=params.limit)

    async def act(self, plan: ReadPlan, action: Action) -> ToolResult:
        result = await asyncio.to_thread(self._look, plan, action.stop)
        for state in result.file_states:
            self._read_cache.remember(state)
        return result

    def _look(self, plan: ReadPlan, stop: asyncio.Event) -> ToolResult:
        """One pass over the whole file, whatever part is shown: a later edit needs the hash of all of it.

        As if it were UTF-8; when that shows something else, again and as a whole.
        """
        with self._workspace.open(plan.path) as (file, looked_at):
            head = file.read(_HEAD_BYTES) or b""
            if plan.path.suffix.lower() == ".pdf" and is_pdf(head):
                return self._pdf(plan, file, head, looked_at.st_size, stop)
            if plan.path.suffix == ".ipynb" and looked_at.st_size <= DECODED_BYTES_MAX:
                return self._look_as_a_whole(plan, looked_at)
            line = self._begin(file, looked_at, plan.first, stop)
            scan = FileScan(looked_at, plan.first, plan.count, line)
            for chunk in chunks(file, plan.subject):
                scan.feed(chunk)
                if stop.is_set():
                    raise CallRefused(ErrorCode.INTERRUPTED, f"Reading {plan.subject} was interrupted.")
                if not scan.goes_on:
                    break
            scan.close()
        is_large = max(scan.size, looked_at.st_size) > DECODED_BYTES_MAX
        if scan.has_nul and is_large:
            raise not_text(plan.subject, scan.head, looked_at.st_size)
        if scan.has_nul or not (scan.is_utf_8 or is_large):
            if is_pdf(scan.head):
                with self._workspace.open(plan.path) as (file, looked_at):
                    return self._pdf(plan, file, scan.head, looked_at.st_size, stop)
            if (media_type := image_type(scan.head)) is not None:
                return self._image(plan, media_type, scan.head, looked_at.st_size)
            return self._look_as_a_whole(plan, looked_at)
        if not is_large and not scan.has_line_feed and b"\r" in scan.head.rstrip(b"\r"):
            return self._look_as_a_whole(plan, looked_at)  # lines that end in a lone CR
        text = "\n".join([scan.window.render(), *([] if scan.is_utf_8 else [_STRAY])])
        state = scan.state(plan.path)
        return ToolResult(text, file_states=() if state is None else (state,))

    def _begin(self, file: FileIO, looked_at: os.stat_result, first: int, stop: asyncio.Event) -> int:
        """Go to where reading begins, which for a file too large to be edited may be late in it. Its line number."""
        start = start_near_end(file, first, stop) if looked_at.st_size > CHANGE_BYTES_MAX and first > 1 else None
        file.seek(start or 0)
        return first if start else 1

    def _image(self, plan: ReadPlan, media_type: str, head: bytes, size: int) -> ToolResult:
        """Raises CallRefused where it can only be described."""
        if self._keep_image is None:
            raise not_text(plan.subject, head, size, _UNSEEN)
        if size > IMAGE_BYTES_MAX:
            raise not_text(plan.subject, head, size, _TOO_LARGE)
        data = self._workspace.read(plan.path, IMAGE_BYTES_MAX)
        blob = self._keep_image(data)
        if blob is None:
            raise not_text(plan.subject, head, size, _NOT_KEPT)
        text = f"{plan.subject} is {kind_of(data)}, {len(data):,} bytes. It is shown below."
        return ToolResult(text, images=(Image(plan.subject, media_type, blob, len(data)),))

    def _pdf(self, plan: ReadPlan, file: FileIO, head: bytes, size: int, stop: asyncio.Event) -> ToolResult:
        try:
            return ToolResult(pdf_text(file, plan.first, plan.count, stop, command=self._pdf_command))
        except PdfUnreadable as error:
            raise not_text(plan.subject, head, size, str(error)) from error

    def _look_as_a_whole(self, plan: ReadPlan, looked_at: os.stat_result) -> ToolResult:
        content = Content((self._workspace.read(plan.path, DECODED_BYTES_MAX),), plan.subject)
        content = self._read_cache.in_its_encoding(plan.path, content)
        notebook = notebook_text(content.data) if plan.path.suffix == ".ipynb" else None
        text, note = (
            (content.readable, _encoding_note(content.encoding))
            if notebook is None
            else (notebook.encode("utf-8", "replace"), NOTE)
        )
        window = LineWindow(plan.first, plan.count)
        window.feed(text)
        window.close()
        encoding = "" if notebook is not None else remembered_name(content.encoding)
        state = state_of(plan.path, content.sha256, len(content.data), looked_at, encoding)
        return ToolResult("\n".join(filter(None, [window.render(), note])), file_states=(state,))


_HEAD_BYTES = 1024
_UNSEEN = "This model is not known to see images; the user can let it with MYCODEAGENT_IMAGES=yes."
_TOO_LARGE = f"An image above {IMAGE_BYTES_MAX:,} bytes cannot be shown: make a smaller copy with a command (Bash)."
_NOT_KEPT = "It cannot be shown, since it cannot be kept: it holds the API key, or there is no room."
_STRAY = "(Some bytes are not UTF-8 and are shown as \ufffd; an Edit leaves them as they are.)"


def _encoding_note(encoding: Encoding) -> str:
    if encoding in (UTF_8, UTF_8_MARKED):
        return ""
    if encoding is UTF_8_STRAY:
        return _STRAY
    if encoding.ascii_only:
        return "(The encoding is not certain; shown as if it were Windows-1252. An Edit may touch ASCII text only.)"
    return f"(The encoding is {encoding.name}; an Edit or Write keeps it.)"
