"""A streaming answer: whole blocks go to the scrollback, the rest stands beside the prompt."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from agent.terminal.paint import Paint
from agent.terminal.stream_view import TAIL_ROWS_MAX, StreamView, wrapped


def view(columns: int = 40) -> StreamView:
    return StreamView(lambda: columns, Paint(lambda: columns, color=False))


def lines(*commits: str) -> list[str]:
    """The rows that were committed, without blank ones."""
    return [line for commit in commits for line in commit.splitlines() if line.strip()]


def test_a_block_is_committed_once_a_blank_line_ends_it() -> None:
    stream = view()
    assert [stream.feed(piece) for piece in ("Hello", " world\n", "and more")] == ["", "", ""]
    assert stream.tail() == ["Hello world", "and more"]
    assert stream.feed("\n\nNext") == "Hello world and more\n"
    assert stream.tail() == ["Next"]
    assert (stream.flush(), stream.tail(), stream.flush()) == ("\nNext\n", [], "")


def test_a_blank_line_inside_a_fence_ends_no_block() -> None:
    stream = view()
    assert stream.feed("```python\na = 1\n\nb = 2\n") == ""
    committed = stream.feed("```\n\nafter")
    assert [line.strip() for line in lines(committed)] == ["a = 1", "b = 2"]
    assert stream.tail() == ["after"]


def test_an_answer_that_breaks_off_inside_a_fence_is_shown() -> None:
    stream = view()
    stream.feed("see:\n\n```\nhalf a lin")
    assert [line.strip() for line in lines(stream.flush())] == ["half a lin"]


def test_the_tail_is_bounded() -> None:
    stream = view()
    stream.feed("\n".join(f"row {number}" for number in range(50)))
    assert stream.tail() == [f"row {number}" for number in range(50 - TAIL_ROWS_MAX, 50)]


@pytest.mark.parametrize("blank", ["", "\n", "  \n\n "])
def test_blank_text_shows_nothing(blank: str) -> None:
    stream = view()
    assert (stream.feed(blank), stream.tail(), stream.flush()) == ("", [], "")


WORDS = st.sampled_from(["word", "**bold**", "漢字", "`code`", "x" * 50])
PARAGRAPHS = st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=4)


@given(paragraphs=PARAGRAPHS, cuts=st.lists(st.integers(0, 300), max_size=8))
def test_whatever_pieces_an_answer_comes_in_the_same_rows_are_committed(paragraphs: list[str], cuts: list[int]) -> None:
    text = "\n\n".join(paragraphs)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream, whole = view(), view()
    commits = [stream.feed(text[a:b]) for a, b in pairwise(places)]
    assert lines(*commits, stream.flush()) == lines(whole.feed(text), whole.flush())


@given(text=st.text(alphabet=st.sampled_from("ab 漢字é\t\n👍"), max_size=60), columns=st.integers(2, 20))
def test_rows_are_never_wider_than_the_terminal_and_lose_nothing(text: str, columns: int) -> None:
    rows = wrapped(text, columns)
    assert max(sum(map(get_cwidth, row)) for row in rows) <= columns
    assert "".join(rows) == text.expandtabs(4).replace("\n", "")


def test_wide_characters_take_two_columns() -> None:
    assert wrapped("漢字漢字a", 5) == ["漢字", "漢字a"]


def test_committed_rows_of_wide_characters_fit_too() -> None:
    stream = view(20)
    rows = lines(stream.feed("漢" * 30), stream.flush())
    assert [sum(map(get_cwidth, row)) for row in rows] == [20, 20, 20]
