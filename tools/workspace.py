"""The workspace: which paths the file tools may touch, and how they read and replace what is there.

Real paths decide. A path is resolved once, when a call is planned; whatever is opened later is checked to lie where
it was resolved to, so that a link swapped in between leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from io import FileIO
from itertools import islice
from pathlib import Path

from tools.base import CallRefused, ErrorCode, FileState
from tools.content import Content
from tools.limits import NAME_BYTES_MAX
from tools.path_text import is_unfit, path_to_text, text_to_path
from tools.regular_file import chunks, digest, holds, refusal, regular_file
from tools.whole_file import (
    Disk,
    Link,
    Replaced,
    Replacement,
    new_directory,
    refuse_closed_directory,
    refuse_irreplaceable,
    replace_whole,
)

__all__ = ["Disk", "Workspace"]

_OPEN_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_NAMES_LOOKED_AT_MAX = 2_000


class Workspace:
    """One root directory that texts are relative to, and perhaps others that may be used as well.

    Paths given out are absolute and resolved; texts are as `path_text` writes them.
    """

    def __init__(self, root: Path, disk: Disk, link: Link = os.link, extra_roots: Sequence[Path] = ()) -> None:
        self.root = Path(os.path.realpath(root))
        self._roots = [self.root]
        self._disk = disk
        self._link = link
        for extra in extra_roots:
            self.add_root(Path(os.path.realpath(extra)))

    @property
    def extra_roots(self) -> Sequence[Path]:
        """The other directories that may be used."""
        return self._roots[1:]

    def add_root(self, root: Path) -> None:
        """Let another directory be used, too: a resolved path, which a link put in its place later does not move."""
        if root not in self._roots:
            self._roots.append(root)

    # -- names

    def resolve(self, file_path: str) -> Path:
        """The real path behind a text of the model: relative to the root, `~` is an ordinary name.

        Raises:
            CallRefused: INVALID_ARGUMENTS (no path at all), OUTSIDE_WORKSPACE, or REFUSED (links that form a loop).
        """
        if not file_path:
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, "The path is empty. Give a path relative to the workspace.")
        try:
            wanted = text_to_path(file_path)
        except UnicodeEncodeError as error:
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, "The path holds half a character.") from error
        if "\0" in str(wanted):
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, "A path cannot hold a NUL byte.")
        if file_path.startswith("file://"):
            raise CallRefused(ErrorCode.INVALID_ARGUMENTS, f"{file_path[:200]} is an address. Give a path.")
        path = Path(os.path.realpath(self.root / wanted))
        self._refuse_outside(path, file_path)
        try:
            path.lstat()
        except FileNotFoundError:
            if is_unfit(file_path):
                message = f"There is no {file_path[:200]!r}. A new name with such characters is written as $'...'."
                raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message) from None
            other = _composed_otherwise(path)
            return path if other is None else self.resolve(path_to_text(other))  # it may be a link
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                return path
            raise refusal(error, file_path) from error
        if path.is_symlink():  # realpath resolves every link but those of a loop
            raise refusal(OSError(errno.ELOOP, ""), file_path)
        return path

    def contains(self, path: Path) -> bool:
        """Whether a resolved path lies inside."""
        return any(path == root or root in path.parents for root in self._roots)

    def display(self, path: Path) -> str:
        """A path for people and for the next call: relative to the root where it lies in it."""
        return path_to_text(path.relative_to(self.root) if path.is_relative_to(self.root) else path)

    # -- reading

    @contextmanager
    def open(self, path: Path) -> Iterator[tuple[FileIO, os.stat_result]]:
        """Open a regular file. Raises CallRefused as `regular_file` does; what is missing gets names like it."""
        shown = self.display(path)
        try:
            with regular_file(path, shown) as (file, looked_at):
                self._refuse_moved(file.fileno(), shown)
                yield file, looked_at
        except CallRefused as refused:
            if refused.code is ErrorCode.NOT_FOUND:
                raise CallRefused(refused.code, refused.message + self._names_like(path)) from refused
            raise

    def read(self, path: Path, bytes_max: int) -> bytes:
        """The whole content. Raises CallRefused, also (REFUSED) for a file that is larger than `bytes_max`."""
        shown = self.display(path)
        with self.open(path) as (file, looked_at):
            parts, size = [], 0
            if looked_at.st_size > bytes_max:
                raise _too_large(shown, bytes_max)
            if 0 < looked_at.st_size <= bytes_max:
                parts = [file.read(looked_at.st_size) or b""]
                size = len(parts[0])
            for chunk in chunks(file, shown):
                size += len(chunk)
                if size > bytes_max:
                    raise _too_large(shown, bytes_max)
                parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def state(self, path: Path) -> FileState | None:
        """What is there now, None for nothing. Raises CallRefused (REFUSED) when it cannot be read."""
        try:
            return digest(path, self.display(path))
        except CallRefused as refused:
            if refused.code is ErrorCode.NOT_FOUND:
                return None
            raise

    def holds(self, path: Path, data: bytes | None) -> bool:
        """Whether a file holds exactly this, None for nothing. Raises CallRefused (REFUSED) when it cannot be read."""
        if data is None:
            return self.state(path) is None
        try:
            return holds(path, data, self.display(path))
        except CallRefused as refused:
            if refused.code is ErrorCode.NOT_FOUND:
                return False
            raise

    # -- writing

    def refuse_irreplaceable(self, path: Path) -> None:
        """Raises CallRefused (REFUSED) when `replace` could not give this path a new content."""
        shown = self.display(path)
        try:
            if os.path.lexists(path):
                refuse_irreplaceable(path, shown)
            else:
                refuse_closed_directory(next(p for p in path.parents if os.path.lexists(p)), shown)
        except OSError as error:
            raise refusal(error, shown) from error

    def replace(self, path: Path, content: Content, *, expected: bytes | None, temp_name: str) -> Replaced:
        """Give a resolved path a new whole content; `expected` None means that it must not exist yet.

        Mode, owner and extended attributes are kept; missing directories of a new file are made.

        Raises:
            CallRefused: nothing was changed (REFUSED with the reason, CHANGED_SINCE_READ).
        """
        shown = self.display(path)
        try:
            if expected is None:
                self._make_parents(path)
            with self._pinned(path.parent, shown) as directory:
                job = Replacement(directory, path, shown, content, expected, temp_name)
                return replace_whole(self._disk, self._link, job)
        except OSError as error:
            raise CallRefused(ErrorCode.REFUSED, f"{shown} was not changed: {error.strerror or error}.") from error

    def remove(self, path: Path, *, expected: bytes) -> None:
        """Remove a resolved path that holds exactly the expected content.

        Raises:
            CallRefused: nothing was changed (REFUSED with the reason, CHANGED_SINCE_READ).
        """
        shown = self.display(path)
        try:
            with self._pinned(path.parent, shown) as directory:
                target = directory / path.name
                if not holds(target, expected, shown):
                    raise CallRefused(ErrorCode.CHANGED_SINCE_READ, f"{shown} changed meanwhile.")
                self._disk.unlink(target)
                self._disk.sync_directory(directory)
        except OSError as error:
            raise CallRefused(ErrorCode.REFUSED, f"{shown} was not removed: {error.strerror or error}.") from error

    def discard_temp(self, path: Path, temp_name: str) -> None:
        """Remove what a killed `replace` of this path left. A missing file is fine. Raises OSError."""
        ours = temp_name.startswith(".") and temp_name.endswith(".tmp") and "/" not in temp_name
        if not (ours and self.contains(path) and path.parent.is_dir()):
            return
        with self._pinned(path.parent, self.display(path)) as directory:
            temp = directory / temp_name
            if os.path.lexists(temp) and stat.S_ISREG(temp.lstat().st_mode):
                self._disk.unlink(temp)
                self._disk.sync_directory(directory)

    # -- inner parts

    def _make_parents(self, path: Path) -> None:
        missing = [p for p in path.parents if not os.path.lexists(p)]
        for directory in reversed(missing):
            with self._pinned(directory.parent, self.display(path)) as parent:
                new_directory(self._disk, parent / directory.name)

    @contextmanager
    def _pinned(self, directory: Path, shown: str) -> Iterator[Path]:
        """A path to an open directory that goes on to mean this directory, whatever is renamed or linked meanwhile."""
        fd = os.open(directory, _OPEN_DIRECTORY)
        try:
            self._refuse_moved(fd, shown)
            pinned = Path(f"/proc/self/fd/{fd}")
            yield pinned if os.path.lexists(pinned) else directory
        finally:
            os.close(fd)

    def _refuse_moved(self, fd: int, shown: str) -> None:
        try:
            opened = Path(f"/proc/self/fd/{fd}").readlink()
        except OSError:
            return  # no /proc: the check of `resolve` stands alone
        self._refuse_outside(opened, shown)

    def _refuse_outside(self, path: Path, shown: str) -> None:
        if not self.contains(path):
            roots = " and ".join(map(path_to_text, self._roots))
            message = f"{shown[:200]} lies outside of the workspace {roots}. Use a path inside it."
            raise CallRefused(ErrorCode.OUTSIDE_WORKSPACE, message)

    def _names_like(self, path: Path) -> str:
        """A hint for a mistyped name: names beside it, or the nearest directory that does exist."""
        try:
            parent = next(p for p in path.parents if p.is_dir())
            if parent != path.parent:
                return f" Neither does its directory; {self.display(parent)} is the nearest that does."
            with os.scandir(parent) as entries:
                names = [entry.name for entry in islice(entries, _NAMES_LOOKED_AT_MAX)]
        except OSError:
            return ""  # a directory that may not be listed
        close = get_close_matches(path.name[:NAME_BYTES_MAX], names, n=3)
        return " Did you mean " + ", ".join(self.display(parent / name) for name in close) + "?" if close else ""


def _too_large(shown: str, bytes_max: int) -> CallRefused:
    message = f"{shown} is larger than {bytes_max:,} bytes. Use a command (Bash) for it."
    return CallRefused(ErrorCode.REFUSED, message)


def _composed_otherwise(path: Path) -> Path | None:
    """The file of the same name in another Unicode composition, which looks the same; None when there is none."""
    forms = (path.with_name(unicodedata.normalize(form, path.name)) for form in ("NFC", "NFD"))
    return next((other for other in forms if other != path and other.is_file()), None)
