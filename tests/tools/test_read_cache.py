"""The read cache over a resume (K08): content decides, times are only a shortcut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tools.files_kit import Files
from tools.base import ErrorCode
from tools.verdict import Json


def resumed(files: Files) -> tuple[Files, list[str]]:
    later = Files(files.root)
    return later, later.cache.import_entries(files.cache.export())


def known(files: Files, name: str = "f.txt") -> Path:
    path = files.put(name, "one\n")
    files.text("Read", file_path=files.workspace.display(path))
    return path


EDIT: dict[str, Json] = {"file_path": "f.txt", "old_string": "one", "new_string": "two"}


def test_k08_what_was_read_before_a_resume_can_be_edited_after_it(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = known(files)
    later, changed = resumed(files)
    assert (changed, later.text("Edit", **EDIT).split("\n")[0]) == ([], "Edited f.txt (1 replacement).")
    assert path.read_text() == "two\n"


def test_k08_another_time_alone_is_no_change(tmp_path: Path) -> None:
    files = Files(tmp_path)
    os.utime(known(files), (5, 5))
    later, changed = resumed(files)
    assert changed == []
    later.text("Edit", **EDIT)


@pytest.mark.parametrize("theirs", ["theirs, longer\n", "two\n"])
def test_k08_a_change_while_away_is_noticed_and_refused(tmp_path: Path, theirs: str) -> None:
    files = Files(tmp_path)
    path = known(files)
    path.write_text(theirs)
    os.utime(path, (5, 5))
    later, changed = resumed(files)
    code, message = later.refusal("Edit", **EDIT)
    assert (changed, code) == ([str(path)], ErrorCode.CHANGED_SINCE_READ)
    assert message.endswith(f"This is what it holds now:\n     1\t{theirs.rstrip()}")


def test_k08_same_size_and_same_time_is_found_by_the_hash_at_the_edit(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = known(files)
    before = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    later, changed = resumed(files)
    assert (changed, later.code("Edit", **EDIT)) == ([], ErrorCode.CHANGED_SINCE_READ)


def test_odd_names_and_lost_files_and_strange_entries(tmp_path: Path) -> None:
    files = Files(tmp_path)
    odd = known(files, os.fsdecode(b"bad\xff"))
    gone = known(files, "gone")
    gone.unlink()
    later = Files(tmp_path)
    entries: list[dict[str, Json]] = [
        *files.cache.export(),
        {},
        {"path": 1},
        {"path": "x", "sha256": "", "size": True, "mtime_ns": None},
    ]
    assert later.cache.import_entries(entries) == [str(gone)]
    assert later.cache.export() == files.cache.export()
    later.cache.drop(odd)
    later.cache.drop(str(gone))
    assert later.cache.export() == []
