"""SIGKILL, ENOSPC and EIO at every relevant system call of a session, by `strace --inject`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.kit import REAL_DISK, Naive, Ours, Store, Tell, afterwards, scaled, turn, work
from tests.crash.kit_strace import calls_in, traced, why_not

FAULTS = {  # and the calls at which they can happen; all others are of no use to a crash
    "signal=KILL": ("open", "write", "fdatasync", "fsync", "ftruncate", "rename", "mkdir", "unlink", "flock"),
    "error=ENOSPC": ("open", "write", "fsync", "fdatasync", "rename", "mkdir"),
    "error=EIO": ("open", "read", "write", "fsync", "fdatasync", "ftruncate", "rename", "unlink", "flock"),
}
CASES_OF_EACH = 40  # of one fault at one system call: spread over all its occurrences


@pytest.fixture(scope="module", autouse=True)
def _needs_strace() -> None:
    if reason := why_not():
        pytest.skip(f"no faults at system calls: {reason}")


def turn_of(store: Store) -> Callable[[Tell], None]:
    return lambda tell: work(store, REAL_DISK, tell)


def outcomes(make: Callable[[], Store], log: Path) -> Iterator[tuple[str, list[str]]]:
    """For each fault at each call: the fault, and how the store broke the rule."""
    warm = make()
    turn_of(warm)(lambda _text: None)  # imports happen here
    written = warm.known()
    assert len(written) == len(turn())
    clean = traced(turn_of(make()), log)
    assert (clean.status, clean.told[-1]) == (0, f"synced {len(written)}")
    counts = Counter(calls_in(log))
    for fault, calls in FAULTS.items():
        for call in calls:
            for number in range(1, counts[call] + 1, max(1, counts[call] // scaled(CASES_OF_EACH))):
                store = make()
                ended = traced(turn_of(store), log, call=call, fault=f"{fault}:when={number}")
                crashed = [line for line in ended.told if line.startswith("traceback")]
                broken = [*crashed, *afterwards(store, written, ended.told)]
                yield f"{call} {fault}", [f"{call} {number} of {counts[call]}, {fault}: {one}" for one in broken]


def test_no_fault_at_any_system_call_loses_an_acknowledged_record(quick: Path, battery: Callable[[str], None]) -> None:
    numbers = itertools.count()
    broken: list[str] = []
    counts: Counter[str] = Counter()
    for fault, found in outcomes(lambda: Ours(quick / str(next(numbers))), quick / "calls.log"):
        counts[fault] += 1
        broken += found
    battery(f"system calls: {counts.total():,} faults ({', '.join(f'{n} {k}' for k, n in counts.items())})")
    assert broken == []


def test_a_naive_store_fails_the_battery_of_system_calls(quick: Path) -> None:
    numbers = itertools.count()
    broken = [
        one
        for _fault, found in outcomes(lambda: Naive(quick / str(next(numbers))), quick / "calls.log")
        for one in found
    ]
    assert broken
