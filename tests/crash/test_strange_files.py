"""K04: whatever lies where a transcript should be, it is named as what it is, hides nothing, and stops nobody."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.events import Reason
from tests.conftest import NewProgram
from tests.crash.kit import Ours
from tests.kit.program import COMMAND, Program
from tests.memory.memory_kit import transition, user

# Root may read any file: these two lines take that away from the program before it starts.
_DROP_CAPABILITIES = (
    "import ctypes, os, sys; [ctypes.CDLL(None).prctl(24, number, 0, 0, 0) for number in (1, 2)]; "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
UNPRIVILEGED = (sys.executable, "-c", _DROP_CAPABILITIES, *COMMAND[1:])

GOOD = ["session-000000000001", "session-000000000002", "session-000000000003"]
TIMEOUT_S = 30


def empty(path: Path) -> None:
    path.touch()


def foreign(path: Path) -> None:
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 40)


def unreadable(path: Path) -> None:
    path.write_bytes(b"{}\n")
    path.chmod(0)


def a_directory(path: Path) -> None:
    path.mkdir()


def a_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere") / "at all")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nuls(path: Path) -> None:
    path.write_bytes(bytes(100_000))


def one_long_line(path: Path) -> None:
    path.write_bytes(b"x" * 3_000_000)


Kind = Callable[[Path], None]
KINDS: list[Kind] = [
    empty,
    foreign,
    unreadable,
    a_directory,
    a_dangling_link,
    a_link_to_itself,
    a_fifo,
    a_device,
    nuls,
    one_long_line,
]
IDS: dict[Kind, str] = {kind: f"session-0000000bad{index:02x}" for index, kind in enumerate(KINDS)}
WORDS: dict[Kind, str] = {  # that the list says of it
    empty: "empty",
    foreign: "no record of ours",
    unreadable: "Permission denied",
    a_directory: "not a regular file",
    a_dangling_link: "No such file",
    a_link_to_itself: "symbolic links",
    a_fifo: "not a regular file",
    a_device: "not a regular file",
    nuls: "no record of ours",
    one_long_line: "no record of ours",
}


@pytest.fixture
def user_with_strange_files(program: NewProgram, tmp_path: Path) -> Program:
    memory = tmp_path / "memory"
    one = program(memory_dir=memory, command=UNPRIVILEGED)
    for session_id in GOOD:
        writer = Ours(memory, session_id).open()
        writer.record(("", 0, transition(Reason.SESSION_OPENED, workspace=str(one.workspace.resolve()))))
        writer.record(("run-1", 0, user(f"prompt of {session_id}")))
        writer.close()
    for kind in KINDS:
        kind(memory / "transcripts" / f"transcript-{IDS[kind]}.jsonl")
    return one


def test_the_list_names_every_strange_file_and_hides_no_session(
    user_with_strange_files: Program, battery: Callable[[str], None]
) -> None:
    listed = user_with_strange_files.run("sessions", "list", timeout_s=TIMEOUT_S)
    assert (listed.code, listed.err) == (0, "")
    lines = {line.split()[0]: line for line in listed.out.splitlines()}
    assert set(lines) == {*GOOD, *IDS.values()}
    for session_id in GOOD:
        assert f"prompt of {session_id}" in lines[session_id]
    for kind in KINDS:
        assert WORDS[kind] in lines[IDS[kind]], lines[IDS[kind]]
    battery(f"strange files: {len(KINDS)} kinds, {len(GOOD)} sessions beside them")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_looking_at_a_strange_file_ends_in_one_sentence(user_with_strange_files: Program, kind: Kind) -> None:
    for words in (["recover", IDS[kind]], ["fsck", IDS[kind]]):
        result = user_with_strange_files.run(*words, timeout_s=TIMEOUT_S)
        said = result.out + result.err
        assert "Traceback" not in said, said
        assert result.code in (0, 1, 2, 7), said
        assert said.strip(), words


def test_the_newest_session_is_never_a_strange_file(user_with_strange_files: Program) -> None:
    result = user_with_strange_files.run("-p", "list files", "-c", "--output-format", "json", timeout_s=TIMEOUT_S)
    assert result.json()["session_id"] in GOOD
    assert result.code == 0


def test_a_naive_list_fails(user_with_strange_files: Program) -> None:
    """One that reads each file until it has its first record: the first that cannot be read hides the rest."""
    memory = user_with_strange_files.memory_dir
    assert memory is not None
    named = []
    with pytest.raises((OSError, ValueError)):
        for path in sorted((memory / "transcripts").glob("*.jsonl")):
            with path.open("rb") as file:
                json.loads(file.readline())
            named.append(path.name)
    assert len(named) < len(GOOD) + len(KINDS)
