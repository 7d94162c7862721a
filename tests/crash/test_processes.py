"""Several processes at once: one writer, no interleaving, readers that never see damage, a lease that dies with its
holder."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.recovery.inspection import inspect_session
from memory.catalog import summarize
from memory.errors import SessionBusy
from memory.events import MessagePayload, Reason
from memory.lease import read_owner
from memory.reader import TranscriptReader
from tests.crash.kit import REAL_DISK, Naive, Ours, Tell, scaled
from tests.crash.kit_children import Child
from tests.kit.transcript import breaches, read_records
from tests.memory.memory_kit import in_run, transition, user

OPENINGS = 12  # of each process
RECORDS = 5  # of each opening
LARGE_TEXT = "多字节 text " * 2500  # below the limit of a blob, and many pages of the file


def contender(store: Ours, name: str) -> Callable[[Tell], None]:
    """A process that opens the session as often as it gets it, and writes a few records each time."""

    def act(tell: Tell) -> None:
        for opening in range(OPENINGS):
            while True:
                try:
                    writer = store.open()
                    break
                except SessionBusy as error:
                    tell(f"busy {error.owner_pid}")
            writer.record(("", 0, transition(Reason.SESSION_OPENED, who=name, opening=opening)))
            for number in range(RECORDS):
                writer.record(("run-1", number, user(f"{name} {opening} {number}")))
            writer.record(("", 0, transition(Reason.SESSION_CLOSED, who=name)))
            writer.close()
            tell(f"done {opening}")

    return act


@pytest.mark.parametrize("count", [2, 4])
def test_processes_that_resume_at_once_never_interleave(
    quick: Path, count: int, battery: Callable[[str], None]
) -> None:
    """K06: two processes continued one session, and their turns and numbers were mixed."""
    store = Ours(quick)
    children = [Child(contender(store, f"writer-{number}")) for number in range(count)]
    ended = [child.end() for child in children]
    assert [one.status for one in ended] == [0] * count, [one.told[-1:] for one in ended]
    records = read_records(store.path)
    blocks = [records[at : at + RECORDS + 2] for at in range(0, len(records), RECORDS + 2)]
    for block in blocks:
        opened, *said, closed = block
        who = str(opened.payload["details"]["who"])
        assert (opened.payload["reason"], closed.payload["reason"]) == ("session_opened", "session_closed")
        assert [str(one.payload["content"]).split()[0] for one in said] == [who] * RECORDS
        assert closed.payload["details"] == {"who": who}
    assert len(blocks) == count * OPENINGS
    assert breaches(store.path) == []
    assert store.findings() == []
    busy = Counter(line for one in ended for line in one.told if line.startswith("busy"))
    pids = {str(child.pid) for child in children} | {"None"}
    assert {line.split()[1] for line in busy} <= pids
    battery(f"{count} processes: {len(blocks)} openings, {len(records)} records, {busy.total():,} times busy")


def test_naive_processes_fail_the_battery(quick: Path) -> None:
    """Without a lease, two that have opened the file give the same numbers."""
    store = Naive(quick)
    one, other = store.open(REAL_DISK), store.open(REAL_DISK)
    for number in range(RECORDS):
        for writer in (one, other):
            writer.record(("run-1", number, user("x")))
    numbers = Counter(number for number, _text in store.numbered())
    assert max(numbers.values()) == 2


def test_the_loser_is_told_the_pid_of_the_winner_at_once(quick: Path) -> None:
    store = Ours(quick)
    winner = store.open()

    def act(tell: Tell) -> None:
        try:
            store.open()
        except SessionBusy as error:
            tell(f"busy {error.owner_pid}")

    assert Child(act).end().told == [f"busy {os.getpid()}"]
    winner.close()


def test_readers_of_a_live_file_never_see_damage(tmp_path: Path, battery: Callable[[str], None]) -> None:
    store = Ours(tmp_path)
    records = scaled(400)

    def write(tell: Tell) -> None:
        writer = store.open()
        writer.record(("", 0, transition(Reason.SESSION_OPENED, workspace=str(tmp_path))))
        tell("open")
        for number in range(records):
            writer.record(("run-1", number, MessagePayload("user", f"{number} {LARGE_TEXT[: number * 97 % 30_000]}")))
        tell("written")
        writer.close()

    child = Child(write)
    assert child.line() == "open"
    reads, newest, seen = 0, 0, []
    while newest < records + 1:
        state = store.load(live=True)
        inspection = inspect_session(store.files, REAL_DISK, workspace=tmp_path)
        summary = summarize(store.files)
        seen += [*state.damage, *(inspection.state.damage if inspection.is_live else ())]
        assert (summary.problem, summary.workspace) == ("", str(tmp_path))
        assert [message.seq for message in state.history_messages] == list(range(2, state.last_seq + 1))
        assert state.last_seq >= newest
        newest, reads = state.last_seq, reads + 1
    assert (child.end().status, seen) == (0, [])
    battery(f"readers on a live file: {3 * reads:,} reads while {records:,} records were written")


@pytest.mark.parametrize("with_children", [False, True], ids=["alone", "with living children"])
def test_the_lease_of_a_killed_holder_is_free_at_once(
    quick: Path, with_children: bool, battery: Callable[[str], None]
) -> None:
    """K06: a stale lock. The kernel frees a lease at death, whoever else is alive."""
    store = Ours(quick)
    deaths = scaled(20)
    for number in range(deaths):

        def hold(tell: Tell, number: int = number) -> None:
            writer = store.open()
            writer.record(("run-1", number, user(f"before death {number}")))
            if with_children:
                sleeper = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
                tell(f"sleeper {sleeper.pid}")
            tell("held")
            time.sleep(60)

        child = Child(hold)
        sleepers = []
        while (line := child.line()) != "held":
            sleepers.append(int(line.split()[1]))
        with pytest.raises(SessionBusy) as busy:
            store.open()
        assert busy.value.owner_pid == child.pid
        child.kill()
        assert child.end().was_killed
        store.open().close()
        for pid in sleepers:
            assert Path(f"/proc/{pid}").exists()
            os.kill(pid, 9)
    assert [one.content for one in store.load().history_messages] == [f"before death {n}" for n in range(deaths)]
    how = "with children alive" if with_children else "alone"
    battery(f"kill -9 of the holder {how}: {deaths} deaths, the lease free at once")


def holding(store: Ours) -> Callable[[Tell], None]:
    def act(tell: Tell) -> None:
        writer = store.open()
        tell("held")
        time.sleep(60)
        writer.close()

    return act


def test_the_note_of_a_dead_owner_makes_nobody_wait(quick: Path) -> None:
    store = Ours(quick)
    child = Child(holding(store))
    assert child.line() == "held"
    owner = read_owner(store.files)
    assert owner is not None
    assert owner.is_alive()
    child.kill()
    child.end()
    assert read_owner(store.files) == owner
    assert not owner.is_alive()
    writer = store.open()
    assert json.loads(store.files.owner.read_bytes())["pid"] == os.getpid()
    writer.close()


def test_a_foreign_append_behind_our_back_stops_the_store_and_cuts_nothing(quick: Path) -> None:
    store = Ours(quick)
    writer = store.open()
    for fact in in_run("run-1", 1, user("one"), user("two")):
        writer.record(fact)
    with store.path.open("ab") as file:
        file.write(b"somebody else's line\n")
    before = store.path.read_bytes()
    for _ in range(2):
        with pytest.raises(Exception, match="Another program changed"):
            writer.record(("run-1", 2, user("three")))
    writer.close()
    assert store.path.read_bytes() == before
    assert [one.kind for one in store.opened_by_agent()] == ["corrupt"]
    assert [one.content for one in store.load().history_messages] == ["one", "two"]


def test_a_record_that_is_written_while_it_is_read_is_unfinished_and_no_damage(
    tmp_path: Path, battery: Callable[[str], None]
) -> None:
    """A file system shows a large write page by page: whoever reads on behind the first part meets the second."""
    whole, live = Ours(tmp_path / "whole"), Ours(tmp_path / "live")
    records = scaled(300)
    writer = whole.open()
    for number in range(records):
        writer.record(("run-1", number, MessagePayload("user", f"{number} {LARGE_TEXT}")))
    writer.close()
    live.path.parent.mkdir(parents=True)
    live.path.touch()

    def write(tell: Tell) -> None:
        with live.path.open("ab", buffering=0) as file:
            for line in whole.path.read_bytes().splitlines(keepends=True):
                file.write(line[: len(line) // 2])
                file.write(line[len(line) // 2 :])
        tell("written")

    child = Child(write)
    reads = unfinished = newest = 0
    found = []
    while newest < records:
        reader = TranscriptReader(live.path, live.files.session_id, live=True).scan()
        found += reader.damage
        newest, reads, unfinished = reader.last_seq, reads + 1, unfinished + (reader.tail is not None)
    assert (child.end().status, found) == (0, [])
    battery(f"a record while it is written: {reads} reads, {unfinished} of them met an unfinished line")
