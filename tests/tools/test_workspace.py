"""The boundary: real paths decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.files_kit import Files
from tools.base import CallRefused, ErrorCode


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "work").mkdir()
    return Files(tmp_path / "work")


def resolved(files: Files, text: str) -> Path | ErrorCode:
    try:
        return files.workspace.resolve(text)
    except CallRefused as refused:
        return refused.code


@pytest.mark.parametrize("text", ["", "a\0b", "x" * 300, "d/" * 3000 + "x", "half \ud83d"])
def test_what_no_path_can_be_is_an_invalid_argument(files: Files, text: str) -> None:
    assert resolved(files, text) == ErrorCode.INVALID_ARGUMENTS


def test_k39_what_leads_out_is_refused_and_nothing_is_written(files: Files) -> None:
    outside = files.root.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret\n")
    (files.root / "out").symlink_to(outside)
    (files.root / "dangling").symlink_to(outside / "notyet")
    (files.root / "link.txt").symlink_to(outside / "a.txt")
    names = ["out/new.txt", "dangling", "link.txt", "sub/../../x", str(outside / "b"), "..", "/", "~/../../y"]
    for name in names:
        assert files.code("Read", file_path=name) == ErrorCode.OUTSIDE_WORKSPACE, name
        assert files.code("Write", file_path=name, content="x") == ErrorCode.OUTSIDE_WORKSPACE, name
        assert files.code("Edit", file_path=name, old_string="", new_string="x") == ErrorCode.OUTSIDE_WORKSPACE, name
    assert {str(path) for path in outside.iterdir()} == {str(outside / "a.txt")}
    assert (outside / "a.txt").read_text() == "secret\n"
    assert not (files.root.parent / "x").exists()


def test_links_and_dots_inside_are_followed_to_the_real_path(files: Files) -> None:
    real = files.put("real/a.txt", "")
    (files.root / "dir").symlink_to("real")
    (files.root / "new").symlink_to("real/notyet.txt")
    assert {text: resolved(files, text) for text in ("dir/a.txt", "real/../dir/./a.txt", str(real), "new", ".")} == {
        "dir/a.txt": real,
        "real/../dir/./a.txt": real,
        str(real): real,
        "new": files.root / "real/notyet.txt",
        ".": files.root,
    }


def test_a_root_that_is_reached_by_a_link_is_the_same_workspace(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    workspace = Files(tmp_path / "link").workspace
    assert workspace.resolve(str(tmp_path / "link" / "a")) == tmp_path / "real" / "a"
    assert workspace.display(tmp_path / "real" / "a") == "a"


@pytest.mark.parametrize("where", ["sub", "sub/deep"])
def test_k39_a_directory_that_becomes_a_link_before_the_write_leads_nowhere(files: Files, where: str) -> None:
    outside = files.root.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    files.put("sub/deep/keep.txt", "")

    def swap() -> None:
        (files.root / "sub").rename(files.root / "was")
        (files.root / "sub").symlink_to(outside)

    refused = files.call_late(swap, "Write", file_path=f"{where}/new.txt", content="x")
    assert isinstance(refused, CallRefused) and refused.code == ErrorCode.OUTSIDE_WORKSPACE
    assert {str(path.relative_to(outside)) for path in outside.rglob("*")} == {"deep"}


def test_another_root_is_used_by_whole_paths_and_nothing_beside_it(files: Files) -> None:
    extra, beside = files.root.parent / "extra", files.root.parent / "beside"
    extra.mkdir()
    beside.mkdir()
    (extra / "a.txt").write_text("needle\n")
    (files.root / "to-extra").symlink_to(extra)
    more = Files(files.root, extra_roots=[extra])
    name = str(extra / "a.txt")
    assert more.text("Read", file_path=name) == "     1\tneedle"
    assert more.text("Edit", file_path="to-extra/a.txt", old_string="needle", new_string="pin").startswith(
        f"Edited {name}"
    )
    assert more.text("Write", file_path=str(extra / "new/b.txt"), content="pin\n") == f"Created {extra}/new/b.txt."
    assert more.text("Grep", pattern="pin", path=str(extra)) == f"{extra}/a.txt\n{extra}/new/b.txt"
    assert more.code("Read", file_path=str(beside)) == ErrorCode.OUTSIDE_WORKSPACE
    assert files.code("Read", file_path=name) == ErrorCode.OUTSIDE_WORKSPACE
