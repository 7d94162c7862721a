"""Many cases of one battery at a time: most of a case is waiting for a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Case = TypeVar("Case")
Found = TypeVar("Found")

WORKERS = 2  # processes of the program that run at once: as many as the smallest machine has cores


def side_by_side(job: Callable[[Case], Found], cases: Sequence[Case]) -> list[Found]:
    """What `job` returns for every case, in order.

    Raises:
        ExceptionGroup: of all failures, each with a note that names its case.
    """

    def one(case: Case) -> Found | Exception:
        try:
            return job(case)
        except Exception as error:  # noqa: BLE001 - collected, and raised below
            error.add_note(f"case: {case!r}")
            return error

    with ThreadPoolExecutor(WORKERS) as pool:
        outcomes = list(pool.map(one, cases))
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases failed", failures)
    return [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
