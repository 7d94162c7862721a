"""The text of a regular expression in Rust's syntax, cut up far enough to change or judge single elements of it."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\\(?:[pPxuUb]\{[^}]*\}|[pP].|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)|.", re.DOTALL)
_CLASS_BEGINS = re.compile(r"\[\^?\]?")  # a ] in the first place is one of the characters
_OWN_FLAGS = re.compile(r"\(\?[a-zA-Z]*(?:-[a-zA-Z]*u|x)")  # bytes instead of characters, or space that means nothing
_STRAY_BYTE = r"(?-u:[\x80-\xFF])"
_ASCII_LEFT_OUT = re.compile(
    r"\[\^\]?(?:[^\\\[\]\x80-\U0010ffff]|\[:[a-z]+:\]|\\(?:[sdnrtfva]|x[0-7][0-9A-Fa-f]|[^\w\x80-\U0010ffff]))*\]",
    re.ASCII,
)
_RETURN = re.compile(r"\r|\\(?:r|x0[dD]|[xuU]\{0*[dD]\}|u000[dD]|U0000000[dD])")
_SET_OF_SETS = re.compile(r"\[|&&|--|~~|\|\|")  # Python keeps these for sets, and warns of them
_LINE_ENDS = {"$": r"(?:(?=\r)|(?<!\r)(?=\n)|\Z)", "^": r"(?:^|(?<=\r)(?!\n))"}


def tokens(pattern: str) -> list[str]:
    """Escapes, whole character classes, and single characters. Raises ValueError: a class is not closed."""
    found, at = [], 0
    while at < len(pattern):
        end = _class_end(pattern, at) if pattern[at] == "[" else _end(_TOKEN, pattern, at)
        found.append(pattern[at:end])
        at = end
    return found


def with_stray_bytes(pattern: str) -> str:
    """A pattern whose repeated "anything but" also runs over bytes that are no UTF-8.

    To ripgrep such a byte is no character, so that `.` and the like end there: `f\\(.*\\)` would miss `f("déjà vu")` in
    a file in another encoding. In UTF-8 the same is found as before: whatever stands around a repeated element begins
    and ends with whole characters, so between them the single bytes too make up whole characters, which the element
    takes anyway. For one element alone that would not hold, and `\\W+` would run over letters: both stay.
    (Two cases differ: `\\S+` and `\\D+` run over wide spaces and digits too, and of two elements in a row each may take
    a part of one character.)
    """
    try:
        found = [] if _OWN_FLAGS.search(pattern) else tokens(pattern)
    except ValueError:
        found = []  # ripgrep will say what is wrong
    if not found:
        return pattern
    pairs = zip(found, [*found[1:], ""], strict=True)
    return "".join(
        f"(?:{token}|{_STRAY_BYTE})" if after in ("*", "+") and _takes_all_beyond_ascii(token) else token
        for token, after in pairs
    )


def asks_for_returns(pattern: str) -> bool:
    """Whether the pattern itself looks for carriage returns, which then are no part of a line's end."""
    try:
        found = tokens(pattern)
    except ValueError:
        return False
    return any(_RETURN.search(token) for token in found if not token.startswith("[^"))


def for_python(pattern: str, *, line_ends: bool) -> str:
    """The pattern for Python's `re`. With `line_ends`, its `^` and `$` know those with a carriage return, as in Rust.

    Raises re.error: it cannot be read as in Rust.
    """
    try:
        found = tokens(pattern)
    except ValueError as error:
        raise re.error(str(error)) from error
    if any(token.startswith("[") and _SET_OF_SETS.search(_inside(token)) for token in found):
        raise re.error("classes within classes ([[:alpha:]], &&, --, ~~) need ripgrep, which is not installed")
    return "".join(_LINE_ENDS.get(token, token) for token in found) if line_ends else pattern


def _takes_all_beyond_ascii(token: str) -> bool:
    return token in (".", "\\S", "\\D") or _ASCII_LEFT_OUT.fullmatch(token) is not None


def _inside(token: str) -> str:
    """A class without its brackets and its escapes."""
    return re.sub(r"\\.", "", token[1:-1], flags=re.DOTALL)


def _class_end(pattern: str, at: int) -> int:
    depth = 0
    while at < len(pattern):
        character = pattern[at]
        depth += (character == "[") - (character == "]")
        at = _end(_CLASS_BEGINS, pattern, at) if character == "[" else _end(_TOKEN, pattern, at)
        if depth == 0:
            return at
    raise ValueError("a [ is not closed")


def _end(expression: re.Pattern[str], pattern: str, at: int) -> int:
    found = expression.match(pattern, at)
    assert found is not None  # both fit any character that they are asked about
    return found.end()
