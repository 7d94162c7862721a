"""Processes on this machine, found by a text in their environment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunningProcess:
    pid: int
    command: str  # its words, joined by spaces


def marked_with(text: str) -> list[RunningProcess]:
    """The processes that have the text in their environment; a zombie has none and is never found. Linux only."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if text.encode() in (entry / "environ").read_bytes():
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found.append(RunningProcess(int(entry.name), b" ".join(words).decode("utf-8", "replace").strip()))
        except OSError:  # ended in this moment, or another user's
            continue
    return found


def kill(pids: Iterable[int]) -> None:
    """SIGKILL each of these processes, by its pid alone."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def kill_marked(text: str, rounds: int = 20) -> None:
    """SIGKILL whoever has the text in the environment, until nobody is left that could have forked meanwhile."""
    for _ in range(rounds):
        found = marked_with(text)
        if not found:
            return
        kill(process.pid for process in found)
        time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all its threads together: exact to the microsecond. Linux only.

    Raises:
        OSError: there is no such process.
    """
    clock_of_process = (~pid << 3) | 2  # how Linux numbers the CPU clock of another process (clock_getcpuclockid)
    return time.clock_gettime(clock_of_process)


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process, of its living descendants, and of those that ended and were waited for.

    What ended counts in ticks of 10 ms. Linux only.

    Raises:
        OSError: there is no such process.
    """
    ended_ticks = sum(int(field) for field in _stat(pid)[13:15])
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _children(task)]
    return cpu_seconds(pid) + ended_ticks / os.sysconf("SC_CLK_TCK") + sum(map(tree_cpu_seconds, children))


def _children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat behind the name, so that field 14 of the manual is [11]."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def resident_bytes(pid: int) -> int:
    """Resident memory of a process.

    Raises:
        FileNotFoundError: there is no such process.
    """
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
