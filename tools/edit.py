"""Edit: replace a text that occurs exactly once; all bytes outside of it stay what they are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pydantic import Field

from tools.base import CallRefused, ErrorCode, ToolParams
from tools.closest import closest_place
from tools.content import WAY_FORWARD, Content, Splice, of_text
from tools.file_change import FileChange, FileChangeTool, refuse_directory_name
from tools.limits import TOLERANT_BYTES_MAX
from tools.text_file import line_number, occurrences, with_line_ends
from tools.tolerant import SeveralPlaces, tolerant_place

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
        "line ends the file has, and new text gets those of its neighbourhood; the file's encoding is kept. "
        "An empty old_string creates the file."
    )
    params = EditParams

    def look(self, params: EditParams) -> FileChange:
        if params.old_string == params.new_string:
            message = "old_string and new_string are the same: there is nothing to change."
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)
        path = self._workspace.resolve(params.file_path)
        refuse_directory_name(params.file_path)
        if not params.old_string:
            return self._creation(path, params.new_string)
        content = self.readable_content(path)
        try:
            found = _find(content, params)
        finally:  # hashed meanwhile; what is found, or not, in a content that the model does not know says nothing
            self.refuse_unknown(path, content)
        content.require_expressible(found.new)
        change = _replaced(content.body, found)
        if change.is_empty:
            message = "Only the line ends would differ, and Edit keeps those of the file. Convert them with a command."
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)
        count = f"{len(found.places)} replacement" + ("s" if len(found.places) > 1 else "")
        how = f"; {found.how}" if found.how else ""
        return self.change(path, content, content.spliced(change), f"Edited {content.shown} ({count}{how}).", change)

    def _creation(self, path: Path, text: str) -> FileChange:
        shown, now = self._workspace.display(path), self._workspace.state(path)
        if now is not None and now.size:
            message = f"{shown} exists and is not empty. Give the old_string to replace, or use Write."
            raise CallRefused(ErrorCode.REFUSED, message)
        before = None if now is None else Content((b"",), shown)
        return self.change(path, before, of_text(text, shown), f"Created {shown}.")


@dataclass(frozen=True)
class _Found:
    """What is replaced, in bytes of the body, and by what; `how` tells of a match that is not exact."""

    places: list[tuple[int, int]]
    new: str
    how: str = ""


def _find(content: Content, params: EditParams) -> _Found:
    """Raises CallRefused: NO_MATCH, NOT_UNIQUE, or REFUSED where the encoding is not sure enough for a match."""
    body = content.body
    if content.encoding.ascii_only:
        content.require_expressible(params.old_string)
    exact = occurrences(body, params.old_string, overlapping=not params.replace_all)
    places = list(exact if params.replace_all else islice(exact, _COUNTED_MAX))
    if len(places) > 1 and not params.replace_all:
        raise _not_unique(body, [start for start, _ in places], content.shown)
    found = _Found(places, params.new_string) if places else _find_tolerantly(content, params)
    if content.encoding.ascii_only and any(start and body[start - 1] > 0x7F for start, _ in found.places):
        raise CallRefused(
            ErrorCode.REFUSED,
            f"{content.shown} was not changed: its encoding is not certain, and old_string begins right behind a byte "
            f"that is not ASCII, perhaps within a character. Begin it elsewhere. {WAY_FORWARD}",
        )
    return found


def _find_tolerantly(content: Content, params: EditParams) -> _Found:
    codec, errors = ("latin-1", "strict") if content.encoding.ascii_only else ("utf-8", "surrogateescape")
    text = content.body.decode(codec, errors)
    place = None
    if len(content.body) <= TOLERANT_BYTES_MAX:
        try:
            place = tolerant_place(text, params.old_string, params.new_string)
        except SeveralPlaces as error:
            starts = [len(text[:start].encode(codec, errors)) for start in error.starts[: _LINE_NUMBERS_NAMED_MAX + 1]]
            raise _several_alike(content, starts, len(error.starts)) from error
    if place is None:
        raise _no_match(text, params.old_string, content.shown)
    start = len(text[: place.start].encode(codec, errors))
    end = start + len(text[place.start : place.end].encode(codec, errors))
    return _Found([(start, end)], place.new, place.how)


def _replaced(body: bytes, found: _Found) -> Splice:
    """All replacements as one change, from the first to the last of them."""
    view = memoryview(body)  # its slices are no copies
    parts: list[bytes | memoryview] = []
    first = done = found.places[0][0]
    for start, end in found.places:
        new = with_line_ends(found.new, body, start, end) if "\n" in found.new else found.new.encode()
        parts += [view[done:start], new]
        done = end
    return Splice(body, first, done, b"".join(parts))


def _several_alike(content: Content, starts: list[int], count: int) -> CallRefused:
    return CallRefused(
        ErrorCode.NOT_UNIQUE,
        f"old_string does not occur in {content.shown} as it stands, but {count} places are like it except for white "
        f"space, quotes or the like (line {_line_numbers(content.body, starts)}). Nothing was changed. "
        "Copy the text of one exactly.",
    )


def _line_numbers(body: bytes, starts: list[int]) -> str:
    lines = sorted({line_number(body, start) for start in starts[:_LINE_NUMBERS_NAMED_MAX]})
    return ", ".join(map(str, lines)) + (", …" if len(starts) > _LINE_NUMBERS_NAMED_MAX else "")


def _not_unique(body: bytes, starts: list[int], shown: str) -> CallRefused:
    count = f"at least {_COUNTED_MAX}" if len(starts) >= _COUNTED_MAX else str(len(starts))
    return CallRefused(
        ErrorCode.NOT_UNIQUE,
        f"old_string occurs {count} times in {shown} (line {_line_numbers(body, starts)}). Nothing was changed. "
        "Give more of the text around the place, or set replace_all.",
    )


def _no_match(text: str, old: str, shown: str) -> CallRefused:
    hint = closest_place(*(one.replace("\r\n", "\n").replace("\r", "\n") for one in (text, old)))
    message = f"old_string does not occur in {shown}. Nothing was changed. "
    return CallRefused(ErrorCode.NO_MATCH, message + (hint or "Read the file again and copy the text exactly."))
