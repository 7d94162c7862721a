"""Rules of .gitignore, .ignore and .rgignore files: which entries of a tree a search leaves out.

By https://git-scm.com/docs/gitignore; as in ripgrep they count outside of repositories too, those of the directories
above as well, and an entry is judged by itself: who searches within an ignored directory has asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.wildcards import path_expression, tokens

_FILES = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")  # the first that has something to say decides
_RULE_BYTES_MAX = 1024 * 1024  # a longer file is no list of rules


@dataclass(frozen=True)
class _Rule:
    fits: re.Pattern[str]  # paths relative to the directory of the file
    brings_back: bool
    directories_only: bool


class IgnoreRules:
    """The rules that hold in one directory: its own and, weaker, those of the directory above."""

    def __init__(self, directory: Path, above: IgnoreRules | None) -> None:
        self._above = above
        self._prefix_length = len(str(directory).rstrip("/")) + 1
        self._lists = [rules for name in _FILES if (rules := list(_rules(directory / name)))]

    @classmethod
    def of(cls, directory: Path) -> IgnoreRules:
        """With the rules of all directories above."""
        rules: IgnoreRules | None = None
        for path in [*reversed(directory.parents), directory]:
            rules = cls(path, rules)
        assert rules is not None
        return rules

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """Whether an entry, given by its whole path, is left out. The last rule of the nearest list decides."""
        relative = path[self._prefix_length :]
        for rules in self._lists:
            for rule in reversed(rules):
                if (is_directory or not rule.directories_only) and rule.fits.fullmatch(relative):
                    return not rule.brings_back
        return self._above is not None and self._above.ignores(path, is_directory=is_directory)


def _rules(path: Path) -> Iterator[_Rule]:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(_RULE_BYTES_MAX).splitlines()
    except OSError:
        return
    for line in lines:
        rule = _rule(line)
        if rule is not None:
            yield rule


def _rule(line: str) -> _Rule | None:
    pattern = re.sub(r"(?<!\\)[ \t]+$", "", line)
    if not pattern or pattern.startswith("#"):
        return None
    brings_back = pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    directories_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    try:
        expression = path_expression(tokens(pattern.removeprefix("/")), visible=False)
    except ValueError:
        return None
    return _Rule(re.compile(expression, re.DOTALL), brings_back, directories_only)
