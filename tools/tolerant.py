"""Finding a text that does not stand in a file exactly, but for what people do not see or editors change.

Two ways, tried only after the exact one and only when there is one single place: regardless of line ends, trailing
spaces, look-alike quotes and Unicode composition; and as a whole block at another indentation.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

_SINGLE_QUOTES, _DOUBLE_QUOTES = "‘’‚‛′＇", "“”„‟″＂"
_VARIANT = re.compile(
    r"\r\n"  # a line end
    r"|(?<![ \t])[ \t]++(?=\r?\n|\Z)"  # trailing spaces; looked for once in a run, however long it is
    f"|[{_SINGLE_QUOTES}{_DOUBLE_QUOTES}]"
    r"|[^\W\d_][\u0300-\u036f\u3099\u309a]+"  # a letter and its combining marks
    r"|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?"  # a Korean syllable in its parts
    r"|[\u212a\u212b]"  # the signs of kelvin and ångström, which are letters
)
_QUOTES = {**dict.fromkeys(_SINGLE_QUOTES, "'"), **dict.fromkeys(_DOUBLE_QUOTES, '"')}

LOOSELY = "old_string matched but for line ends, trailing spaces, quotes or Unicode composition"


@dataclass(frozen=True)
class Place:
    """Where a text stands, in characters, what to put there (its line breaks are LF), and how it was found."""

    start: int
    end: int
    new: str
    how: str


class SeveralPlaces(Exception):
    """More than one place fits; `starts` says where, in characters."""

    def __init__(self, starts: list[int]) -> None:
        super().__init__(starts)
        self.starts = starts


def tolerant_place(text: str, old: str, new: str) -> Place | None:
    """The only place that fits `old` in one of the two ways; None when there is none.

    Raises:
        SeveralPlaces: there is more than one.
    """
    new = new.replace("\r\n", "\n")
    return _loose_place(text, old, new) or _shifted_place(text, old.replace("\r\n", "\n"), new)


# -- regardless of what is not seen


class _Plain:
    """A text without its variants, and where each of its characters came from."""

    def __init__(self, text: str) -> None:
        parts: list[str] = []
        self._plain_at, self._text_at = [0], [0]
        done = size = 0
        for variant in _VARIANT.finditer(text):
            start, end = variant.span()
            plain = _plain(variant[0])
            size += start - done
            for plain_at, text_at in ((size, start), (size + len(plain), end)):
                self._plain_at.append(plain_at)
                self._text_at.append(text_at)
            parts += [text[done:start], plain]
            done, size = end, size + len(plain)
        self.text = "".join([*parts, text[done:]])

    def start(self, position: int) -> int:
        """Where the text begins whose plain form begins at a position."""
        return self._origin(position, bisect_right(self._plain_at, position) - 1)

    def end(self, position: int) -> int:
        """Where it ends; trailing spaces behind it stay outside."""
        index = bisect_left(self._plain_at, position)
        exact = index < len(self._plain_at) and self._plain_at[index] == position
        return self._origin(position, index if exact else index - 1)

    def _origin(self, position: int, index: int) -> int:
        return self._text_at[index] + position - self._plain_at[index]


def _plain(variant: str) -> str:
    if variant == "\r\n":
        return "\n"
    return "" if variant[0] in " \t" else _QUOTES.get(variant) or unicodedata.normalize("NFC", variant)


def _loose_place(text: str, old: str, new: str) -> Place | None:
    plain, wanted = _Plain(text), _Plain(old).text
    if not wanted.strip():
        return None
    ends_line = old[-1] in " \t"  # spaces that the file does not have: then a line must end there
    found = [
        at for at in _finds(plain.text, wanted) if not ends_line or plain.text[at + len(wanted) :][:1] in ("", "\n")
    ]
    if not found:
        return None
    if len(found) > 1:
        raise SeveralPlaces([plain.start(at) for at in found])
    start, end = plain.start(found[0]), plain.end(found[0] + len(wanted))
    there = text[start:end].replace("\r\n", "\n")
    return Place(start, end, _with_what_stays(there, old.replace("\r\n", "\n"), new), LOOSELY)


def _finds(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _with_what_stays(there: str, old: str, new: str) -> str:
    """The new text; where it repeats the old one, as the file has it: whole lines, and the ends of what is left."""
    theirs, olds, news = there.split("\n"), old.split("\n"), new.split("\n")
    head = _same(olds, news)
    tail = _same(olds[head:][::-1], news[head:][::-1])
    middle = ["\n".join(lines[head : len(lines) - tail]) for lines in (theirs, olds, news)]
    changed = _same_ends(*middle)
    return "\n".join([*theirs[:head], *([changed] if len(news) > head + tail else []), *theirs[len(theirs) - tail :]])


def _same_ends(there: str, old: str, new: str) -> str:
    """`new`, with the characters that it shares with the ends of `old` as they stand there."""
    if len(there) != len(old) or any(_plain(a) != _plain(b) for a, b in zip(there, old, strict=True) if a != b):
        return new
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    return there[:head] + new[head : len(new) - tail] + there[len(there) - tail :]


def _same(one: str | list[str], other: str | list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


# -- as a block at another indentation


def _shifted_place(text: str, old: str, new: str) -> Place | None:
    """Whole lines that all stand deeper, or less deep, by the same white space."""
    lines, olds = text.split("\n"), old.removesuffix("\n").split("\n")
    anchor = next((index for index, line in enumerate(olds) if line.strip()), None)
    if anchor is None:
        return None
    bare = olds[anchor].strip()
    starts = [index - anchor for index, line in enumerate(lines) if line.strip() == bare and index >= anchor]
    fits = [(at, shift) for at in starts if (shift := _shift(lines[at : at + len(olds)], olds))]
    if not fits:
        return None
    if len(fits) > 1:
        raise SeveralPlaces([sum(len(line) + 1 for line in lines[:at]) for at, _ in fits])
    (at, (deeper, space)), count = fits[0], len(olds)
    news = [_shifted(line, deeper, space) for line in new.split("\n")]
    if None in news:
        return None
    start = sum(len(line) + 1 for line in lines[:at])
    end = start + sum(len(line) + 1 for line in lines[at : at + count]) - 1
    if old.endswith("\n") and end < len(text):
        end += 1
    elif lines[at + count - 1].endswith("\r"):
        end -= 1
    how = (
        f"the block stands {_words(space)} {'deeper' if deeper else 'less deep'} in the file than in old_string, "
        "and new_string was shifted likewise"
    )
    return Place(start, end, "\n".join(line or "" for line in news), how)


def _shift(there: list[str], olds: list[str]) -> tuple[bool, str] | None:
    """(whether the file is deeper, by which white space); None when that is not the same for all lines."""
    if len(there) != len(olds):
        return None
    found = set()
    for theirs, ours in zip((line.rstrip() for line in there), (line.rstrip() for line in olds), strict=True):
        if not theirs and not ours:
            continue
        deeper = len(theirs) > len(ours)
        longer, shorter = (theirs, ours) if deeper else (ours, theirs)
        space = longer[: len(longer) - len(shorter)]
        if not longer.endswith(shorter) or space.strip() or not space:
            return None
        found.add((deeper, space))
    return found.pop() if len(found) == 1 else None


def _shifted(line: str, deeper: bool, space: str) -> str | None:
    """A line of new text at the indentation of the file; None for one that stands too far left for that."""
    if not line.strip():
        return line
    if deeper:
        return space + line
    return line.removeprefix(space) if line.startswith(space) else None


def _words(space: str) -> str:
    kind = "tab" if space.strip("\t") == "" else "space" if space.strip(" ") == "" else "white space character"
    return f"{len(space)} {kind}{'s' if len(space) > 1 else ''}"
