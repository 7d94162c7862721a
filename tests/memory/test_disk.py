"""Private from creation, whole at every moment."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.disk import Disk
from tests.memory.memory_kit import FaultyDisk, Place, in_run, life, user


@pytest.fixture(params=[0, 0o022], ids=["umask 0", "umask 022"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder.parent)): stat.S_IMODE(path.stat().st_mode) for path in paths}


@pytest.mark.usefixtures("umask")
def test_every_file_of_a_session_is_0600_and_every_directory_0700(tmp_path: Path) -> None:
    """K40."""
    place = Place(tmp_path / "state" / "memory")
    large = life("c", "completed", result="x" * 100_000)
    place.write(*in_run("run-1", 1, user("hello"), *large))
    place.put(place.data, b"torn")
    session = place.open()
    session.draft.append("run-1", 1, "half an answer")
    session.trace.log("message", "run-1", 1, {})
    found = modes(tmp_path / "state")
    assert len([name for name in found if name.startswith("state/memory/transcripts/transcript-")]) == 5
    assert {mode for name, mode in found.items() if (tmp_path / name).is_dir()} == {0o700}
    assert {name: oct(mode) for name, mode in found.items() if (tmp_path / name).is_file() and mode != 0o600} == {}
    session.close()


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Disk().private_directory(tmp_path / "a" / "b")
    assert modes(tmp_path) == {tmp_path.name: 0o755, f"{tmp_path.name}/a": 0o700, f"{tmp_path.name}/a/b": 0o700}


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        Disk().private_directory(tmp_path / "a" / "b")


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_replaced_file_has_its_old_or_its_new_content(tmp_path: Path, call: str, nth: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    disk = FaultyDisk(call, lambda n: n == nth, part=2)
    with contextlib.suppress(OSError):
        disk.replace(path, b"new and longer")
    assert path.read_bytes() in (b"old", b"new and longer")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_short_writes_are_gone_on_with(tmp_path: Path) -> None:
    disk = FaultyDisk("write", lambda n: n < 5, part=1)
    disk.replace(tmp_path / "file", b"abcdefgh")
    assert (tmp_path / "file").read_bytes() == b"abcdefgh"
