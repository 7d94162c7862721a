"""Glob patterns over paths with `/`: `*`, `?`, `[...]`, `{a,b}` within a name, `**` over any number of directories.

A pattern without a slash means a name at any depth; `./*.txt` means this directory alone. Wildcards never match the
dot of a hidden name: a pattern has to write it. Ours instead of ripgrep's `--glob`, because that one brings ignored
files back in.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.base import CallRefused, ErrorCode
from tools.wildcards import path_expression, tokens

_ALTERNATIVES_MAX = 500


def normal_form(pattern: str, where: Path) -> str:
    """The pattern relative to where the search begins. Raises CallRefused: it leads elsewhere, or is empty."""
    if "\0" in pattern or not pattern:
        raise _invalid(pattern, "it is empty or holds a NUL byte")
    start = f"{where}/".replace("//", "/")
    if pattern.startswith(start):
        pattern = f"./{pattern.removeprefix(start)}"
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
    try:
        expressions = [path_expression(one, visible=True) for one in _without_braces(pattern)]
    except ValueError as error:
        raise _invalid(pattern, str(error)) from error
    return re.compile("|".join(expressions), re.DOTALL)


def _without_braces(pattern: str) -> list[list[str]]:
    """The tokens of every pattern that the one with `{a,b}` stands for. Raises ValueError, in words for the model."""
    open_: list[tuple[list[list[str]], list[list[str]]]] = []  # what stands before a brace, its alternatives so far
    ways: list[list[str]] = [[]]
    for token in tokens(pattern):
        if token == "{":
            open_.append((ways, []))
            ways = [[]]
        elif token == "," and open_:
            open_[-1][1].extend(ways)
            ways = [[]]
        elif token == "}" and open_:
            before, alternatives = open_.pop()
            alternatives += ways
            if len(before) * len(alternatives) > _ALTERNATIVES_MAX:
                raise ValueError(f"its braces stand for more than {_ALTERNATIVES_MAX} patterns")
            ways = [one + other for one in before for other in alternatives]
        else:
            for way in ways:
                way.append(token)
    if open_:
        raise ValueError("a { is not closed")
    return ways


def _invalid(pattern: str, reason: str) -> CallRefused:
    return CallRefused(ErrorCode.INVALID_ARGUMENTS, f"The pattern {pattern!r} is not valid: {reason}.")
