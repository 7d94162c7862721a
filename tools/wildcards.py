"""Wildcards of paths as regular expressions that take a time in proportion to the path, whatever the pattern is.

Python's `re` goes back to every earlier choice when something later does not fit, which for `*a*a*a*b` are more choices
than anybody can wait for. So all but the last `*` of a name, and all but the last `**` of a path, are atomic: they take
the earliest place where what stands behind them fits. That is always a right one, since what stands between two of
them has a fixed length: an earlier place leaves more for the rest.
"""

from __future__ import annotations

import re

_TOKENS = re.compile(r"\\.|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_FREE_STARS_MAX = 2  # in one name: going back over these costs little, and without atomic groups `re` is faster
_VISIBLE = r"(?!\.)"


def tokens(pattern: str) -> list[str]:
    """The pattern cut into escaped characters, character classes, and single characters."""
    return _TOKENS.findall(pattern)


def path_expression(pattern: list[str], *, visible: bool) -> str:
    """The expression for whole paths, of tokens without `{}`. Raises ValueError, in words for the model.

    With `visible`, wildcards do not match the dot that a hidden name begins with.
    """
    runs = _runs(pattern)
    dot = _VISIBLE if visible else ""
    directories = f"(?:{dot}[^/]+/)*"
    first, *others = ["/".join(_name(name, dot) for name in run) for run in runs]
    if not others:
        return first
    *middle, last = others
    between = "".join(f"(?>{directories}?{run}/)" for run in middle if run)
    return (first and f"{first}/") + between + directories + (last or f"{dot}[^/]+")


def _runs(pattern: list[str]) -> list[list[list[str]]]:
    """The names between one `**` and the next."""
    names: list[list[str]] = [[]]
    for token in pattern:
        if token in ("/", "\\/"):
            names.append([])
        else:
            names[-1].append(token)
    runs: list[list[list[str]]] = [[]]
    for name in names:
        if name == ["*", "*"]:
            runs.append([])
        else:
            runs[-1].append(name)
    return runs


def _name(name: list[str], dot: str) -> str:
    """The expression for one name."""
    parts = [""]  # what stands between the stars
    for before, token in zip(["", *name], name, strict=False):
        if token != "*":
            parts[-1] += _character(token)
        elif before != "*":
            parts.append("")
    first, *others = parts
    guard = dot if name and (name[0] in ("*", "?") or name[0].startswith("[")) else ""
    if len(others) <= _FREE_STARS_MAX:
        return guard + "[^/]*".join(parts)
    *middle, last = others
    return f"{guard}{first}{''.join(f'(?>[^/]*?{part})' for part in middle)}[^/]*{last}"


def _character(token: str) -> str:
    """The expression for a token that stands for one character."""
    if token == "?":
        return "[^/]"
    if token.startswith("["):
        return _character_class(token)
    return re.escape(token[-1])


def _character_class(token: str) -> str:
    found = re.fullmatch(r"\[([!^]?)(.+)\]", token, re.DOTALL)
    if found is None:
        raise ValueError("a [ is not closed")
    inside = re.sub(r"([\\\[\]&~|^])", r"\\\1", found[2])
    expression = f"(?!/)[{'^' if found[1] else ''}{inside}]"
    try:
        re.compile(expression)
    except re.error as error:
        raise ValueError(f"[{found[2]}] is no set of characters") from error
    return expression
