"""Power cuts: an ext4 in a file, shut down without flushing its journal, and mounted again."""

from __future__ import annotations

import array
import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from memory.disk import Disk
from memory.reader import DamageKind
from tests.crash.kit import Naive, Ours, Store, Tell, afterwards, scaled, work
from tests.crash.kit_children import Child

IMAGE_BYTES = 24 << 20
GOING_DOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, the same number as XFS_IOC_GOINGDOWN
NO_LOG_FLUSH = 2  # what the journal has not written yet is lost, as when the power goes
CUTS = 60


class PoweredDevice:
    """An ext4 of its own, mounted at `folder`."""

    def __init__(self, place: Path) -> None:
        self._image, self.folder = place / "disk.img", place / "mounted"
        self.folder.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        # One device for all mounts: what an earlier one still has in its buffers is seen by the next.
        self._device = _run("losetup", "--find", "--show", str(self._image)).strip()
        self._mount()

    def shut_down(self) -> None:
        """The power goes. Whoever has files open there must let them go before it can come back."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, GOING_DOWN, array.array("I", [NO_LOG_FLUSH]))
        finally:
            os.close(fd)

    def start_again(self) -> None:
        """The power is back: the journal is played."""
        _run("umount", str(self.folder))
        self._mount()

    def remove(self) -> None:
        with suppress(OSError):
            _run("umount", str(self.folder))
        with suppress(OSError):
            _run("losetup", "--detach", self._device)

    def _mount(self) -> None:
        _run("mount", self._device, str(self.folder))


def _run(*command: str) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class DiskUntilCut(Disk):
    """Says `cut` and waits for its end right before call `at` of those that reach the device (0: never)."""

    def __init__(self, at: int, tell: Tell) -> None:
        self.calls = 0
        self._at = at
        self._tell = tell

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        self._one_call()
        return super().write(fd, data)

    def fdatasync(self, fd: int) -> None:
        self._one_call()
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._one_call()
        super().fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self._one_call()
        super().rename(source, target)

    def _one_call(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            self._tell("cut")
            signal.pause()


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoweredDevice]:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("no power cuts: only root can mount a file system, and mkfs.ext4 must be there")
    made: PoweredDevice | None = None
    try:
        made = PoweredDevice(tmp_path_factory.mktemp("power"))
        made.shut_down()
        made.start_again()
    except OSError as error:
        if made is not None:
            made.remove()
        pytest.skip(f"no power cuts: {error}")
    yield made
    made.remove()


def told_until_cut(device: PoweredDevice, store: Store, at: int) -> list[str]:
    """Write a turn; the power goes before its call `at`."""
    child = Child(lambda tell: work(store, DiskUntilCut(at, tell), tell))
    told = []
    while (line := child.line()) not in ("cut", ""):
        told.append(line)
    device.shut_down()
    child.kill()
    child.end()
    device.start_again()
    return told


def broken_by_cuts(device: PoweredDevice, make: Callable[[str], Store], cuts: int) -> list[str]:
    """Cut the power at places spread over a turn. How the store broke the rule for what was synced."""
    clean = DiskUntilCut(0, lambda _text: None)
    first = make("clean")
    work(first, clean, lambda _text: None)
    written = first.known()
    broken = []
    for number in range(1, cuts + 1):
        store = make(f"cut-{number}")
        told = told_until_cut(device, store, max(1, clean.calls * number // cuts))
        found = afterwards(store, written, told, promised="synced")
        found += [f"{one.text}" for one in store.findings() if one.kind == DamageKind.BLOB_MISSING]
        broken += [f"cut {number} of {cuts}: {one}" for one in found]
    return broken


def test_what_was_synced_survives_a_power_cut(device: PoweredDevice, battery: Callable[[str], None]) -> None:
    cuts = scaled(CUTS)
    broken = broken_by_cuts(device, lambda name: Ours(device.folder / name), cuts)
    battery(f"power cuts: {cuts} on a loop-mounted ext4, spread over the calls of a turn")
    assert broken == []


def test_a_naive_store_fails_the_power_battery(device: PoweredDevice) -> None:
    assert broken_by_cuts(device, lambda name: Naive(device.folder / name), 2)
