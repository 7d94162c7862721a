"""Edit: replace a text that occurs exactly once; all bytes outside of it stay what they are."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from pydantic import Field

from tools.base import CallRefused, ErrorCode, ToolParams
from tools.closest import closest_place
from tools.file_change import FileChange, FileChangeTool
from tools.text_file import BOM, occurrences, with_line_ends

_COUNTED_MAX = 1_000  # beyond, "more than" says as much
_LINE_NUMBERS_NAMED_MAX = 10


class EditParams(ToolParams):
    file_path: str = Field(description="File to change, relative to the workspace.")
    old_string: str = Field(description="Text to replace, exactly as in the file; empty to create a new file.")
    new_string: str = Field(description="Text to put in its place.")
    replace_all: bool = Field(False, description="Replace every occurrence instead of the only one.")


class Edit(FileChangeTool[EditParams]):
    name = "Edit"
    description = (
        "Replace a text in a file. The file must have been read. old_string must occur exactly once (else give more of "
        "the text around it, or replace_all) and without the line numbers that Read shows. Line breaks match whatever "
        "line ends the file has, and new text gets those of its neighbourhood. An empty old_string creates the file."
    )
    params = EditParams

    def look(self, params: EditParams) -> FileChange:
        if params.old_string == params.new_string:
            message = "old_string and new_string are the same: there is nothing to change."
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)
        path = self._workspace.resolve(params.file_path)
        if not params.old_string:
            return self._creation(path, params.new_string)
        content, shown = self.known_content(path), self._workspace.display(path)
        mark = BOM if content.startswith(BOM) else b""
        body = content.removeprefix(mark)
        places = _places(body, params, shown)
        count = f"{len(places)} replacement" + ("s" if len(places) > 1 else "")
        after = mark + _replaced(body, places, params.new_string)
        if after == content:
            message = "Only the line ends would differ, and Edit keeps those of the file. Convert them with a command."
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)
        return self.change(path, content, after, f"Edited {shown} ({count}).")

    def _creation(self, path: Path, text: str) -> FileChange:
        shown, now = self._workspace.display(path), self._workspace.state(path)
        if now is not None and now.size:
            message = f"{shown} exists and is not empty. Give the old_string to replace, or use Write."
            raise CallRefused(ErrorCode.REFUSED, message)
        return self.change(path, None if now is None else b"", text.encode(), f"Created {shown}.")


def _places(body: bytes, params: EditParams, shown: str) -> list[tuple[int, int]]:
    """Where the replacement happens. Raises CallRefused: NO_MATCH, NOT_UNIQUE."""
    found = occurrences(body, params.old_string, overlapping=not params.replace_all)
    places = list(found if params.replace_all else islice(found, _COUNTED_MAX))
    if not places:
        raise _no_match(body, params.old_string, shown)
    if len(places) > 1 and not params.replace_all:
        raise _not_unique(body, [start for start, _ in places], shown)
    return places


def _replaced(body: bytes, places: list[tuple[int, int]], text: str) -> bytes:
    literal = "\n" not in text or "\r" in text
    parts, done = [], 0
    for start, end in places:
        new = text.encode() if literal else with_line_ends(text, body, start, end)
        parts += [body[done:start], new]
        done = end
    return b"".join([*parts, body[done:]])


def _not_unique(body: bytes, starts: list[int], shown: str) -> CallRefused:
    lines = sorted({body.count(b"\n", 0, start) + 1 for start in starts[:_LINE_NUMBERS_NAMED_MAX]})
    more = ", …" if len(starts) > _LINE_NUMBERS_NAMED_MAX else ""
    count = f"at least {_COUNTED_MAX}" if len(starts) >= _COUNTED_MAX else str(len(starts))
    return CallRefused(
        ErrorCode.NOT_UNIQUE,
        f"old_string occurs {count} times in {shown} (line {', '.join(map(str, lines))}{more}). Nothing was changed. "
        "Give more of the text around the place, or set replace_all.",
    )


def _no_match(body: bytes, old: str, shown: str) -> CallRefused:
    hint = closest_place(body.decode().replace("\r\n", "\n"), old.replace("\r\n", "\n"))
    message = f"old_string does not occur in {shown}. Nothing was changed. "
    return CallRefused(ErrorCode.NO_MATCH, message + (hint or "Read the file again and copy the text exactly."))
