"""What the file tools cost, next to the command that does the same work: everything by wall time, taken by turns."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.measure import Row, ratio
from tests.tools.files_kit import Files
from tools.base import CallRefused
from tools.ripgrep import find_ripgrep
from tools.verdict import Json

RUNS = 7
EDIT_RUNS = 15  # the disk is what differs most between two
LINE = b"2026-01-01T00:00:00 worker-%04d some words that a log holds, about eighty bytes\n"
EDITED_BYTES = 50_000_000
LOG_BYTES = int(os.environ.get("MYCODEAGENT_BENCH_LOG_BYTES", "1000000000"))
TREE_FILES = int(os.environ.get("MYCODEAGENT_BENCH_TREE_FILES", "100000"))
FILES_IN_DIRECTORY = 50


def rows(folder: Path) -> list[Row]:
    folder.mkdir(parents=True)
    return [*_edit_rows(folder / "edit"), *_read_rows(folder / "read"), *_search_rows(folder / "tree")]


def _edit_rows(folder: Path) -> list[Row]:
    files = _files(folder)
    big, copy = _log(folder / "big.log", EDITED_BYTES), folder / "copy.log"
    with big.open("r+b") as file:
        file.seek(EDITED_BYTES // 2)
        file.write(b"needle 0")
    _done(files, "Read", file_path="big.log", limit=1)
    numbers = itertools.count()

    def edit() -> float:
        number = next(numbers)
        texts: dict[str, Json] = {"old_string": f"needle {number}", "new_string": f"needle {number + 1}"}
        return _wall(lambda: _done(files, "Edit", file_path="big.log", **texts))

    def copied() -> float:
        return _wall(lambda: _copy_with_fsync(big, copy))

    times, took_s = ratio(edit, copied, EDIT_RUNS)
    return [Row("Edit of a 50 MB file", times, "x a copy with fsync", 3, f"{took_s * 1000:.0f} ms")]


def _read_rows(folder: Path) -> list[Row]:
    files = _files(folder)
    log = _log(folder / "huge.log", LOG_BYTES)
    count = int(subprocess.run(["wc", "-l", log], stdout=subprocess.PIPE, check=True).stdout.split()[0])
    times, took_s = ratio(
        lambda: _wall(lambda: _done(files, "Read", file_path="huge.log", offset=count - 99)),
        lambda: _wall(lambda: _run(["wc", "-l", str(log)], folder)),
        RUNS,
    )
    name = f"Read of the last 100 lines of {LOG_BYTES / 1e9:g} GB by offset"
    log.unlink()
    return [Row(name, times, "x wc -l", 1.5, f"{took_s * 1000:.0f} ms")]


def _search_rows(folder: Path) -> list[Row]:
    files = _files(folder)
    for number in range(TREE_FILES):
        path = folder / f"d{number // 5000}" / f"e{number // FILES_IN_DIRECTORY % 100}" / f"f{number}.py"
        if number % FILES_IN_DIRECTORY == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number}\n" * 20 + ("needle\n" if number % 1000 == 0 else ""))
    rg = find_ripgrep() or "rg"
    calls: list[tuple[str, dict[str, Json], list[str]]] = [
        ("Grep", {"pattern": "needle"}, [rg, "--files-with-matches", "--no-require-git", "-e", "needle", "./"]),
        ("Glob", {"pattern": "**/*"}, [rg, "--files", "--no-require-git", "--sortr=modified"]),
    ]
    return [_search_row(files, *call) for call in calls]


def _search_row(files: Files, tool: str, arguments: dict[str, Json], command: list[str]) -> Row:
    times, took_s = ratio(
        lambda: _wall(lambda: _done(files, tool, **arguments)), lambda: _wall(lambda: _run(command, files.root)), RUNS
    )
    call = " ".join(["rg", *command[1:2], *command[3:4]])
    return Row(f"{tool} over {TREE_FILES:,} files", times, f"x {call}", 1.3, f"{took_s * 1000:.0f} ms")


def _files(folder: Path) -> Files:
    folder.mkdir()
    return Files(folder)


def _log(path: Path, size: int) -> Path:
    block = b"".join(LINE % number for number in range(1000, 9000))
    with path.open("wb") as file:
        for _ in range(size // len(block) + 1):
            file.write(block)
        file.truncate(size)
    return path


def _done(files: Files, tool: str, **arguments: Json) -> None:
    result = files.call(tool, **arguments)
    if isinstance(result, CallRefused):
        raise RuntimeError(result.message)


def _wall(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _run(command: list[str], where: Path) -> None:
    subprocess.run(command, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def _copy_with_fsync(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        shutil.copyfileobj(read, written, 1024 * 1024)
        written.flush()
        os.fsync(written.fileno())
