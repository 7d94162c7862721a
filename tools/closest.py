"""The place in a text that is most like one that was looked for in vain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches, unified_diff
from itertools import islice

_LINES_COMPARED_MAX = 5_000  # comparing by likeness costs about 50 µs a line: of a longer file those that share a word
_WORDS_MAX = 3  # the longest of the line that is looked for
_WORD = re.compile(r"\w{3,}")
_LINES_SHOWN_MAX = 30
_LINE_CHARACTERS_MAX = 300
_HUNK = re.compile(r"^(@@ -\S+ \+)(\d+)")


def closest_place(text: str, wanted: str) -> str:
    """Say where, and how it differs, as a small diff; empty when nothing is like it."""
    lines, wanted_lines = text.split("\n"), wanted.split("\n")
    anchor = max(range(len(wanted_lines)), key=lambda index: len(wanted_lines[index].strip()))
    found = _line_like(wanted_lines[anchor], lines)
    if found is None:
        return ""
    start = max(0, found - anchor)
    there = lines[start : start + len(wanted_lines)]
    if [line.split() for line in there] == [line.split() for line in wanted_lines]:
        kind = " (it differs in white space only)"
    else:
        kind = ""
    diff = unified_diff(_short(wanted_lines), _short(there), "old_string", "the file", n=1, lineterm="")
    return f"The closest place begins at line {start + 1}{kind}:\n" + "\n".join(
        islice(_numbered(diff, start), _LINES_SHOWN_MAX)
    )


def _numbered(diff: Iterable[str], start: int) -> Iterator[str]:
    """The lines of a diff whose right side begins at another line of its file."""
    for line in diff:
        yield _HUNK.sub(lambda found: f"{found[1]}{int(found[2]) + start}", line)


def _line_like(wanted: str, lines: list[str]) -> int | None:
    """The index of the line that is equal but for its margins, or else most alike."""
    target = wanted.strip()
    if not target:
        return None
    stripped = [line.strip() for line in lines]
    if target in stripped:
        return stripped.index(target)
    words = sorted(set(_WORD.findall(target)), key=len)[-_WORDS_MAX:]
    alike = (index for index, line in enumerate(stripped) if not words or any(word in line for word in words))
    places = list(islice(alike, _LINES_COMPARED_MAX)) or list(range(min(len(stripped), _LINES_COMPARED_MAX)))
    short = [stripped[index][:_LINE_CHARACTERS_MAX] for index in places]
    close = get_close_matches(target[:_LINE_CHARACTERS_MAX], short, n=1)
    return places[short.index(close[0])] if close else None


def _short(lines: list[str]) -> list[str]:
    return [line[:_LINE_CHARACTERS_MAX] for line in lines]
