"""Every byte truncation: each intact record is used, each torn byte is kept, and it is told once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crash.kit import REAL_DISK, Naive, Ours, Store, conversation
from tests.kit.transcript import breaches
from tests.memory.memory_kit import Fact, user

NEXT: Fact = ("", 0, user("what comes next"))


def written(store: Store) -> tuple[bytes, list[str], list[int]]:
    """A transcript, what a reader knows of it, and where each record ends (its newline may be missing)."""
    writer = store.open(REAL_DISK)
    for fact in conversation():
        writer.record(fact)
    writer.close()
    data = store.path.read_bytes()
    return data, store.known(), [at for at, byte in enumerate(data) if byte == ord("\n")]


def test_every_cut_uses_each_intact_record_keeps_each_torn_byte_and_tells_it_once(
    quick: Path, battery: Callable[[str], None]
) -> None:
    store = Ours(quick)
    data, all_known, ends = written(store)
    torn_cuts = 0
    for cut in range(len(data) + 1):
        store.remove()
        store.put(data[:cut])
        whole = sum(end <= cut for end in ends)
        rest = b"" if cut in ends else data[data[:cut].rfind(b"\n") + 1 : cut]
        torn = [("torn", cut - len(rest), len(rest))] if rest else []
        torn_cuts += bool(rest)
        assert store.known() == all_known[:whole], cut
        assert [(one.kind, one.offset, one.bytes) for one in store.opened_by_agent()] == torn, cut
        assert store.torn_pieces() == ([rest] if rest else []), cut
        assert store.opened_by_agent() == [], cut
        now = store.known()
        assert (now[:whole], len(now)) == (all_known[:whole], whole + 2 + len(torn)), cut
        assert breaches(store.path) == [], cut
    battery(f"truncation: {len(data) + 1:,} cuts of {len(ends)} records, {torn_cuts:,} with torn bytes")


def test_a_naive_store_fails_the_truncation_battery(quick: Path) -> None:
    store = Naive(quick)
    data, _, ends = written(store)
    lost = 0
    for cut in range(0, len(data) + 1, 7):
        store.path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        writer = store.open()
        writer.record(NEXT)
        writer.close()
        lost += len(store.known()) != whole + 1  # the next record is glued to the torn one
    assert lost > len(data) // 14
