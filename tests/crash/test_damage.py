"""Kinds of damage, each with what must be used of it and what must be said: on this resume and on every later one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory.catalog import list_sessions
from memory.events import MessagePayload
from memory.layout import MemoryFolder
from tests.crash.kit import REAL_DISK, SESSION_ID, Naive, Ours
from tests.kit.transcript import sealed
from tests.memory.memory_kit import Fact, user

LINES = 9
OPENINGS = 10
MEGABYTE = 1 << 20

Lines = list[bytes]  # without their newlines


def told(number: int) -> Fact:
    return ("run-1", number, user(f"line {number} 第{number}行 🙂"))


def foreign_fields(number: int, event_type: str = "message", version: int = 3) -> dict[str, object]:
    return {
        "event_id": f"evt-new-{number}",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "session_id": SESSION_ID,
        "run_id": "run-1",
        "step": 1,
        "event_type": event_type,
        "payload": {"novel": [number]},
        "schema_version": version,
        "seq": number,
    }


@dataclass(frozen=True)
class Damaged:
    """A file made of good lines, the lines that are used of it, and the findings as kind and line."""

    name: str
    make: Callable[[Lines], bytes]
    used: list[int]
    findings: list[tuple[str, int]]


ALL = list(range(1, LINES + 1))


BAD_5 = [("corrupt", 5)]


def joined(lines: Lines, *, last: bytes = b"\n") -> bytes:
    return b"\n".join(lines) + last


def without(*numbers: int) -> list[int]:
    return [number for number in ALL if number not in numbers]


BUT_5 = without(5)


def put(number: int, change: Callable[[bytes], bytes]) -> Callable[[Lines], bytes]:
    """The file with one line changed."""
    return lambda lines: joined([change(line) if n == number else line for n, line in enumerate(lines, 1)])


def insert(before: int, *new: bytes) -> Callable[[Lines], bytes]:
    return lambda lines: joined([*lines[: before - 1], *new, *lines[before - 1 :]])


CASES = [
    Damaged("nothing", joined, ALL, []),
    # -- the end
    Damaged("the last newline alone is missing", lambda ls: joined(ls, last=b""), ALL, []),
    Damaged("half a record at the end", lambda ls: joined(ls) + ls[0][:99], ALL, [("torn", 10)]),
    Damaged("NULs at the end", lambda ls: joined(ls) + bytes(4096), ALL, [("torn", 10)]),
    Damaged(
        "NULs behind half a record", lambda ls: joined(ls[:8]) + ls[8][:70] + bytes(600), without(9), [("torn", 9)]
    ),
    Damaged("one byte at the end", lambda ls: joined(ls) + b"{", ALL, [("torn", 10)]),
    Damaged(
        "a whole record behind half of one at the end",
        lambda ls: joined(ls[:8]) + ls[7][:60] + ls[8],
        ALL,
        [("corrupt", 9)],
    ),
    Damaged(
        "NULs behind a record that lacks its newline", lambda ls: joined(ls, last=bytes(32)), ALL, [("corrupt", 9)]
    ),
    # -- the middle
    Damaged("a block of NULs with a newline", insert(5, bytes(4096)), ALL, BAD_5),
    Damaged("a block of NULs before a record", put(5, lambda line: bytes(512) + line), ALL, BAD_5),
    Damaged("a record overwritten by NULs", put(5, lambda line: bytes(len(line))), BUT_5, BAD_5),
    Damaged("two records on a line", lambda ls: joined([*ls[:4], ls[4] + ls[5], *ls[6:]]), ALL, BAD_5),
    Damaged("a whole record behind half of it (K04)", put(5, lambda line: line[: len(line) // 2] + line), ALL, BAD_5),
    Damaged("junk behind a record", put(5, lambda line: line + b" junk"), ALL, BAD_5),
    Damaged("half a record in the middle (K04)", insert(5, b'{"event_type":"message"'), ALL, BAD_5),
    Damaged("a line of junk", insert(1, b"\x7fELF"), ALL, [("corrupt", 1)]),
    Damaged("an empty line", insert(5, b""), ALL, BAD_5),
    Damaged("the file twice", lambda ls: joined(ls) * 2, ALL, [("duplicate", n) for n in range(10, 19)]),
    Damaged("one record twice", lambda ls: joined([*ls[:5], ls[4], *ls[5:]]), ALL, [("duplicate", 6)]),
    Damaged("an old record again at the end", lambda ls: joined([*ls, ls[2]]), ALL, [("duplicate", 10)]),
    Damaged("one record missing", lambda ls: joined([*ls[:4], *ls[5:]]), without(5), [("gap", 5)]),
    Damaged("three records missing", lambda ls: joined([*ls[:4], *ls[7:]]), without(5, 6, 7), [("gap", 5)]),
    Damaged("the first record missing", lambda ls: joined(ls[1:]), without(1), [("gap", 1)]),
    Damaged("a gap that a bad line explains", lambda ls: joined([*ls[:4], b"?", *ls[6:]]), without(5, 6), BAD_5),
    Damaged("two gaps", lambda ls: joined([ls[0], *ls[2:5], *ls[6:]]), without(2, 6), [("gap", 2), ("gap", 5)]),
    # -- what a line is made of
    Damaged("invalid UTF-8", put(5, lambda line: line.replace("第".encode(), b"\xff\xfe\xfd")), BUT_5, BAD_5),
    Damaged("a checksum of another line", put(5, lambda line: line[:-10] + b'00000000"}'), BUT_5, BAD_5),
    Damaged("a checksum in capitals", put(5, lambda line: line[:-10] + line[-10:-2].upper() + b'"}'), BUT_5, BAD_5),
    Damaged("a key that is no crc", put(5, lambda line: line.replace(b'"crc":', b'"crC":')), BUT_5, BAD_5),
    Damaged("a line without a checksum", put(5, lambda line: line[:-18] + b"}"), BUT_5, BAD_5),
    Damaged("an array", insert(5, b'[{"event_id":"evt-1"}]'), ALL, BAD_5),
    Damaged("scalars", insert(5, b"17", b"null", b'"text"', b"true"), ALL, [("corrupt", n) for n in (5, 6, 7, 8)]),
    Damaged("deep nesting", insert(5, b"[" * 100_000), ALL, BAD_5),
    Damaged("a carriage return before the newline", put(5, lambda line: line + b"\r"), ALL, BAD_5),
    Damaged("a byte order mark", put(1, lambda line: b"\xef\xbb\xbf" + line), ALL, [("corrupt", 1)]),
    Damaged("a line of 20 MB without a record", insert(5, b"x" * 20 * MEGABYTE), ALL, BAD_5),
    Damaged("20 MB before a record", put(5, lambda line: b"y" * 20 * MEGABYTE + line), ALL, BAD_5),
    Damaged("2 MB of record beginnings", insert(5, b'{"event_id":"' * (2 * MEGABYTE // 13)), ALL, BAD_5),
    # -- other versions (K04): kept, skipped, no finding
    Damaged("an unknown type", lambda ls: joined([*ls, sealed(foreign_fields(10, "mood"))]), ALL, []),
    Damaged("an unknown version", lambda ls: joined([*ls, sealed(foreign_fields(10, version=99))]), ALL, []),
    Damaged(
        "a record that is sealed and no JSON", lambda ls: joined([*ls[:4], sealed_junk(ls[4]), *ls[5:]]), BUT_5, BAD_5
    ),
]


def sealed_junk(line: bytes) -> bytes:
    """A line with a right checksum whose payload is no JSON: what only another program can write."""
    from zlib import crc32

    body = line[:-18].replace(b'"payload":{', b'"payload":{"x":1,,')
    return b'%b,"crc":"%08x"}' % (body, crc32(body))


@pytest.fixture(scope="module")
def good_lines(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    store = Ours(tmp_path_factory.mktemp("good"))
    writer = store.open()
    for number in ALL:
        writer.record(told(number))
    writer.close()
    return store.path.read_bytes().split(b"\n")[:-1]


def numbers_used(store: Ours) -> list[int]:
    """Which of the told lines a resume has in its history."""
    shown = [message.content for message in store.load().history_messages]
    assert all(text.startswith("line ") for text in shown)
    return [int(text.split()[1]) for text in shown]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_damage_costs_only_what_is_damaged_and_is_told_once(quick: Path, good_lines: Lines, case: Damaged) -> None:
    store = Ours(quick)
    data = case.make(good_lines)
    store.put(data)
    assert (numbers_used(store), [(one.kind, one.line) for one in store.findings()]) == (case.used, case.findings)
    first = store.opened_by_agent()
    assert [(one.kind, one.line) for one in first] == case.findings
    after_first = store.path.read_bytes()
    openings = OPENINGS if len(data) < MEGABYTE else 3
    for opening in range(2, openings + 1):
        assert (opening, store.opened_by_agent()) == (opening, [])
        assert numbers_used(store) == case.used
    kept = data if not store.torn_pieces() else data[: -len(store.torn_pieces()[0])]
    assert after_first.startswith(kept)
    assert store.path.read_bytes().startswith(after_first)
    assert b"".join([kept, *store.torn_pieces()]) == data
    assert len(store.torn_pieces()) == sum(kind == "torn" for kind, _ in case.findings)
    records = [json.loads(line) for line in store.path.read_bytes()[len(kept) :].split(b"\n") if line]
    assert sum(record["payload"].get("reason") == "transcript_repaired" for record in records) == bool(first)
    listed = list_sessions([MemoryFolder(quick)])
    assert [(one.session_id, one.problem) for one in listed] == [(SESSION_ID, "")]


def test_the_damage_battery_counts_its_cases(battery: Callable[[str], None]) -> None:
    battery(f"kinds of damage: {len(CASES)}, each through {OPENINGS} openings (3 above 1 MB)")


def test_a_naive_store_fails_the_damage_battery(quick: Path, good_lines: Lines) -> None:
    """It takes what is JSON, line by line, and says nothing."""
    store = Naive(quick)
    writer = store.open(REAL_DISK)
    for number in ALL:
        writer.record(told(number))
    writer.close()
    lines = store.path.read_bytes().split(b"\n")[:-1]
    assert len(lines) == len(good_lines)
    failed = []
    for case in CASES[1:]:
        store.path.write_bytes(case.make(lines))
        used = [number for number, _text in store.numbered()]
        if used != case.used or len(store.findings()) != len(case.findings):
            failed.append(case.name)
    assert len(failed) > len(CASES) * 3 // 4


def test_line_separators_of_unicode_end_no_record(quick: Path) -> None:
    texts = ["a\u2028b", "c\u2029d", "e\x85f", "g\x0bh\x0ci", "j\r\nk", "\x00", "\U0001f469\u200d\U0001f467"]
    store = Ours(quick)
    writer = store.open()
    for text in texts:
        writer.record(("run-1", 1, MessagePayload("user", text)))
    writer.close()
    assert [message.content for message in store.load().history_messages] == texts
    assert store.path.read_bytes().count(b"\n") == len(texts)
    assert store.findings() == []


def test_a_lone_surrogate_is_replaced_once_and_never_stops_a_record(quick: Path) -> None:
    """K05: half an emoji in any field, and the session could not be written or sent any more."""
    store = Ours(quick)
    writer = store.open()
    for text in ("half \ud83d", "\ude42 other half", "\ud83d\ude42 both"):
        writer.record(("run-1", 1, MessagePayload("user", text, metadata={"key \udc80": "\udcff"})))
    writer.close()
    expected = ["half �", "� other half", "🙂 both"]
    assert [message.content for message in store.load().history_messages] == expected
    store.path.read_bytes().decode("utf-8")
    assert store.opened_by_agent() == []
