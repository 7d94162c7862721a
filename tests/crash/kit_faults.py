"""A disk that fails, or takes its process with it, at one call."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memory.disk import Disk


@dataclass(frozen=True)
class Fault:
    """What happens at a call: an error (of this call alone, or of every one from there on), or SIGKILL.

    `part`: a write puts this share of its bytes down first. `after`: the call has been done when the fault comes.
    """

    name: str
    error: int = 0  # 0: the process is killed
    lasts: bool = False
    part: float = 0.0
    after: bool = False

    @property
    def kills(self) -> bool:
        return self.error == 0

    def strike(self) -> None:
        if self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(self.error, os.strerror(self.error))


KILLS = (
    Fault("killed before the call"),
    Fault("killed after the call", after=True),
    Fault("killed within a write", part=0.5),
)
ERRORS = (
    Fault("ENOSPC once", errno.ENOSPC),
    Fault("ENOSPC from there on", errno.ENOSPC, lasts=True),
    Fault("ENOSPC within a write", errno.ENOSPC, part=0.3),
    Fault("EIO once", errno.EIO),
    Fault("EIO from there on", errno.EIO, lasts=True),
    Fault("EIO after the call", errno.EIO, after=True),
)


class FaultyDisk(Disk):
    """Names every call in `calls`; the fault comes at call `at` (from 1; 0: never)."""

    def __init__(self, fault: Fault = ERRORS[0], at: int = 0) -> None:
        self.calls: list[str] = []
        self._fault = fault
        self._at = at

    def _is_due(self, name: str) -> bool:
        self.calls.append(name)
        return len(self.calls) == self._at or (self._fault.lasts and 0 < self._at < len(self.calls))

    @contextlib.contextmanager
    def _one_call(self, name: str) -> Iterator[None]:
        due = self._is_due(name)
        if due and not self._fault.after:
            self._fault.strike()
        yield
        if due:
            self._fault.strike()

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        part = int(len(data) * self._fault.part)
        if not part:
            with self._one_call("write"):
                return super().write(fd, data)
        if not self._is_due("write"):
            return super().write(fd, data)
        count = super().write(fd, memoryview(data)[:part])
        if self._fault.kills:
            self._fault.strike()
        return count  # as the kernel does it: a short write first, and the next one has the error

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        with self._one_call("open"):
            return super().open(path, flags, mode)

    def close(self, fd: int) -> None:
        super().close(fd)  # one that fails has closed all the same
        with self._one_call("close"):
            return

    def size(self, fd: int) -> int:
        with self._one_call("size"):
            return super().size(fd)

    def is_removed(self, fd: int) -> bool:
        with self._one_call("is_removed"):
            return super().is_removed(fd)

    def truncate(self, fd: int, size: int) -> None:
        with self._one_call("truncate"):
            super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        with self._one_call("fdatasync"):
            super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        with self._one_call("fsync"):
            super().fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        with self._one_call("rename"):
            super().rename(source, target)

    def unlink(self, path: Path) -> None:
        with self._one_call("unlink"):
            super().unlink(path)

    def mkdir(self, path: Path) -> None:
        with self._one_call("mkdir"):
            super().mkdir(path)


class DyingDisk(Disk):
    """The process dies within its first write that begins a record, when so many bytes of it are written."""

    def __init__(self, part: int) -> None:
        self._part = part

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        if not bytes(data).startswith(b'{"event_id"'):
            return super().write(fd, data)
        super().write(fd, memoryview(data)[: self._part])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError
