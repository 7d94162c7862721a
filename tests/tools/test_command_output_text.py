"""What is left of raw output on its way to the model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.output_text import Spooled, clip, live_text, reduce_line

CUT = re.compile(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")


def whole(data: bytes) -> Spooled:
    return Spooled(data, b"", len(data))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("tab\there", "tab\there"),
        ("10%\r50%\r100%", "100%"),
        ("windows\r", "windows"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b(Btext\x1b=", "text"),
        ("b\x08bo\x08ol\x08ld\x08d", "bold"),
        ("\x08\x08x", "x"),
        ("", ""),
    ],
)
def test_a_line_is_reduced_to_its_last_state(line: str, shown: str) -> None:
    assert reduce_line(line) == shown


def test_controls_and_foreign_bytes_become_replacement_characters() -> None:
    assert clip(whole(b"a\x00\x07\xff\xc3\xa4\xe4\xb8"), 100) == "a\ufffd\ufffd\ufffdä\ufffd\ufffd"


def test_live_text_shows_progress_as_lines() -> None:
    assert live_text(b"10%\r\x1b[32m20%\x1b[0m\n") == "10%\n20%\n"


def test_a_progress_bar_counts_by_its_last_state() -> None:
    bar = b"".join(b"\r%d%%" % number for number in range(100)) * 100
    assert clip(whole(bar + b"\nend"), 200) == "99%\nend"


def test_unread_middle_bytes_are_counted() -> None:
    assert clip(Spooled(b"head\n", b"tail", 1_000_000), 200) == "head\n\n[... 999991 bytes left out ...]\ntail"


PLAIN = st.text(st.characters(exclude_categories=["C"], include_characters="\n\t"), min_size=100, max_size=3000)


@given(PLAIN, st.integers(min_value=80, max_value=400))
def test_cuts_are_counted_exactly_and_never_within_a_character(text: str, chars_max: int) -> None:
    shown = clip(whole(text.encode()), chars_max)
    assert len(shown) <= max(chars_max, 0)
    cut = CUT.search(shown)
    if cut is None:
        assert shown == text
        return
    first, last = shown[: cut.start()], shown[cut.end() :]
    assert text.startswith(first) and text.endswith(last)
    assert len(first.encode()) + int(cut[1]) + len(last.encode()) == len(text.encode())


@given(st.binary(max_size=2000), st.integers(min_value=80, max_value=400))
def test_any_bytes_give_bounded_text_without_controls(data: bytes, chars_max: int) -> None:
    shown = clip(whole(data), chars_max)
    assert len(shown) <= chars_max
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", shown)
