"""One live owner, by the kernel's own lock; real processes."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from memory.disk import Disk
from memory.errors import SessionBusy, TranscriptUnavailable
from memory.layout import MemoryFolder, SessionFiles
from memory.lease import Lease, Owner, boot_id, pid_namespace, process_start_time, read_owner
from tests.kit.checkout import CHECKOUT
from tests.memory.memory_kit import SESSION_ID, FaultyDisk

HOLDER = f"""
import subprocess, sys, time
from pathlib import Path
from memory.disk import Disk
from memory.layout import MemoryFolder
from memory.lease import Lease
lease = Lease.acquire(MemoryFolder(Path(sys.argv[1])).session({SESSION_ID!r}), Disk())
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return MemoryFolder(tmp_path).session(SESSION_ID)


@contextmanager
def holder(files: SessionFiles) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that holds the session, and the pid of a child of its own that lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(files.folder)],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        yield process, child
    finally:
        os.kill(child, 9)
        process.kill()
        process.communicate()


def test_the_second_process_gets_the_pid_of_the_first(files: SessionFiles) -> None:
    """K06."""
    with holder(files) as (process, _child):
        with pytest.raises(SessionBusy) as busy:
            Lease.acquire(files, Disk())
        assert (busy.value.owner_pid, busy.value.session_id) == (process.pid, SESSION_ID)
        assert str(busy.value) == f"Session {SESSION_ID} is in use by process {process.pid}."


def test_a_killed_holder_leaves_a_free_session_even_if_its_children_live(files: SessionFiles) -> None:
    with holder(files) as (process, child):
        process.kill()
        process.wait()
        assert process_start_time(child) is not None
        owner = read_owner(files)
        assert owner is not None and (owner.pid, owner.is_alive()) == (process.pid, False)
        Lease.acquire(files, Disk()).release()


def test_a_forked_child_neither_holds_the_session_nor_frees_it(files: SessionFiles) -> None:
    lease = Lease.acquire(files, Disk())
    ready, say_ready = os.pipe()
    may_end, say_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(say_ready, b"x")
        os.read(may_end, 1)
        os._exit(0)
    os.read(ready, 1)
    with pytest.raises(SessionBusy):
        Lease.acquire(files, Disk())
    lease.release()
    Lease.acquire(files, Disk()).release()  # the child lives, and does not hold it
    os.write(say_end, b"x")
    os.waitpid(child, 0)
    for fd in (ready, say_ready, may_end, say_end):
        os.close(fd)


def test_a_lease_is_given_back_and_the_lock_file_stays(files: SessionFiles) -> None:
    lease = Lease.acquire(files, Disk())
    assert read_owner(files) == Owner.current()
    lock = files.lock.stat().st_ino
    lease.release()
    assert read_owner(files) is None
    Lease.acquire(files, Disk()).release()
    assert (files.lock.stat().st_ino, files.lock.stat().st_size) == (lock, 0)


@pytest.mark.parametrize("call", ["mkdir", "open", "write", "fsync", "rename"])
def test_a_lease_that_cannot_be_written_down_is_not_kept(files: SessionFiles, call: str) -> None:
    disk = FaultyDisk(call, lambda n: n == 1, error=errno.EROFS)
    with pytest.raises(TranscriptUnavailable, match="Read-only") as failed:
        Lease.acquire(files, disk)
    assert not failed.value.recoverable
    disk.is_mended = True
    Lease.acquire(files, disk).release()  # not SessionBusy, though the error is still held


def test_the_owner_is_this_process() -> None:
    owner = Owner.current()
    assert owner == Owner(
        os.getpid(), process_start_time(os.getpid()) or 0, boot_id(), pid_namespace(), socket.gethostname()
    )
    assert owner.is_alive()


@pytest.mark.parametrize(
    "change",
    [{"boot_id": "another boot"}, {"pid_namespace": "pid:[1]"}, {"start_time": 1}, {"pid": 2**22 + 1}],
    ids=["boot", "namespace", "reused pid", "no such pid"],
)
def test_an_owner_that_cannot_be_told_apart_from_another_process_is_not_alive(change: dict[str, object]) -> None:
    assert not msgspec.structs.replace(Owner.current(), **change).is_alive()


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start_time(process.pid) is None
    process.wait()


@pytest.mark.parametrize("note", [b"", b"\0\0", b"{}", b"[1]", b'{"pid":"x"}', b"\xff"])
def test_an_owner_note_that_cannot_be_read_is_none_and_no_error(files: SessionFiles, note: bytes) -> None:
    files.owner.parent.mkdir(parents=True)
    files.owner.write_bytes(note)
    assert read_owner(files) is None
    Lease.acquire(files, Disk()).release()
