"""Every torn byte of an append: by a limit on the file's size, by a short write, and by death within a write."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

from memory.errors import TranscriptUnavailable
from tests.crash.kit import REAL_DISK, Naive, Ours, Store, Tell, conversation
from tests.crash.kit_children import in_child
from tests.crash.kit_faults import DyingDisk
from tests.memory.memory_kit import Fact, FaultyDisk, in_run, says, user

BEFORE = conversation()[:3]
TORN: Fact = ("run-1", 1, says("部分 of a record 🙂 " * 4))
NEXT: Fact = ("run-1", 2, user("next"))


def prepared(store: Store) -> bytes:
    writer = store.open(REAL_DISK)
    for fact in BEFORE:
        writer.record(fact)
    writer.close()
    return store.path.read_bytes()


def length_of_torn(store: Ours) -> int:
    """Bytes of the record that the battery tears."""
    writer = store.open()
    before = store.path.stat().st_size
    writer.record(TORN)
    writer.close()
    return store.path.stat().st_size - before


def limited(file_bytes: int) -> None:
    """No file of this process may grow beyond so many bytes; only the soft limit, which can be lifted again."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))


def append_under_limit(store: Store, room: int, data: bytes) -> str:
    """Append with room for so many bytes, then without a limit one more. What went wrong, or ''."""
    store.path.write_bytes(data)
    known = store.known()
    writer = store.open(REAL_DISK)
    limited(len(data) + room)
    try:
        acked = writer.record(TORN) == len(known) + 1
    except TranscriptUnavailable as error:
        acked = False
        if not error.recoverable or store.path.read_bytes() != data:
            return f"room for {room} bytes: not cut back"
    limited(resource.RLIM_INFINITY)
    writer.record(NEXT)
    writer.close()
    now = store.known()
    if now[: len(known)] != known or len(now) != len(known) + 2:
        return f"room for {room} bytes: {len(now)} records instead of {len(known) + 2} ({acked=})"
    return ""


def test_a_file_size_limit_at_every_byte_of_a_record_costs_nothing(quick: Path, battery: Callable[[str], None]) -> None:
    store = Ours(quick)
    data, length = prepared(store), length_of_torn(store)

    def every_byte(tell: Tell) -> None:
        for room in range(length):
            tell(append_under_limit(store, room, data))

    ended = in_child(every_byte)
    assert (ended.status, len(ended.told)) == (0, length)
    assert [problem for problem in ended.told if problem] == []
    battery(f"torn append by RLIMIT_FSIZE: {length} sizes, record kept, cut back and written late")


def test_a_naive_store_fails_the_file_size_battery(quick: Path) -> None:
    store = Naive(quick)
    data = prepared(store)

    def every_byte(tell: Tell) -> None:
        for room in range(100):
            tell(append_under_limit(store, room, data))

    told = in_child(every_byte).told
    assert sum(bool(problem) for problem in told) == 100


def test_a_short_write_of_every_length_costs_nothing(quick: Path, battery: Callable[[str], None]) -> None:
    store = Ours(quick)
    data, length = prepared(store), length_of_torn(store)
    for part in range(length):
        store.put(data)
        disk = FaultyDisk("write", lambda n: n == 2, part=part)  # the first one writes the owner's note
        writer = store.open(disk)
        assert writer.record(TORN) == len(BEFORE) + 1
        writer.close()
        assert disk.calls >= 3, "the record was not written again"
        assert (len(store.known()), store.findings()) == (len(BEFORE) + 1, [])
    battery(f"torn append by a short write: {length} lengths")


def dying_at(store: Ours, part: int) -> Callable[[Tell], None]:
    def act(tell: Tell) -> None:
        tell(f"acked {store.open(DyingDisk(part)).record(TORN)}")

    return act


def test_death_at_every_byte_of_a_record_leaves_the_others(quick: Path, battery: Callable[[str], None]) -> None:
    store = Ours(quick)
    data, length = prepared(store), length_of_torn(store)
    known = store.known()[: len(BEFORE)]
    for part in range(length + 1):
        store.remove()
        store.put(data)
        assert in_child(dying_at(store, part)).was_killed
        is_whole = part >= length - 1
        found = store.opened_by_agent()
        assert [(one.kind, one.offset, one.bytes) for one in found] == (
            [("torn", len(data), part)] if 0 < part < length - 1 else []
        )
        assert store.opened_by_agent() == []
        assert store.known()[: len(BEFORE)] == known
        assert len(store.known()) == len(BEFORE) + is_whole + 2 + bool(found)
    battery(f"torn append by death: {length + 1} lengths")


def test_a_torn_record_never_touches_the_next_one(quick: Path) -> None:
    """K03: a full disk left half a record; the next append was glued to it and both were lost."""
    store = Ours(quick)
    data = prepared(store)
    store.put(data[:-40])
    (torn,) = store.opened_by_agent()
    assert (torn.kind, torn.kept_in) == ("torn", f"{store.path.name}.torn-1")
    assert store.torn_pieces() == [data[:-40].rpartition(b"\n")[2]]
    writer = store.open()
    for fact in in_run("run-1", 3, user("go on"), says("I do")):
        writer.record(fact)
    writer.close()
    texts = [message.content for message in store.load().history_messages]
    assert texts == ["go on", "I do"]
    assert store.opened_by_agent() == []
