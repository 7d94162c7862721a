"""Glob patterns over paths with `/`: `*`, `?`, `[...]`, `{a,b}` within a name, `**` over any number of directories.

A pattern without a slash means a name at any depth; `./*.txt` means this directory alone. Wildcards never match the
dot of a hidden name: a pattern has to write it. Ours instead of ripgrep's `--glob`, because that one brings ignored
files back in.
"""

from __future__ import annotations

import re

from tools.base import CallRefused, ErrorCode

_NAME = r"(?!\.)[^/]+"
_DIRECTORIES = r"(?:(?!\.)[^/]+/)*"


def normal_form(pattern: str) -> str:
    """The pattern relative to where the search begins. Raises CallRefused: it leads elsewhere, or is empty."""
    if "\0" in pattern or not pattern:
        raise _invalid(pattern, "it is empty or holds a NUL byte")
    if ".." in pattern.split("/") or pattern.startswith("/"):
        message = f"The pattern {pattern} leads out of where the search begins. Give path, and a pattern below it."
        raise CallRefused(ErrorCode.OUTSIDE_WORKSPACE, message)
    is_here = pattern.startswith("./")
    pattern = re.sub(r"/(?:\.?/)+", "/", pattern.removeprefix("./"))
    pattern += "**" if pattern.endswith("/") or not pattern else ""
    return pattern if "/" in pattern or is_here else f"**/{pattern}"


def names_hidden(pattern: str) -> bool:
    """Whether the pattern writes the dot of a hidden name."""
    return re.search(r"(?:^|[/{,])\.[^/]", pattern) is not None


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A regular expression for whole relative paths. Raises CallRefused (INVALID_ARGUMENTS)."""
    out: list[str] = []
    position, name_begins = 0, True
    braces: list[bool] = []  # of each open brace: whether a name begins where it stands
    while position < len(pattern):
        piece, length = _translate(pattern, position, bool(braces), name_begins)
        out.append(piece)
        position += length
        match piece:
            case "(?:":
                braces.append(name_begins)
            case "|":
                name_begins = braces[-1]
            case ")":
                braces.pop()
                name_begins = False
            case _:
                name_begins = pattern[position - 1] == "/"
    if braces:
        raise _invalid(pattern, "a { is not closed")
    return re.compile("".join(out), re.DOTALL)


def _translate(pattern: str, position: int, in_braces: bool, name_begins: bool) -> tuple[str, int]:
    """The expression for what stands at a position, and how long that is."""
    visible = r"(?!\.)" if name_begins else ""
    rest = pattern[position:]
    if name_begins and rest == "**":
        return _DIRECTORIES + _NAME, 2
    if name_begins and rest.startswith("**/"):
        return _DIRECTORIES, 3
    match rest[0]:
        case "*":
            return visible + "[^/]*", len(rest) - len(rest.lstrip("*"))
        case "?":
            return visible + "[^/]", 1
        case "[":
            piece, length = _character_class(pattern, rest)
            return visible + piece, length
        case "{":
            return "(?:", 1
        case "}" if in_braces:
            return ")", 1
        case "," if in_braces:
            return "|", 1
        case "\\" if len(rest) > 1:
            return re.escape(rest[1]), 2
        case character:
            return re.escape(character), 1


def _character_class(pattern: str, rest: str) -> tuple[str, int]:
    found = re.match(r"\[([!^]?)(\]?[^\]]*)\]", rest, re.DOTALL)
    if found is None:
        raise _invalid(pattern, "a [ is not closed")
    inside = re.sub(r"([\\\[\]&~|^])", r"\\\1", found[2])
    expression = f"(?!/)[{'^' if found[1] else ''}{inside}]"
    try:
        re.compile(expression)
    except re.error as error:
        raise _invalid(pattern, f"[{found[2]}] is no set of characters") from error
    return expression, found.end()


def _invalid(pattern: str, reason: str) -> CallRefused:
    return CallRefused(ErrorCode.INVALID_ARGUMENTS, f"The pattern {pattern!r} is not valid: {reason}.")
