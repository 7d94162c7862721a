"""Patterns of paths: what they mean, against a simple matcher, and that none of them takes for ever."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.checkout import CHECKOUT
from tools.base import CallRefused, ErrorCode
from tools.glob_pattern import compile_glob
from tools.wildcards import path_expression, tokens

SECONDS_MAX = 20


def fits(pattern: str, path: str, *, visible: bool) -> bool:
    """What a pattern without braces means, step by step and without regular expressions."""
    names, wanted = tuple(path.split("/")), tuple(pattern.split("/"))

    @cache
    def rest_fits(at: int, of: int) -> bool:
        if of == len(wanted):
            return at == len(names)
        if wanted[of] != "**":
            return at < len(names) and name_fits(wanted[of], names[at], visible) and rest_fits(at + 1, of + 1)
        passes = at < len(names) and not (visible and names[at].startswith("."))
        is_last = of + 1 == len(wanted)  # `**` at the end stands for at least one name
        return (not is_last and rest_fits(at, of + 1)) or (
            passes and (rest_fits(at + 1, of) or (is_last and at + 1 == len(names)))
        )

    return rest_fits(0, 0)


def name_fits(pattern: str, name: str, visible: bool) -> bool:
    if visible and name.startswith(".") and not pattern.startswith("."):
        return False
    ends = {0}  # how much of the name the pattern up to here may have taken
    for token in re.findall(r"\[ab\]|.", pattern):
        if token == "*":
            ends = set(range(min(ends), len(name) + 1)) if ends else set()
        else:
            ends = {end + 1 for end in ends if end < len(name) and (token == "?" or name[end] in token.strip("[]"))}
    return len(name) in ends


NAMES = st.text("ab.", min_size=1, max_size=6)
PATHS = st.lists(NAMES, min_size=1, max_size=6).map("/".join)
WANTED = st.lists(st.sampled_from(["*", "?", "a", "b", ".", "[ab]"]), min_size=1, max_size=6).map("".join)
PATTERNS = st.lists(st.one_of(st.just("**"), st.sampled_from(["a", "b", ".a"]), WANTED), min_size=1, max_size=6).map(
    lambda names: "/".join("**" if set(name) == {"*"} and len(name) > 1 else name for name in names)
)


@given(pattern=PATTERNS, paths=st.lists(PATHS, max_size=20), visible=st.booleans())
def test_an_expression_fits_what_the_pattern_means(pattern: str, paths: list[str], visible: bool) -> None:
    expression = re.compile(path_expression(tokens(pattern), visible=visible))
    found = [path for path in paths if expression.fullmatch(path)]
    assert found == [path for path in paths if fits(pattern, path, visible=visible)]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 12 + "*b", "a" * 200),
        ("*" + "?*" * 20 + "b", "a" * 200),
        ("*" + "[ab]*" * 20 + "c", "a" * 200),
        ("*{a,aa}" * 6 + "*b", "a" * 200),
        ("**/a/" * 12 + "b", "a/" * 100 + "a"),
        ("**/*a*a/" * 8 + "**/*a*a*b", "aaaaaaaa/" * 100 + "a"),
    ],
)
def test_no_pattern_takes_for_ever(pattern: str, path: str) -> None:
    script = "import sys; from tools.glob_pattern import *; print(compile_glob(sys.argv[1]).fullmatch(sys.argv[2]))"
    command = [sys.executable, "-c", script, pattern, path]  # a process of its own: no thread can interrupt `re`
    done = subprocess.run(command, cwd=Path(CHECKOUT), capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    assert done.stdout == "None\n"


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("{a,b{c,d/*}}x", ["ax", "bcx", "bd/yx"], ["bx", "bd/y"]),
        ("{,x}a", ["a", "xa"], ["x"]),
        ("a{/**,}", ["a", "a/b", "a/b/c"], ["ab"]),
        ("[{]\\{,}", ["{{,}"], ["{"]),
        ("{**/,}.a", [".a", "d/.a"], [".d/.a"]),
        ("a\\/b", ["a/b"], ["a"]),
    ],
)
def test_what_braces_stand_for(pattern: str, good: list[str], bad: list[str]) -> None:
    expression = compile_glob(pattern)
    assert [path for path in [*good, *bad] if expression.fullmatch(path)] == good


def test_braces_that_stand_for_too_many_patterns_are_refused() -> None:
    with pytest.raises(CallRefused) as caught:
        compile_glob("{a,b}" * 12)
    assert caught.value.code == ErrorCode.INVALID_ARGUMENTS
    assert "its braces stand for more than 500 patterns" in caught.value.message
