"""Failpoints at every call of the disk: an acknowledged record is never lost, and no effect is without its record."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory.disk import Disk
from tests.crash.kit import REAL_DISK, Naive, Ours, Store, afterwards, conversation, turn, work
from tests.crash.kit_children import in_child
from tests.crash.kit_faults import ERRORS, KILLS, Fault, FaultyDisk
from tests.memory.memory_kit import Fact

TORN_BYTES = 50


@dataclass(frozen=True)
class Case:
    """What the files hold before a fault, and what is written then. `torn` bytes are at the end of the transcript."""

    name: str
    facts: list[Fact]
    prepare: Callable[[Store], bytes]


def nothing(_store: Store) -> bytes:
    return b""


def a_torn_record(store: Store) -> bytes:
    """A transcript whose last record a crash cut short, and a draft behind it."""
    writer = store.open(REAL_DISK)
    for fact in conversation():
        writer.record(fact)
    writer.draft("cut short")
    writer.close()
    data = store.path.read_bytes()[:-TORN_BYTES]
    store.path.write_bytes(data)
    return data[data.rfind(b"\n") + 1 :]


CASES = [Case("a new session", turn(), nothing), Case("a session with a torn record", turn()[1:6], a_torn_record)]


def clean_run(make: Callable[[], Store], case: Case) -> tuple[list[str], list[str]]:
    """The calls of the disk that the case makes, and what is known after it when none of them fails."""
    store, disk = make(), FaultyDisk()
    case.prepare(store)
    work(store, disk, lambda _text: None, case.facts)
    return disk.calls, store.known()


def told_under(fault: Fault, at: int, store: Store, case: Case, before: int) -> list[str]:
    """Write with a fault at one call. What was told; the records from before count as tried too."""
    disk: Disk = FaultyDisk(fault, at)
    told: list[str] = []
    if fault.kills:
        told = in_child(lambda tell: work(store, disk, tell, case.facts)).told
    else:
        work(store, disk, told.append, case.facts)
    assert not any(line.startswith("traceback") for line in told), told
    tried = sum(line.startswith("tried") for line in told)
    return [*told, f"tried {before + tried}"]


def outcomes(make: Callable[[], Store], case: Case, faults: tuple[Fault, ...]) -> Iterator[tuple[str, list[str]]]:
    """For each fault at each call: its name, and how the store broke the rule."""
    calls, written = clean_run(make, case)
    for fault, (at, call) in itertools.product(faults, enumerate(calls, 1)):
        if fault.part and call != "write":
            continue
        store = make()
        torn = case.prepare(store)
        before = len(store.known())
        told = told_under(fault, at, store, case, before)
        found = afterwards(store, written, told)
        if torn and isinstance(store, Ours) and store.torn_pieces()[:1] != [torn]:
            found.append("the torn bytes from before are lost")
        yield fault.name, [f"{fault.name}, call {at} ({call}): {one}" for one in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("faults", [KILLS, ERRORS], ids=["killed", "errors"])
def test_no_fault_at_any_call_loses_an_acknowledged_record(
    quick: Path, case: Case, faults: tuple[Fault, ...], battery: Callable[[str], None]
) -> None:
    numbers = itertools.count()
    broken: list[str] = []
    counts: Counter[str] = Counter()
    for name, found in outcomes(lambda: Ours(quick / str(next(numbers))), case, faults):
        counts[name] += 1
        broken += found
    battery(f"failpoints, {case.name}: {counts.total():,} faults ({', '.join(f'{n} {k}' for k, n in counts.items())})")
    assert broken == []


def test_a_naive_store_fails_the_failpoint_battery(quick: Path) -> None:
    numbers = itertools.count()
    broken = [
        one
        for _name, found in outcomes(lambda: Naive(quick / str(next(numbers))), CASES[0], ERRORS[:3])
        for one in found
    ]
    assert len(broken) > len(CASES[0].facts)


def test_after_openings_that_died_every_piece_set_aside_is_named(quick: Path, battery: Callable[[str], None]) -> None:
    """Two openings after a torn record die at any two calls; the third one names what lies beside it."""
    case = CASES[1]
    opening = conversation()[:1]
    calls, _ = clean_run(lambda: Ours(quick / "clean"), Case("", opening, a_torn_record))
    store = Ours(quick / "dying")
    pairs, unnamed = 0, []
    records = [at for at, call in enumerate(calls, 1) if call == "write"]  # the last ones begin records
    for first, second in itertools.product(range(1, len(calls) + 1), records):
        if store.path.parent.exists():
            store.remove()
        case.prepare(store)
        for at in (first, second):
            told_under(KILLS[2], at, store, Case("", opening, a_torn_record), 0)
        store.opened_by_agent()
        sides = {side.name for side in store.path.parent.glob(f"{store.path.name}.torn-*")}
        if sides != {one.kept_in for one in store.findings() if one.kept_in}:
            unnamed.append((first, calls[first - 1], second, calls[second - 1]))
        pairs += 1
    battery(f"failpoints, two openings that died: {pairs} pairs, {len(unnamed)} with an unnamed piece")
    assert unnamed == []
