"""What was on the screen of an answer without a record survives the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.disk import Disk
from memory.draft import Draft, DraftFile, read_draft
from tests.memory.memory_kit import Place, SmallDisk, asks, in_run, says, user


def drafted(path: Path, *pieces: tuple[str, int, str]) -> DraftFile:
    draft = DraftFile(path, Disk())
    for run_id, step, text in pieces:
        draft.append(run_id, step, text)
    return draft


def test_the_pieces_of_the_newest_answer_are_one_text(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    pieces = [("run-1", 1, "old"), ("run-1", 2, "new \u2028"), ("run-1", 2, '"🙂"\n')]
    drafted(path, *pieces).close()
    assert read_draft(path) == Draft("run-1", 2, 'new \u2028"🙂"\n')
    drafted(path, ("run-1", 2, "!")).close()
    assert read_draft(path) == Draft("run-1", 2, 'new \u2028"🙂"\n!')


def test_a_cleared_draft_is_empty_and_can_be_used_again(tmp_path: Path) -> None:
    draft = drafted(tmp_path / "draft", ("run-1", 1, "x"))
    draft.clear()
    assert (read_draft(tmp_path / "draft"), (tmp_path / "draft").stat().st_size) == (None, 0)
    draft.append("run-1", 2, "y")
    assert read_draft(tmp_path / "draft") == Draft("run-1", 2, "y")
    draft.clear()
    draft.clear()
    draft.close()


def test_clearing_makes_no_file_and_empties_that_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    DraftFile(path, Disk()).clear()
    assert not path.exists()
    drafted(path, ("run-1", 1, "x")).close()
    DraftFile(path, Disk()).clear()
    assert path.read_bytes() == b""


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"words\n", b"{}\n", b"\xff\n[1]\n"])
def test_what_is_no_draft_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "draft").write_bytes(content)
    assert read_draft(tmp_path / "draft") is None
    assert read_draft(tmp_path / "none") is None


def test_a_torn_piece_costs_itself_alone_wherever_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    drafted(path, ("run-1", 1, "first "), ("run-1", 1, "second")).close()
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    for kept in range(start, len(data)):
        path.write_bytes(data[:kept])
        whole = kept == len(data) - 1
        assert read_draft(path) == Draft("run-1", 1, "first second" if whole else "first ")


def test_a_piece_that_did_not_fit_costs_no_later_piece(tmp_path: Path) -> None:
    disk = SmallDisk(room=50)
    draft = DraftFile(tmp_path / "draft", disk)
    draft.append("run-1", 1, "one ")
    for room in (0, 9):
        with pytest.raises(OSError, match="No space"):
            draft.append("run-1", 1, "lost ")
        disk.room = room
    disk.room = 1000
    draft.append("run-1", 1, "two")
    draft.close()
    assert read_draft(tmp_path / "draft") == Draft("run-1", 1, "one two")


# -- in the state


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write(*in_run("run-1", 0, user("hi")), *in_run("run-1", 1, asks("c")))
    return made


def test_a_draft_without_its_record_is_found(place: Place) -> None:
    drafted(place.files.draft, ("run-1", 2, "so far")).close()
    assert place.load().draft == Draft("run-1", 2, "so far")


@pytest.mark.parametrize(("run_id", "step"), [("run-1", 1), ("run-0", 9)])
def test_a_draft_whose_answer_has_a_record_is_none(place: Place, run_id: str, step: int) -> None:
    drafted(place.files.draft, (run_id, step, "so far")).close()
    assert place.load().draft is None


def test_a_draft_is_none_as_soon_as_the_answer_is_recorded(place: Place) -> None:
    drafted(place.files.draft, ("run-1", 2, "so f")).close()
    place.write(("run-1", 2, says("so far")))
    assert place.load().draft is None
