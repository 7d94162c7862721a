"""Text is cleaned where it enters, whole or in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text import SECRET_REMOVED, StreamCleaner, TextCleaner, join_surrogates

KEY = "sk-abcs"  # ends as it begins

any_text = st.text(st.sampled_from("ab é中\ufffd🙂\ud83d\ude42"), max_size=30)
pieces = st.lists(
    st.sampled_from(["s", "sk", "sk-", "k-a", "abc", "bcs", KEY, " ", "\ud83d", "\ude42", "é"]), max_size=12
)


def streamed(cleaner: TextCleaner, parts: list[str]) -> str:
    stream: StreamCleaner = cleaner.stream()
    return "".join([*map(stream.feed, parts), stream.flush()])


@given(any_text)
def test_clean_text_can_be_encoded_stays_clean_and_loses_no_whole_character(text: str) -> None:
    clean = TextCleaner().clean(text)
    assert clean.encode().decode() == clean == TextCleaner().clean(clean)
    whole = [character for character in text if not "\ud800" <= character <= "\udfff"]
    assert [character for character in clean if character not in "\ufffd🙂"] == [
        c for c in whole if c not in "\ufffd🙂"
    ]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain 中文 🙂", "plain 中文 🙂"),
        ("\ud83d\ude42", "🙂"),
        ("\ud83d", "\ufffd"),
        ("\ude42", "\ufffd"),
        ("\ud83d\ud83d\ude42\ude42x", "\ufffd🙂\ufffdx"),
        ("a\ud83db", "a\ufffdb"),
    ],
)
def test_pairs_are_joined_and_lone_surrogates_replaced_one_by_one(text: str, clean: str) -> None:
    """K05."""
    assert join_surrogates(text) == clean


@given(pieces)
def test_a_text_in_pieces_is_cleaned_as_the_whole_text_is(parts: list[str]) -> None:
    cleaner = TextCleaner([KEY])
    assert streamed(cleaner, parts) == cleaner.clean("".join(parts))


@pytest.mark.parametrize("cut", range(len(KEY) + 1))
def test_a_key_is_removed_wherever_the_stream_is_cut(cut: int) -> None:
    """Promise 11. A key that ends as it begins must not be held back by its own end."""
    text = streamed(TextCleaner([KEY]), [f"it is {KEY[:cut]}", f"{KEY[cut:]} indeed"])
    assert text == f"it is {SECRET_REMOVED} indeed"


def test_what_only_begins_like_the_key_comes_out_at_the_end() -> None:
    stream = TextCleaner([KEY]).stream()
    assert [stream.feed("ask sk-a"), stream.feed("s"), stream.flush()] == ["ask ", "sk-a", "s"]


def test_bytes_that_hold_the_key_are_told_and_an_empty_secret_is_none() -> None:
    cleaner = TextCleaner(["", KEY])
    assert cleaner.clean("abc") == "abc"
    assert (cleaner.holds_secret(b"x" + KEY.encode() + b"\xff"), cleaner.holds_secret(b"\xff")) == (True, False)
