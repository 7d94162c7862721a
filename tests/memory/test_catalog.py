"""One bad file never hides another session."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from memory.catalog import SessionSummary, find_sessions, list_sessions, summarize
from memory.events import End, Reason, TerminalPayload
from memory.layout import MemoryFolder
from tests.memory.memory_kit import Place, in_run, says, transition, user


def session(folder: Path, session_id: str, prompt: str = "hello", **opened: object) -> Place:
    place = Place(folder, session_id)
    place.write(("", 0, transition(Reason.SESSION_OPENED, **opened)), ("run-1", 0, user(prompt)))
    return place


def test_a_session_is_described_from_its_head_and_its_tail(tmp_path: Path) -> None:
    place = session(tmp_path, "session-aa", "fix\n the   bug " + "x" * 200, workspace="/w", name="auth")
    place.write(
        *in_run("run-1", 1, *(says("y" * 3000) for _ in range(30)), TerminalPayload(End.COMPLETED.value)),
        ("", 0, transition(Reason.SESSION_CLOSED, name="auth 2")),
    )
    assert summarize(place.files) == SessionSummary(
        files=place.files,
        last_timestamp="2026-01-31T12:00:33.000Z",
        workspace="/w",
        name="auth 2",
        first_prompt=("fix the bug " + "x" * 200)[:80],
        ended="completed",
        live_pid=None,
        bytes=len(place.data),
        problem="",
    )


def test_whatever_bears_the_name_of_a_transcript_is_listed_as_what_it_is(tmp_path: Path) -> None:
    good = session(tmp_path, "session-good")
    folder = good.files.transcript.parent

    def named(name: str) -> Path:
        return folder / f"transcript-{name}.jsonl"

    named("empty").touch()
    named("foreign").write_bytes(b"\x89PNG\r\n\x1a\n")
    named("nuls").write_bytes(b"\0" * 70_000)
    named("directory").mkdir()
    named("dangling").symlink_to(folder / "nowhere")
    named("loop").symlink_to(named("loop"))
    os.mkfifo(named("fifo"))
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)  # the name of a socket must be short
        try:
            server.bind(named("socket").name)
        finally:
            os.chdir(here)
    named("deep").write_bytes(b"[" * 9000)
    found = {one.session_id: one.problem for one in list_sessions([MemoryFolder(tmp_path)])}
    assert found == {
        "session-good": "",
        "empty": "empty",
        "foreign": "no record of ours in it",
        "nuls": "no record of ours in it",
        "deep": "no record of ours in it",
        "directory": "cannot be read: not a regular file",
        "fifo": "cannot be read: not a regular file",
        "dangling": "cannot be read: No such file or directory",
        "loop": "cannot be read: Too many levels of symbolic links",
        "socket": "cannot be read: No such device or address",
    }


def test_a_damaged_session_stays_listed(tmp_path: Path) -> None:
    """K04."""
    place = session(tmp_path, "session-aa", "hello", workspace="/w")
    one, two = place.lines
    for parts in ([b"\xff\0", one, one[:50], two, b"\0" * 20_000], [one, b"{torn\n", two, b"\n", two[:-9]]):
        place.put(*parts)
        found = summarize(place.files)
        assert (found.problem, found.workspace, found.first_prompt) == ("", "/w", "hello")


def test_files_of_other_forms_are_listed_with_their_first_prompt(tmp_path: Path) -> None:
    place = Place(tmp_path, "s-123")
    place.put(b'{"event_type":"message","timestamp":"2026-08-19T09:00:00Z","payload":{"role":"user","content":"hi"}}\n')
    found = summarize(place.files)
    assert (found.problem, found.first_prompt, found.last_timestamp) == ("", "hi", "2026-08-19T09:00:00Z")


def test_the_latest_record_comes_first(tmp_path: Path) -> None:
    folders = [MemoryFolder(tmp_path / name) for name in ("a", "b")]
    late = session(tmp_path / "a", "session-1")
    session(tmp_path / "b", "session-2")
    late.write(("run-1", 1, says("later")))
    session(tmp_path / "b", "subagent-3")
    assert [one.session_id for one in list_sessions(folders)] == ["session-1", "subagent-3", "session-2"]
    assert [one.is_subagent for one in list_sessions(folders)] == [False, True, False]


def test_a_live_session_has_the_pid_of_its_owner(tmp_path: Path) -> None:
    place = session(tmp_path, "session-1")
    live = place.open()
    assert summarize(place.files).live_pid == os.getpid()
    live.close()
    assert summarize(place.files).live_pid is None


@pytest.fixture
def sessions(tmp_path: Path) -> list[SessionSummary]:
    for session_id, name in [("session-aa1", "auth"), ("session-aa2", "docs"), ("session-bb", "docs"), ("x", "")]:
        session(tmp_path, session_id, name=name)
    session(tmp_path, "session-aa", name="session-bb")
    return list_sessions([MemoryFolder(tmp_path)])


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("session-aa1", ["session-aa1"]),
        ("session-aa", ["session-aa"]),  # an id before a prefix
        ("session-bb", ["session-bb"]),  # an id before a name
        ("auth", ["session-aa1"]),
        ("docs", ["session-aa2", "session-bb"]),
        ("session-b", ["session-bb"]),
        ("session-a", ["session-aa", "session-aa1", "session-aa2"]),
        ("nothing", []),
        ("", []),
    ],
)
def test_a_word_means_an_id_or_a_name_or_a_prefix(sessions: list[SessionSummary], word: str, ids: list[str]) -> None:
    assert sorted(one.session_id for one in find_sessions(sessions, word)) == ids
