"""Give a file a new whole content by rename, or say why that cannot be done without harm (promise 9).

Who looks at the path at any time, also after a crash, sees the complete old or the complete new content.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.base import CallRefused, ErrorCode, FileState
from tools.content import Content
from tools.encoding import remembered_name
from tools.limits import WRITE_BYTES
from tools.regular_file import holds, refuse_special, state_of

PRIVATE_FILE = 0o600
NEW_FILE = 0o666  # the system takes the umask away
NEW_DIRECTORY = 0o777

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of Linux
_CHATTR_FLAGS = 0x0080C0CF  # s u c S d A j t C; i and a keep a file from being replaced at all

Link = Callable[[Path, Path], None]


class Disk(Protocol):
    """The calls that writing rests on; handed in, so that a test can make any of them fail."""

    def open(self, path: Path, flags: int, mode: int = PRIVATE_FILE) -> int: ...

    def close(self, fd: int) -> None: ...

    def write_all(self, fd: int, data: bytes | bytearray | memoryview) -> None: ...

    def begin_sync(self, fd: int, offset: int, size: int) -> None: ...

    def fsync(self, fd: int) -> None: ...

    def chmod(self, fd: int, mode: int) -> None: ...

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def mkdir(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None: ...


@dataclass(frozen=True)
class Replaced:
    """The new state of the file; `warning` is a sentence when it is whole, but not all went well after that."""

    state: FileState
    warning: str = ""


@dataclass(frozen=True)
class Replacement:
    """One file to be written: `directory` is its pinned directory, `path` and `shown` name it for people."""

    directory: Path
    path: Path
    shown: str
    content: Content
    expected: bytes | None  # what it must still hold right before the change; None: it must not exist
    temp_name: str


def refuse_irreplaceable(path: Path, shown: str) -> None:
    """Raises CallRefused (REFUSED) where a rename would lose something: links, owner, mount, a closed directory."""
    found = path.lstat()
    refuse_special(found, shown)
    if found.st_nlink > 1:
        raise _refused(shown, f"it has {found.st_nlink} hard links, and replacing it would split them")
    if not _may_give(found):
        raise _refused(shown, f"it belongs to another owner (uid {found.st_uid}, gid {found.st_gid})")
    if _is_mount_point(path):
        raise _refused(shown, "it is a mount point of its own (a bind mount)")
    refuse_closed_directory(path.parent, shown)


def refuse_closed_directory(directory: Path, shown: str) -> None:
    """Raises CallRefused (REFUSED) where no file can be made."""
    if not directory.is_dir():
        raise _refused(shown, f"{directory.name} is not a directory")
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _refused(shown, "its directory cannot be written to")


def replace_whole(disk: Disk, link: Link, job: Replacement) -> Replaced:
    """Write beside the file, sync, look once more, rename, sync the directory.

    Raises:
        CallRefused: the file is what it was before the call, and no temp file is left.
    """
    target, temp = job.directory / job.path.name, job.directory / job.temp_name
    try:
        model = None if job.expected is None else target.lstat()
        if model is not None:
            refuse_irreplaceable(target, job.shown)
        fd = disk.open(
            temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, NEW_FILE if model is None else PRIVATE_FILE
        )
        try:
            state = _fill(disk, fd, job, target if model is not None else None)
            if job.expected is not None:
                _publish_over(disk, job, job.expected, temp, target)
            else:
                _publish_new(disk, link, job, temp, target)
        except BaseException:
            with contextlib.suppress(OSError):
                disk.unlink(temp)
            raise
    except OSError as error:
        raise _refused(job.shown, error.strerror or str(error)) from error
    return Replaced(state, _settle(disk, job.directory, temp))


def new_directory(disk: Disk, path: Path) -> None:
    """Make one directory as `mkdir` would, durable in its parent. Raises OSError."""
    disk.mkdir(path)
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        disk.chmod(fd, NEW_DIRECTORY & ~_umask())
    finally:
        disk.close(fd)
    disk.sync_directory(path.parent)


def _fill(disk: Disk, fd: int, job: Replacement, model: Path | None) -> FileState:
    try:
        _write(disk, fd, job.content)
        if model is not None:
            _copy_attributes(disk, model, fd, job.shown)
        disk.fsync(fd)
        content = job.content
        return state_of(job.path, content.sha256, content.size, os.fstat(fd), remembered_name(content.encoding))
    finally:
        disk.close(fd)


def _write(disk: Disk, fd: int, content: Content) -> None:
    """Write all pieces. The device begins with a large one at once, and not when the sync waits for it."""
    offset = 0
    for piece in content.pieces:
        for start in range(0, len(piece), WRITE_BYTES):
            part = memoryview(piece)[start : start + WRITE_BYTES]
            disk.write_all(fd, part)
            if len(part) == WRITE_BYTES:
                disk.begin_sync(fd, offset, len(part))
            offset += len(part)


def _publish_over(disk: Disk, job: Replacement, expected: bytes, temp: Path, target: Path) -> None:
    if not holds(target, expected, job.shown):
        raise CallRefused(ErrorCode.CHANGED_SINCE_READ, f"{job.shown} changed in this moment. Read it again.")
    disk.rename(temp, target)


def _publish_new(disk: Disk, link: Link, job: Replacement, temp: Path, target: Path) -> None:
    """By a second name for the temp file, which unlike a rename cannot overwrite what appeared meanwhile."""
    try:
        link(temp, target)
    except FileExistsError:
        message = f"{job.shown} was created by somebody else in this moment. Read it first."
        raise CallRefused(ErrorCode.CHANGED_SINCE_READ, message) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS) or os.path.lexists(target):
            raise
        disk.rename(temp, target)  # a file system without hard links


def _settle(disk: Disk, directory: Path, temp: Path) -> str:
    """The file has its new content; what fails from here on is a warning."""
    warnings = []
    if os.path.lexists(temp):
        try:
            disk.unlink(temp)
        except OSError as error:
            warnings.append(f"Its second name {temp.name} could not be removed ({error.strerror}).")
    try:
        disk.sync_directory(directory)
    except OSError as error:
        warnings.append(f"Its directory could not be synced ({error.strerror}): a power cut may undo the change.")
    return " ".join(warnings)


def _copy_attributes(disk: Disk, model: Path, fd: int, shown: str) -> None:
    """Owner first (changing it clears mode bits), then attributes (ACLs among them), then the mode."""
    wanted, made = model.lstat(), os.fstat(fd)
    try:
        if (wanted.st_uid, wanted.st_gid) != (made.st_uid, made.st_gid):
            os.fchown(fd, wanted.st_uid, wanted.st_gid)
        if hasattr(os, "listxattr"):
            _copy_extended_attributes(model, fd)
        _copy_inode_flags(model, fd)
    except OSError as error:
        reason = f"its owner or attributes cannot be kept ({error.strerror})"
        raise _refused(shown, reason) from error
    disk.chmod(fd, stat.S_IMODE(wanted.st_mode))


def _copy_extended_attributes(model: Path, fd: int) -> None:
    try:
        wanted = {name: os.getxattr(model, name, follow_symlinks=False) for name in os.listxattr(model)}
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return
        raise
    made = {name: os.getxattr(fd, name) for name in os.listxattr(fd)}
    for name, value in wanted.items():
        if made.get(name) != value:
            os.setxattr(fd, name, value)
    for name in made.keys() - wanted.keys():  # what the directory's default ACL gave
        os.removexattr(fd, name)


def _copy_inode_flags(model: Path, fd: int) -> None:
    """What `chattr` sets, where there is such a thing. Raises OSError."""
    source = os.open(model, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        wanted, made = _inode_flags(source), _inode_flags(fd)
    finally:
        os.close(source)
    change = (wanted ^ made) & _CHATTR_FLAGS
    if change:
        fcntl.ioctl(fd, _SET_FLAGS, struct.pack("l", made ^ change))


def _inode_flags(fd: int) -> int:
    if sys.platform != "linux":
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(fd, _GET_FLAGS, bytes(8))[:4], sys.byteorder)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM):
            return 0  # a file system without them
        raise


def _may_give(found: os.stat_result) -> bool:
    """Whether a file of ours can be given this owner and group."""
    if os.geteuid() == 0:
        return True
    return found.st_uid == os.geteuid() and found.st_gid in {os.getegid(), *os.getgroups()}


def _is_mount_point(path: Path) -> bool:
    """A bind-mounted file has another mount id than its directory; its device number says nothing."""
    return _mount_id(path) != _mount_id(path.parent)


def _mount_id(path: Path) -> str:
    if not hasattr(os, "O_PATH"):
        return ""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text("ascii").splitlines()
        return next((line for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return ""  # no /proc: the rename itself then says EBUSY
    finally:
        os.close(fd)


def _umask() -> int:
    """The umask of the process, without setting it for a moment as os.umask would."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    except OSError:
        return 0o022
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)


def _refused(shown: str, reason: str) -> CallRefused:
    return CallRefused(ErrorCode.REFUSED, f"{shown} was not changed: {reason}.")
