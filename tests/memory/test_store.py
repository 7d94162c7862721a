"""The three states of a store: open, full, stopped."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.disk import Disk
from memory.errors import TranscriptUnavailable
from memory.events import LifecyclePayload, MessagePayload, TransitionPayload
from memory.session import RecordedSession
from tests.kit.transcript import read_records
from tests.memory.memory_kit import FaultyDisk, Place, in_run, life, record, shown, user


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write(("run-1", 0, user("before")))
    return made


def refused(call: Callable[[], object]) -> TranscriptUnavailable:
    with pytest.raises(TranscriptUnavailable) as raised:
        call()
    return raised.value


def say(session: RecordedSession, text: str) -> None:
    session.recorder.record_message("run-1", 1, user(text))


def say_synced(session: RecordedSession, text: str) -> None:
    session.recorder.record_message("run-1", 1, user(text), sync=True)


def texts(place: Place) -> list[str]:
    return [text for _role, text in shown(place.load())]


# -- open


def test_a_record_is_one_write_and_only_what_must_be_is_synced(place: Place) -> None:
    writes, syncs = (FaultyDisk(call, lambda _n: False) for call in ("write", "fdatasync"))
    first = place.open(writes)
    before = writes.calls
    record(first, *in_run("run-1", 1, user("a"), user("b" * 50_000)))
    assert writes.calls - before == 2
    first.close()
    second = place.open(syncs)
    safe = LifecyclePayload("Read", "r", "started", "act-r", replay_safe=True)
    record(second, *in_run("run-1", 1, user("c"), safe, *life("b", "requested")))
    assert syncs.calls == 0
    record(second, *in_run("run-1", 1, *life("b", "started", "completed")))
    assert syncs.calls == 2
    second.close()


def test_sequence_numbers_are_dense_over_sessions_that_follow_each_other(place: Place) -> None:
    for n in range(3):
        place.write(*in_run("run-1", n, user("x"), user("y")))
    assert [one.seq for one in read_records(place.files.transcript)] == list(range(1, 8))


# -- full


FULL = {
    "no space": FaultyDisk("write", lambda n: n > 0),
    "I/O error": FaultyDisk("write", lambda n: n > 0, error=errno.EIO),
    "quota": FaultyDisk("write", lambda n: n > 0, error=errno.EDQUOT),
    "short write": FaultyDisk("write", lambda n: n > 0, part=30),
}


@pytest.fixture(params=FULL)
def full_disk(request: pytest.FixtureRequest) -> FaultyDisk:
    """It is in order until the test says otherwise."""
    disk = FULL[request.param]
    disk.is_mended = True
    return disk


def test_a_failed_write_is_cut_back_and_the_record_waits(place: Place, full_disk: FaultyDisk) -> None:
    session = place.open(full_disk)
    say(session, "on disk")
    whole = place.data
    full_disk.is_mended = False
    assert refused(lambda: say(session, "one")).recoverable
    full_disk.is_mended = True
    assert not session.store.is_writable
    assert refused(lambda: say(session, "two")).recoverable  # order matters more than room
    assert (place.data, session.store.last_seq) == (whole, 4)
    assert session.store.write_late().written == 2
    assert session.store.is_writable
    say(session, "three")
    session.close()
    assert texts(place) == ["before", "on disk", "one", "two", "three"]
    marks = [(one.seq, one.fields.get("late", False)) for one in read_records(place.files.transcript)]
    assert marks == [(1, False), (2, False), (3, True), (4, True), (5, False)]
    assert place.load().damage == ()


def test_what_still_finds_no_room_goes_on_waiting(place: Place, full_disk: FaultyDisk) -> None:
    session = place.open(full_disk)
    full_disk.is_mended = False
    for word in ("one", "two"):
        refused(lambda word=word: say(session, word))  # type: ignore[misc]
    for _ in range(3):
        assert refused(session.store.write_late).recoverable
    assert texts(place) == ["before"]
    full_disk.is_mended = True
    assert [session.store.write_late().written for _ in range(2)] == [2, 0]
    session.close()
    assert texts(place) == ["before", "one", "two"]


def test_a_record_that_waits_counts_for_the_session_memory_already(place: Place) -> None:
    disk = FULL["no space"]
    disk.is_mended = True
    session = place.open(disk)
    disk.is_mended = False
    refused(lambda: say(session, "the goal"))
    disk.is_mended = True
    session.store.write_late()
    live = session.memory.memory
    session.close()
    assert live == place.load().memory.memory
    assert live.current_goal is not None and live.current_goal.seq == 2


def test_a_record_that_waits_is_written_as_it_was(place: Place, full_disk: FaultyDisk) -> None:
    session = place.open(full_disk)
    full_disk.is_mended = False
    state = {"files": ["a.py"]}
    transition = TransitionPayload("run_started", details=state)
    refused(lambda: session.recorder.record_state_transition("run-1", 1, transition))
    state["files"].append("b.py")
    full_disk.is_mended = True
    session.store.write_late()
    session.close()
    assert read_records(place.files.transcript)[-1].payload["details"] == {"files": ["a.py"]}


def test_after_a_kill_while_full_the_file_is_whole(place: Place, full_disk: FaultyDisk) -> None:
    session = place.open(full_disk)
    full_disk.is_mended = False
    refused(lambda: say(session, "lost with the process"))
    state = place.load()
    assert (texts(place), state.damage) == (["before"], ())
    session.close()


# -- stopped


def test_a_failed_sync_stops_the_store_for_good(place: Place) -> None:
    disk = FaultyDisk("fdatasync", lambda n: n == 1, error=errno.EIO)
    session = place.open(disk)
    first = refused(lambda: say_synced(session, "is it there?"))
    assert not first.recoverable
    calls = disk.calls
    for call in (lambda: say(session, "no"), session.store.write_late):
        assert refused(call) is first
    assert (session.store.is_writable, disk.calls) == (False, calls)  # a failed sync is never tried again
    session.close()
    place.write(("run-1", 1, user("another process")))
    assert texts(place) == ["before", "is it there?", "another process"]


class NoCutBack(FaultyDisk):
    """Writes a part, and cannot cut it off."""

    def __init__(self) -> None:
        super().__init__("write", lambda n: n == 2, part=30)  # the first one is the owner's note

    def truncate(self, fd: int, size: int) -> None:
        raise OSError(errno.EIO, f"cannot cut {fd} to {size}")


def test_a_failed_cut_back_stops_the_store_and_the_next_one_mends_the_file(place: Place) -> None:
    whole = place.data
    session = place.open(NoCutBack())
    assert not refused(lambda: say(session, "stump")).recoverable
    assert not refused(lambda: say(session, "never")).recoverable
    assert len(place.data) == len(whole) + 30
    session.close()
    place.write(("run-1", 1, user("after")))
    assert texts(place) == ["before", "after"]
    assert len(place.files.torn(1).read_bytes()) == 30


@pytest.mark.parametrize("change", [b'{"a":1}\n', b"x", None], ids=["longer", "torn", "shorter"])
def test_a_file_that_changed_behind_our_back_stops_the_store_and_nothing_is_cut(
    place: Place, change: bytes | None
) -> None:
    """Promise 8; K06."""
    session = place.open()
    place.put(place.data + change if change else place.data[:-5])
    changed = place.data
    assert not refused(lambda: say(session, "no")).recoverable
    assert not refused(session.store.write_late).recoverable
    session.close()
    assert place.data == changed


def test_a_closed_store_writes_nothing(place: Place) -> None:
    session = place.open()
    session.close()
    assert not refused(lambda: say(session, "no")).recoverable


# -- opening


@pytest.mark.parametrize(("call", "count"), [("open", 6), ("write", 2), ("fsync", 5), ("rename", 1), ("fdatasync", 1)])
def test_a_failing_call_at_opening_loses_no_byte_of_a_torn_file(place: Place, call: str, count: int) -> None:
    whole, torn = place.data, b'{"event_id":"evt-torn'
    for nth in range(1, count + 1):
        place.put(whole, torn)
        for side in place.files.transcript.parent.glob("*.torn-*"):
            side.unlink()
        disk = FaultyDisk(call, lambda n, nth=nth: n == nth, error=errno.EIO)  # type: ignore[misc]
        try:
            place.open(disk).close()
        except TranscriptUnavailable as error:
            assert not error.recoverable
        place.open().close()
        sides = [side.read_bytes() for side in place.files.transcript.parent.glob("*.torn-*")]
        assert (place.data, set(sides)) == (whole, {torn}), (call, nth)
        assert texts(place) == ["before"]


def test_a_copy_that_a_crash_left_before_the_cut_is_not_made_again(place: Place) -> None:
    whole = place.data
    place.put(whole, b"torn")
    place.files.torn(1).write_bytes(b"of another time")
    place.files.torn(2).write_bytes(b"torn")
    session = place.open()
    assert {one.kept_in for one in session.damage} == {place.files.torn(1).name, place.files.torn(2).name}
    session.close()
    assert not place.files.torn(3).exists()


def test_a_folder_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    error = refused(lambda: Place(tmp_path / "file" / "memory").open(Disk()))
    assert not error.recoverable
    assert "--no-session" in str(error)


# -- records


def test_a_large_text_anywhere_in_a_record_becomes_a_blob_before_the_record(place: Place) -> None:
    text = "中" * 40_000
    message = MessagePayload("user", text, metadata={"deep": [{"note": text}]})
    outcome = LifecyclePayload("Bash", "c", "failed", "act-c", result=text, error={"code": "LIMIT", "message": text})
    begun = LifecyclePayload("Bash", "d", "started", "act-d", intent={"command": text, "blob": None})
    place.write(*in_run("run-1", 1, message, outcome, begun))
    assert all(len(line) < 20_000 for line in place.lines)
    assert [path.read_text() for path in place.files.blobs.iterdir()] == [text]
    assert texts(place) == ["before", text]


def test_a_record_whose_blob_finds_no_room_waits_for_it_with_those_behind_it(place: Place) -> None:
    disk = FaultyDisk("mkdir", lambda n: n == 1)
    session = place.open(disk)
    assert refused(lambda: say(session, "x" * 70_000)).recoverable
    assert refused(lambda: say(session, "behind it")).recoverable
    assert session.store.write_late().written == 2
    session.close()
    assert texts(place) == ["before", "x" * 70_000, "behind it"]
