"""One live owner for a session (promise 8): a kernel lock for life, and a note beside it that says whose."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memory.disk import PRIVATE_FILE, Disk
from memory.errors import SessionBusy, TranscriptUnavailable
from memory.layout import SessionFiles

if TYPE_CHECKING:
    from filelock import FileLock


class Owner(msgspec.Struct, frozen=True):
    """Who holds, or last held, a session. Stale text unless the process it names is alive."""

    pid: int
    start_time: int  # clock ticks since boot: a reused pid has another one
    boot_id: str
    pid_namespace: str
    host: str

    @classmethod
    def current(cls) -> Owner:
        pid = os.getpid()
        return cls(pid, process_start_time(pid) or 0, boot_id(), pid_namespace(), socket.gethostname())

    def is_alive(self) -> bool:
        """True only for a process of this host, boot and pid namespace that is certainly the one named."""
        here = (self.boot_id, self.pid_namespace) == (boot_id(), pid_namespace())
        return here and process_start_time(self.pid) == self.start_time


def boot_id() -> str:
    """The id of this boot of the machine; '' where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """The namespace in which our pids mean something; '' where the system has none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def process_start_time(pid: int) -> int | None:
    """Clock ticks since boot at which a process started; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def read_owner(files: SessionFiles) -> Owner | None:
    """The owner note, or None when there is none that can be read."""
    try:
        return msgspec.json.decode(files.owner.read_bytes(), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return None


def _live_owner_pid(files: SessionFiles) -> int | None:
    for _attempt in range(20):  # the winner of a race writes its note a moment after it took the lock
        owner = read_owner(files)
        if owner and owner.is_alive():
            return owner.pid
        time.sleep(0.01)
    return None


class Lease:
    """Held from `acquire` to `release`, or to the death of the process, at which the kernel frees it."""

    def __init__(self, files: SessionFiles, lock: FileLock, disk: Disk) -> None:
        self._files = files
        self._lock = lock
        self._disk = disk

    @classmethod
    def acquire(cls, files: SessionFiles, disk: Disk) -> Lease:
        """Take the session, or raise SessionBusy with the owner's pid at once.

        Raises:
            SessionBusy: another process holds it.
            TranscriptUnavailable: the folder cannot be written.
        """
        from filelock import FileLock, Timeout

        try:
            disk.private_directory(files.lock.parent)
            lock = FileLock(files.lock, timeout=0, mode=PRIVATE_FILE, thread_local=False)
            lock.acquire()
            try:
                disk.replace(files.owner, msgspec.json.encode(Owner.current()) + b"\n")
            except BaseException:
                lock.release()
                raise
        except Timeout as error:
            raise SessionBusy(files.session_id, _live_owner_pid(files)) from error
        except OSError as error:
            raise TranscriptUnavailable(
                f"The session's folder {files.lock.parent} cannot be written ({error.strerror}). Free some space or "
                "make it writable, choose another with --memory-dir, or run with --no-session.",
                recoverable=False,
            ) from error
        return cls(files, lock, disk)

    def release(self) -> None:
        """Give the session back. The lock file stays: deleting it would let two owners in."""
        with contextlib.suppress(OSError):
            self._disk.unlink(self._files.owner)
        self._lock.release()
