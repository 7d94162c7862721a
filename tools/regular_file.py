"""Open what is a regular file, and nothing else: a FIFO or a device is refused by its kind before it can block."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from tools.base import CallRefused, ErrorCode, FileState
from tools.limits import CHUNK_BYTES
from tools.path_text import path_to_text

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFLNK: "a symbolic link that changed while it was looked at",
}
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def regular_file(path: Path, shown: str) -> Iterator[tuple[FileIO, os.stat_result]]:
    """Open a resolved path for reading, unbuffered. The stat is from before the first read.

    Raises:
        CallRefused: NOT_FOUND, or REFUSED with the kind of thing it is or the reason of the system.
    """
    try:
        refuse_special(path.lstat(), shown)  # opening alone can block, or rewind a tape
        fd = os.open(path, _OPEN_FLAGS)
        with os.fdopen(fd, "rb", buffering=0) as file:
            assert isinstance(file, FileIO)  # what buffering=0 gives
            looked_at = os.fstat(fd)
            refuse_special(looked_at, shown)
            yield file, looked_at
    except OSError as error:
        raise refusal(error, shown) from error


def refuse_special(found: os.stat_result, shown: str) -> None:
    """Raises CallRefused for anything but a regular file."""
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise CallRefused(ErrorCode.REFUSED, f"{shown} is a directory, not a file. Use Glob to list what is in it.")
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "a special file")
        raise CallRefused(ErrorCode.REFUSED, f"{shown} is {what}: only regular files can be used.")


def refusal(error: OSError, shown: str) -> CallRefused:
    """Put an error of the system in words for the model."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return CallRefused(ErrorCode.NOT_FOUND, f"{shown} does not exist.")
    if error.errno == errno.ELOOP:
        return CallRefused(ErrorCode.REFUSED, f"{shown} is a symbolic link that leads back to itself.")
    if error.errno == errno.ENAMETOOLONG:
        return CallRefused(ErrorCode.INVALID_ARGUMENTS, f"The path is too long: {shown[:100]}…")
    return CallRefused(ErrorCode.REFUSED, f"{shown} cannot be used: {error.strerror or error}.")


def chunks(file: FileIO, shown: str) -> Iterator[bytes]:
    """Read to the end whatever size the file claims (that of proc files is 0)."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
    if chunk is None:
        raise CallRefused(ErrorCode.REFUSED, f"{shown} does not give its content at once: it is no ordinary file.")


def state_of(path: Path, sha256: str, size: int, looked_at: os.stat_result, encoding: str = "") -> FileState:
    """A FileState whose time is from before the content was read, so that a later change shows."""
    return FileState(path_to_text(path), sha256, size, looked_at.st_mtime_ns, encoding)


def digest(path: Path, shown: str) -> FileState:
    """Hash a file of any size in constant memory. Raises CallRefused as `regular_file` does."""
    with regular_file(path, shown) as (file, looked_at):
        content, size = hashlib.sha256(), 0
        for chunk in chunks(file, shown):
            content.update(chunk)
            size += len(chunk)
        return state_of(path, content.hexdigest(), size, looked_at)


def holds(path: Path, data: bytes, shown: str) -> bool:
    """Whether a file holds exactly this, at a tenth of the cost of hashing. Raises CallRefused as `regular_file`."""
    with regular_file(path, shown) as (file, _):
        chunk, position = memoryview(bytearray(min(CHUNK_BYTES, len(data) + 1))), 0
        while size := file.readinto(chunk):
            if not data.startswith(chunk[:size], position):  # in place: a slice of the data would be a copy of it
                return False
            position += size
        return size == 0 and position == len(data)  # None: it does not give its content at once
