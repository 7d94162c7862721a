"""The disk as one object: every operating-system call that promises rest on goes through it.

The store, the blobs and (through a Protocol of their own) the file tools get a `Disk` handed in, so that a test can
make any single call fail without patching anything.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


class Disk:
    """Thin calls first (override these to make them fail), then the three things that are built from them."""

    def open(self, path: Path, flags: int, mode: int = PRIVATE_FILE) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        return os.write(fd, data)

    def size(self, fd: int) -> int:
        return os.lseek(fd, 0, os.SEEK_END)  # a quarter of the cost of fstat; where we append, the offset means nothing

    def is_removed(self, fd: int) -> bool:
        """Has an open file lost its last name?"""
        return os.fstat(fd).st_nlink == 0

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def begin_sync(self, fd: int, offset: int, size: int) -> None:
        """Let the device begin with bytes that were just written: a hint, the sync that follows tells how it went."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, offset, size, os.POSIX_FADV_DONTNEED)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def chmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path) -> None:
        path.mkdir(mode=PRIVATE_DIRECTORY)

    # -- built from the above

    def write_all(self, fd: int, data: bytes | bytearray | memoryview) -> None:
        """Write every byte. Raises OSError; how much was written then is not known."""
        view = memoryview(data)
        while view:
            view = view[self.write(fd, view) :]

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.fsync(fd)
        finally:
            self.close(fd)

    def private_directory(self, path: Path) -> None:
        """Make a directory and its missing parents, each 0700 from creation and durable in its parent."""
        if path.is_dir():
            return
        if path.parent != path:
            self.private_directory(path.parent)
        try:
            self.mkdir(path)
        except FileExistsError:
            if path.is_dir():
                return  # somebody else made it in this moment
            raise
        self.sync_directory(path.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Give a private file a new whole content: after a crash it has the old or the new one. Durable on return."""
        temp = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        fd = self.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                self.write_all(fd, data)
                self.fsync(fd)
            finally:
                self.close(fd)
            self.rename(temp, path)
        except BaseException:
            temp.unlink(missing_ok=True)
            raise
        self.sync_directory(path.parent)

    def discard_unfinished(self, folder: Path, beginning: str) -> None:
        """Remove what a `replace` that was killed left in a folder, of files whose names begin so. Never raises."""
        with suppress(OSError):
            for path in folder.glob(f".{glob.escape(beginning)}*.tmp"):
                self.unlink(path)


def open_regular(path: Path) -> int:
    """Open a file for reading. A FIFO of that name does not block, and a device is not read without end.

    Raises:
        OSError: there is no regular file of that name, or it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a regular file")
    return fd
