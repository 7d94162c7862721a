"""Processes that are not our children: who they are, and how to signal them without hitting a stranger.

A pid alone names nobody: it is used again. Here a process is a pid with its start time, and a signal goes through a
pidfd whose start time was checked after it was opened.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tools.supervisor import MARK, read_file, start_time


class Process(NamedTuple):
    pid: int
    start_ticks: int  # since boot

    def is_alive(self) -> bool:
        return start_time(self.pid) == self.start_ticks

    def send(self, number: signal.Signals) -> None:
        """Signal it if it still is the same process; otherwise nothing happens."""
        with suppress(ProcessLookupError, PermissionError):
            fd = os.pidfd_open(self.pid)
            try:
                if self.is_alive():
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)


class Whereabouts(NamedTuple):
    """Where pids mean what they say: the same boot of the same host, in the same pid namespace."""

    boot_id: str
    pid_namespace: str
    host: str

    def differs(self, other: Whereabouts) -> str:
        """What keeps pids of `other` from being looked up here, in words; empty when nothing does."""
        if self.boot_id != other.boot_id:  # unique by itself; the host's name may change while it is up
            same_host = self.host == other.host
            return "the machine has restarted since" if same_host else f"it ran on another host ({other.host})"
        if self.pid_namespace != other.pid_namespace:
            return "it ran in another container (pid namespace)"
        return ""


def here() -> Whereabouts:
    return Whereabouts(
        boot_id=read_file("/proc/sys/kernel/random/boot_id").decode().strip(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
        host=os.uname().nodename,
    )


def marked(action_id: str) -> list[Process]:
    """The living processes that carry the mark of an action in the environment they were started with."""
    mark = f"{MARK}={action_id}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and mark in read_file(f"/proc/{entry.name}/environ").split(b"\0"):
            started = start_time(int(entry.name))
            if started is not None:
                found.append(Process(int(entry.name), started))
    return sorted(found)
