"""Findings are recorded once and shown at every resume; a crash between two steps of a repair loses none."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.errors import SessionBusy
from memory.events import Reason
from tests.kit.transcript import breaches, read_records, transitions
from tests.memory.memory_kit import (
    Place,
    answers,
    asks,
    decided,
    in_run,
    kinds,
    life,
    record,
    says,
    shown,
    transition,
    user,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write(*in_run("run-1", 0, *map(user, ["one", "two", "three", "four"])))
    return made


def recorded(place: Place) -> list[list[tuple[object, object]]]:
    """The findings that records name."""
    found = transitions(read_records(place.files.transcript), Reason.TRANSCRIPT_REPAIRED)
    return [[(one["kind"], one["offset"]) for one in details["damage"]] for details in found]


def test_a_new_session_has_no_state_and_keeps_the_contract(tmp_path: Path) -> None:
    place = Place(tmp_path)
    session = place.open()
    assert (session.state, session.damage, session.new_damage, place.data) == (None, (), [], b"")
    calls = [asks("c"), *life("c", "requested", "started", "completed"), answers("c"), says("done")]
    record(session, *in_run("run-1", 1, user("hi"), *calls))
    session.close()
    assert breaches(place.files.transcript) == []


def test_ten_openings_of_a_damaged_file_record_each_finding_once_and_show_it_each_time(place: Place) -> None:
    one, two, _three, four = place.lines
    place.put(one, b"\0\0\0\n", two, two, four, b"torn")
    first = kinds(place.opened_by_agent())
    assert [kind for kind, *_ in first] == ["corrupt", "duplicate", "gap", "torn"]
    again = [kinds(place.opened_by_agent()) for _ in range(9)]
    assert [[found[0] for found in one] for one in again] == [["corrupt", "duplicate", "gap", "torn"]] * 9
    assert recorded(place) == [[(found[0], found[2]) for found in first]]
    assert [text for _, text in shown(place.load())] == ["one", "two", "four"]
    (torn,) = [found for found in place.load().damage if found.kind == "torn"]
    assert torn.kept_in == place.files.torn(1).name


def test_new_damage_is_recorded_beside_the_old(place: Place) -> None:
    one, *rest = place.lines
    place.put(one, b"bad\n", *rest)
    place.opened_by_agent()
    place.put(place.data, b"worse\n")
    place.opened_by_agent()
    assert [[kind for kind, _ in found] for found in recorded(place)] == [["corrupt"], ["corrupt"]]
    assert recorded(place)[0] != recorded(place)[1]


def test_a_missing_blob_is_a_finding_and_head_and_tail_stand_for_the_text(place: Place) -> None:
    text = "begin" + "x" * 70_000 + "end"
    place.write(("run-1", 1, user(text)))
    (blob,) = place.files.blobs.iterdir()
    blob.unlink()
    for _ in range(3):
        assert [one[0] for one in kinds(place.opened_by_agent())] == ["blob_missing"]
    assert [[kind for kind, _ in found] for found in recorded(place)] == [["blob_missing"]]
    degraded = shown(place.load())[-1][1]
    assert (degraded[:8], degraded[-6:], len(degraded) < 3000) == ("beginxxx", "xxxend", True)


def test_a_finding_whose_record_a_crash_prevented_is_not_forgotten(place: Place) -> None:
    """The torn bytes are cut off, and then the process dies before it has said so."""
    whole = place.data
    place.put(whole, b"torn")
    place.open().close()
    assert place.data == whole
    found = [kinds(place.opened_by_agent()) for _ in range(3)]
    assert found == [[("torn", 0, len(whole), 4)]] * 3
    assert recorded(place) == [[("torn", len(whole))]]
    assert [one.kept_in for one in place.load().damage] == [place.files.torn(1).name]


def test_an_unverified_file_is_called_so_each_time_and_never_recorded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put(b'{"event_type":"message","payload":{"role":"user","content":"old"}}\n')
    for _ in range(3):
        assert [one[0] for one in kinds(place.opened_by_agent())] == ["unverified"]
    assert recorded(place) == []


def test_a_session_in_use_is_busy_and_free_again_when_it_is_closed(place: Place) -> None:
    session = place.open()
    with pytest.raises(SessionBusy, match="in use by process"):
        place.open()
    session.close()
    place.open().close()


def test_a_transcript_that_cannot_be_read_gives_the_lease_back(place: Place) -> None:
    place.files.transcript.unlink()
    place.files.transcript.mkdir()
    for _ in range(2):  # not SessionBusy the second time
        with pytest.raises(IsADirectoryError):
            place.open()


def test_resuming_again_and_again_adds_no_message(place: Place) -> None:
    """K10."""
    before = shown(place.load())
    for _ in range(4):
        place.opened_by_agent()
        assert shown(place.load()) == before
    assert len(place.lines) == 4 + 4


def test_what_the_agent_settles_stays_settled(place: Place) -> None:
    place.write(*in_run("run-1", 1, asks("c"), *life("c", "requested", "started")))
    assert [one.action_id for one in place.load().uncertain_actions] == ["act-c"]
    place.write(*in_run("run-1", 1, decided("act-c"), answers("c", "told")))
    place.write(("", 0, transition(Reason.SESSION_OPENED)))
    state = place.load()
    assert (state.uncertain_actions, state.missing_results) == ((), ())
    assert shown(state)[-1] == ("tool c", "told")


def test_what_a_killed_replace_left_is_removed_at_the_next_open_and_nothing_else(place: Place) -> None:
    place.open().close()
    files = place.files
    files.blobs.mkdir(parents=True, exist_ok=True)
    ours = [files.owner.with_name(f".{files.owner.name}.0a1b2c3d.tmp"), files.blobs / ".abc.0a1b2c3d.tmp"]
    other = files.owner.with_name(".transcript-session-00000000beef.owner.0a1b2c3d.tmp")
    for path in (*ours, other):
        path.write_text("half")
    place.open().close()
    assert [path.exists() for path in (*ours, other)] == [False, False, True]
