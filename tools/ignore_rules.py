"""Rules of .gitignore, .ignore and .rgignore files, and the user's own: which entries of a tree a search leaves out.

By https://git-scm.com/docs/gitignore; as in ripgrep they count outside of repositories too, those of the directories
above as well, and an entry is judged by itself: who searches within an ignored directory has asked for it.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.wildcards import path_expression, tokens

_FILES = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")  # the first that has something to say decides
_EXCLUDES_FILE = re.compile(r'^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$', re.IGNORECASE | re.MULTILINE)  # as ripgrep
_RULE_BYTES_MAX = 1024 * 1024  # a longer file is no list of rules


@dataclass(frozen=True)
class _Rule:
    fits: re.Pattern[str]  # paths relative to the directory of the file
    brings_back: bool
    directories_only: bool


class IgnoreRules:
    """The rules that hold in one directory: its own and, weaker, those of the directory above."""

    def __init__(self, directory: Path, above: IgnoreRules | None, files: Iterable[Path] | None = None) -> None:
        """The rules are those of the usual files in the directory, or those of `files`."""
        self._above = above
        self._prefix_length = len(str(directory).rstrip("/")) + 1
        files = [directory / name for name in _FILES] if files is None else files
        self._lists = [rules for path in files if (rules := list(_rules(path)))]

    @classmethod
    def of(cls, directory: Path) -> IgnoreRules:
        """With the rules of all directories above and, weaker, those that the user has for all repositories."""
        rules = cls(directory, None, [user_file] if (user_file := _user_file()) is not None else [])
        for path in [*reversed(directory.parents), directory]:
            rules = cls(path, rules)
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
    for line in _text(path).split("\n"):
        rule = _rule(line.removesuffix("\r"))
        if rule is not None:
            yield rule


def _text(path: Path) -> str:
    """What the file holds, without a byte-order mark; nothing when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_RULE_BYTES_MAX).removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _user_file() -> Path | None:
    """The file that git's settings name as core.excludesFile, or the one that they mean without a word."""
    home = os.environ.get("HOME")
    of_home = Path(home) if home else None
    settings = os.environ.get("XDG_CONFIG_HOME")
    in_settings = Path(settings) / "git" if settings else of_home and of_home / ".config/git"
    for path in (of_home and of_home / ".gitconfig", in_settings and in_settings / "config"):
        if path is not None and (found := _EXCLUDES_FILE.search(_text(path))):
            return Path(found[1].replace("~", home or "~", 1) if found[1].startswith("~") else found[1])
    return in_settings and in_settings / "ignore"


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
