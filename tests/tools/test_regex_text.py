"""Patterns in Rust's syntax: which elements are changed for ripgrep, and that it finds the same with them."""

from __future__ import annotations

import re
import subprocess
import warnings
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.regex_text import asks_for_returns, for_python, tokens, with_stray_bytes
from tools.ripgrep import find_ripgrep

BYTE = r"(?-u:[\x80-\xFF])"
CHANGED = [
    (r"f\(.*\);", rf"f\((?:.|{BYTE})*\);"),
    (r".+?x", rf"(?:.|{BYTE})+?x"),
    (r"\S+ \D*", rf"(?:\S|{BYTE})+ (?:\D|{BYTE})*"),
    (r'"[^"]*"', rf'"(?:[^"]|{BYTE})*"'),
    (r"[^]a]+", rf"(?:[^]a]|{BYTE})+"),
    (r"[^\]\\\s,]+", rf"(?:[^\]\\\s,]|{BYTE})+"),
    (r"[^[:alpha:]\n]*", rf"(?:[^[:alpha:]\n]|{BYTE})*"),
    (r"[^a-z\x7f-]*", rf"(?:[^a-z\x7f-]|{BYTE})*"),
    (r"(?i)\\.*", rf"(?i)\\(?:.|{BYTE})*"),
    (r"\p{L}.*\x{2e}", rf"\p{{L}}(?:.|{BYTE})*\x{{2e}}"),
]
KEPT = [
    *(r"a.b", r".?", r".{2,}", r"\.*", r"\\S*x", r"\W+", r"\w*", r"[.*]+", r"[]a.*]*", r"[a[^b.*]c]+"),
    *(r"[^é]*", r"[^\w]*", r"[^\W]*", r"[^[:^alpha:]]*", r"[^\x80]*", r"[^a[b]]*", r"[^\p{L}]*"),
    *(r"(?-u).*", r"(?i-u:.*)", r"(?x) .*", r"[.*", "a\\"),
]


@pytest.mark.parametrize(("pattern", "changed"), CHANGED + [(pattern, pattern) for pattern in KEPT])
def test_only_a_repeated_anything_but_ascii_takes_stray_bytes(pattern: str, changed: str) -> None:
    assert with_stray_bytes(pattern) == changed


@pytest.mark.parametrize(("pattern", "changed"), CHANGED)
def test_ripgrep_takes_what_was_changed_and_runs_over_stray_bytes(pattern: str, changed: str) -> None:
    for one in (pattern, changed):
        assert found(one, b"nothing but ascii\n") is not None


def test_a_stray_byte_ends_a_match_only_without_the_change() -> None:
    line = b'f("d\xe9j\xe0 vu");\n'
    assert [found(p, line) for p in (r"f\(.*\);", with_stray_bytes(r"f\(.*\);"))] == [b"", b"0:" + line]


@settings(max_examples=60)
@given(
    text=st.text('ab"(é中😀 \n', max_size=30),
    pattern=st.lists(
        st.sampled_from(
            ["a", "é", "中", ".", ".*", ".+?", '[^"]*', "[^ab]+", "\\S+", "\\D*", "b?", "(?:a|é.*)", "\\b", "$", "\\W"]
        ),
        min_size=1,
        max_size=5,
    ).filter(lambda parts: not any(one[-1] in "+?" and two[-1] in "*+?" for one, two in pairwise(parts))),
)
def test_in_utf_8_the_same_is_found(text: str, pattern: list[str]) -> None:
    before = "".join(pattern)
    assert found(with_stray_bytes(before), text.encode()) == found(before, text.encode())


@pytest.mark.parametrize("pattern", [r"a\r", "a\r", r"\x0D", r"\x{d}", r"\u{000D}", r"\u000d", r"[a\r]", r"\r?$"])
def test_what_asks_for_carriage_returns(pattern: str) -> None:
    assert asks_for_returns(pattern)


@pytest.mark.parametrize("pattern", ["r", r"\\r", r"[^\r\n]*", r"\n", "[", r"\x{d0}"])
def test_what_does_not_ask_for_carriage_returns(pattern: str) -> None:
    assert not asks_for_returns(pattern)


def test_the_line_ends_of_a_pattern_for_python() -> None:
    text = "a\r\n\rb\n\nc"
    ends, begins = (re.compile(for_python(pattern, line_ends=True), re.MULTILINE) for pattern in ("$", "^"))
    assert [found.start() for found in ends.finditer(text)] == [1, 3, 5, 6, 8]
    assert [found.start() for found in begins.finditer(text)] == [0, 3, 4, 6, 7]
    assert for_python(r"\$[$^]\^", line_ends=True) == r"\$[$^]\^"
    assert for_python("^a$", line_ends=False) == "^a$"


@pytest.mark.parametrize("pattern", ["[[:digit:]]+", "[a-z&&[^b]]", "[^a--b]", "[a~~b]", "[a||b]", "[a[b]c]", "[a"])
def test_what_python_would_read_as_something_else_is_refused_without_a_warning(pattern: str) -> None:
    with warnings.catch_warnings(), pytest.raises(re.error):
        warnings.simplefilter("error")
        re.compile(for_python(pattern, line_ends=False))


@pytest.mark.parametrize("pattern", [r"[\[\]]", "[]&-]", "[a|b]", r"[\-\-]"])
def test_what_python_reads_as_rust_does_is_kept(pattern: str) -> None:
    assert for_python(pattern, line_ends=False) == pattern


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"a\.[b]", ["a", r"\.", "[b]"]),
        (r"\x{41}\x41\u0041\pL\p{Greek}\b{start}", [r"\x{41}", r"\x41", r"\u0041", r"\pL", r"\p{Greek}", r"\b{start}"]),
        (r"[]]][^]]", ["[]]", "]", "[^]]"]),
        (r"[a[b\]]c]d", [r"[a[b\]]c]", "d"]),
    ],
)
def test_tokens(pattern: str, expected: list[str]) -> None:
    assert tokens(pattern) == expected


def found(pattern: str, text: bytes) -> bytes:
    """All matches with their places, as ripgrep tells them."""
    program = find_ripgrep()
    assert program is not None
    command = [program, "--no-config", "--only-matching", "--byte-offset", "--no-line-number", "-e", pattern]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
