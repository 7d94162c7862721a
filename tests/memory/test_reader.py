"""Damage costs only what is damaged, is reported, and is never made worse (promise 3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory.blobs import BlobStore
from memory.disk import Disk
from memory.reader import describe
from memory.resume import ResumeLoader
from tests.kit.transcript import sealed
from tests.memory.memory_kit import SESSION_ID, Place, in_run, kinds, user

WORDS = ["one", "two", "three", "four", "five"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A transcript of five user messages."""
    made = Place(tmp_path)
    made.write(*in_run("run-1", 0, *map(user, WORDS)))
    return made


def words(place: Place) -> list[str]:
    return [message.content for message in place.load().history_messages]


def record(word: str, seq: int, **changes: object) -> bytes:
    """A line that this program would write."""
    fields = {
        "event_id": f"evt-new-{word}",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "session_id": SESSION_ID,
        "run_id": "run-1",
        "step": 0,
        "event_type": "message",
        "payload": {"role": "user", "content": word},
        "schema_version": 2,
        "seq": seq,
    }
    return sealed({**fields, **changes}) + b"\n"


# -- the end of the file


def test_a_whole_file_has_no_finding(place: Place) -> None:
    state = place.load()
    assert (words(place), state.damage, state.last_seq) == (WORDS, (), 5)


def test_the_file_may_end_at_any_byte(place: Place) -> None:
    """K03: every complete record counts, and the rest is one torn record."""
    lines = place.lines
    start = sum(map(len, lines[:3]))
    for kept in range(len(lines[3])):
        place.put(*lines[:3], lines[3][:kept])
        state = place.load()
        whole = kept == len(lines[3]) - 1
        assert [m.content for m in state.history_messages] == WORDS[: 4 if whole else 3]
        assert kinds(state.damage) == ([] if whole or not kept else [("torn", 4, start, kept)])


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"{", b'{"event_id":"', b"\xff\xfe\xfd", b"words", b"[1]", b'{"a":1}'])
def test_bytes_after_the_last_newline_are_set_aside_and_nothing_else(place: Place, tail: bytes) -> None:
    whole = place.data
    place.put(whole, tail)
    session = place.open()
    assert kinds(session.damage) == [("torn", 6, len(whole), len(tail))]
    assert place.data == whole
    side = place.files.torn(1)
    assert (session.damage[0].kept_in, side.read_bytes()) == (side.name, tail)
    session.close()
    assert place.load().damage == ()


@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (b"\0" * 100, b""), (b'{"event_id":"evt-', b""), (b"", b"\0\0")]
)
def test_an_intact_record_in_an_unfinished_line_is_used_and_never_cut_off(
    place: Place, before: bytes, after: bytes
) -> None:
    start = len(place.data)
    unfinished = before + record("six", 6)[:-1] + after
    place.put(place.data, unfinished)
    found = [] if unfinished == record("six", 6)[:-1] else [("corrupt", 6, start, len(unfinished))]
    assert (words(place), kinds(place.load().damage)) == ([*WORDS, "six"], found)
    for _ in range(2):
        place.open().close()
        state = place.load()
        assert [m.content for m in state.history_messages] == [*WORDS, "six"]
        assert [one[:3] for one in kinds(state.damage)] == [one[:3] for one in found]
    assert not place.files.torn(1).exists()


def test_a_reader_of_a_live_session_takes_an_unfinished_line_for_what_it_is(place: Place) -> None:
    place.put(place.data, b'{"event_id":"evt-6","time')
    loader = ResumeLoader(place.files, BlobStore(place.files.blobs, Disk()))
    assert loader.load_session(live=True).damage == ()
    assert kinds(loader.load_session().damage) == [("torn", 6, len(place.data) - 25, 25)]


# -- the middle


BAD_LINES = {
    "a block of NULs": b"\0" * 4096,
    "invalid UTF-8": b"\xff\xfe{}",
    "the beginning of a record (K04)": b'{"event_type":"message"',
    "an array": b"[1,2]",
    "a scalar": b"7",
    "nothing": b"",
    "an object without a checksum": b'{"event_type":"message","payload":{"role":"user","content":"forged"}}',
    "a wrong checksum": record("forged", 3)[:-11] + b'00000000"}',
    "a record of another session": record("forged", 3, session_id="session-ffffffffffff")[:-1],
    "two megabytes": b"x" * (2 << 20),
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_left_where_it_is_and_costs_itself_alone(place: Place, bad: bytes) -> None:
    one, two, *rest = place.lines
    place.put(one, two, bad, b"\n", *rest)
    damaged = place.data
    assert (words(place), kinds(place.load().damage)) == (WORDS, [("corrupt", 3, len(one + two), len(bad) + 1)])
    place.open().close()
    assert place.data == damaged


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_a_hole_that_a_bad_line_explains_is_one_finding(place: Place, bad: bytes) -> None:
    one, two, _three, *rest = place.lines
    place.put(one, two, bad, b"\n", *rest)
    assert words(place) == ["one", "two", "four", "five"]
    assert kinds(place.load().damage) == [("corrupt", 3, len(one + two), len(bad) + 1)]


def test_an_intact_record_in_a_bad_line_is_used(place: Place) -> None:
    """K04: written in part, then again in full right behind it. And K03: two records on one line."""
    one, two, three, four, five = place.lines
    for glued in ([two, three[: len(three) // 2], three], [two[:-1], three], [two, b"\0\0", three]):
        place.put(one, *glued, four, five)
        assert words(place) == WORDS
        assert [finding[0] for finding in kinds(place.load().damage)] == ["corrupt"]


def test_a_record_that_stands_on_one_line_twice_counts_once(place: Place) -> None:
    one, two, three, four, five = place.lines
    place.put(one, two[:-1], three[:-1], two[:-1], three, four, five)
    assert words(place) == WORDS


def test_a_missing_record_is_one_gap_that_names_it(place: Place) -> None:
    one, two, _three, _four, five = place.lines
    place.put(one, two, five)
    (gap,) = place.load().damage
    assert words(place) == ["one", "two", "five"]
    assert describe(gap) == f"gap: records 3 to 4 are missing (line 3, byte {len(one + two)})"


def test_a_record_that_stands_there_twice_counts_once(place: Place) -> None:
    """K10."""
    one, two, three, four, five = place.lines
    place.put(one, two, one, three, three, four, five, two)
    assert words(place) == WORDS
    assert [found[:2] for found in kinds(place.load().damage)] == [("duplicate", 3), ("duplicate", 5), ("duplicate", 8)]


def test_another_record_with_a_number_that_was_there_is_used_and_reported(place: Place) -> None:
    """K06: two writers."""
    place.put(place.data, record("other", 4), record("six", 6))
    assert words(place) == [*WORDS, "other", "six"]
    assert [found[:2] for found in kinds(place.load().damage)] == [("duplicate", 6)]


def test_no_flipped_bit_goes_unnoticed_and_none_costs_another_record(place: Place) -> None:
    data = place.data
    ends = [sum(map(len, place.lines[: n + 1])) for n in range(len(WORDS))]
    for at in range(len(data)):
        place.put(data[:at], bytes([data[at] ^ 1 << at % 8]), data[at + 1 :])
        state = place.load()
        assert state.damage, at
        hit = sum(end <= at for end in ends)
        others = [word for n, word in enumerate(WORDS) if n != hit]
        assert set(others) <= {message.content for message in state.history_messages}, at


def test_what_a_newer_version_writes_is_kept_and_skipped(place: Place) -> None:
    place.put(
        place.data,
        record("mood", 6, event_type="mood", schema_version=3),
        record("shape", 7, payload={"role": ["user"]}, schema_version=3),
        record("more", 8, mood={"a": [1]}, schema_version=3),
        record("scalar", 9, payload=7),
    )
    assert (words(place), place.load().damage) == ([*WORDS, "more"], ())
    assert place.load().last_seq == 9


def test_line_separators_of_unicode_do_not_split_a_record(tmp_path: Path) -> None:
    place = Place(tmp_path)
    text = "a\u2028b\u2029c\x85d\r\ne\x0bf"
    place.write(("run-1", 0, user(text)))
    assert words(place) == [text]
    place.put(record(text, 1, payload=json.loads(json.dumps({"role": "user", "content": text}))))
    assert words(place) == [text]


def test_an_empty_file_is_an_empty_session(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put(b"")
    assert (words(place), place.load().damage, place.load().run) == ([], (), None)
    place.write(("run-1", 0, user("first")))
    assert (words(place), place.load().last_seq) == (["first"], 1)


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n\0\0", b"<html>\n</html>\n", b"a,b\n1,2\n", b"\n\n\n", b"\0" * 99]
)
def test_a_file_that_is_something_else_gives_an_empty_session_and_is_not_changed_line_by_line(
    tmp_path: Path, content: bytes
) -> None:
    place = Place(tmp_path)
    place.put(content)
    place.write(("run-1", 0, user("first")))
    assert words(place) == ["first"]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*.torn-*"))
    assert content == content[: content.rfind(b"\n") + 1] + kept
