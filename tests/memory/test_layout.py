"""Names on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.disk import Disk
from memory.layout import MemoryFolder, all_projects, project_folder


def test_the_files_of_a_session_have_the_names_of_the_contract(tmp_path: Path) -> None:
    files = MemoryFolder(tmp_path).session("session-1")
    found = [files.transcript, files.torn(2), files.draft, files.lock, files.owner, files.trace, files.blobs]
    assert [str(path.relative_to(tmp_path)) for path in [*found, files.output("act-1")]] == [
        "transcripts/transcript-session-1.jsonl",
        "transcripts/transcript-session-1.jsonl.torn-2",
        "transcripts/transcript-session-1.draft",
        "transcripts/transcript-session-1.lock",
        "transcripts/transcript-session-1.owner",
        "traces/session-1.jsonl",
        "blobs/session-1",
        "outputs/session-1/act-1",
    ]


def test_only_transcripts_are_sessions(tmp_path: Path) -> None:
    folder = tmp_path / "transcripts"
    folder.mkdir()
    others = [".jsonl.torn-1", ".jsonl.repaired", ".draft", ".lock", ".owner"]
    for name in ["transcript-b.jsonl", "transcript-a.jsonl", "notes.jsonl", *(f"transcript-a{end}" for end in others)]:
        (folder / name).touch()
    assert list(MemoryFolder(tmp_path).transcripts()) == ["a", "b"]
    assert MemoryFolder(tmp_path / "none").transcripts() == {}


def test_every_spelling_of_a_workspace_has_one_folder_and_two_workspaces_have_two(tmp_path: Path) -> None:
    home, real = tmp_path / "home", tmp_path / "pro ject ü"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "other").mkdir()
    found = project_folder(home, real)
    assert found == project_folder(home, tmp_path / "link") == project_folder(home, real / ".." / real.name)
    assert found != project_folder(home, tmp_path / "other")
    assert found.path.parent.name.startswith("pro-ject")
    assert project_folder(home, Path("/")).path.parent.name.startswith("root-")
    found.path.mkdir(parents=True)
    assert all_projects(home) == [found]
    assert all_projects(tmp_path / "nowhere") == []


@pytest.mark.parametrize(("wanted", "is_package"), [(True, False), (False, False), (True, True)])
def test_a_folder_in_a_repository_is_kept_out_of_git_unless_it_holds_our_source(
    tmp_path: Path, wanted: bool, is_package: bool
) -> None:
    folder = MemoryFolder(tmp_path / "memory")
    if is_package:
        folder.path.mkdir()
        (folder.path / "__init__.py").touch()
    for _ in range(2):
        folder.prepare(Disk(), keep_out_of_git=wanted)
    ignore = folder.path / ".gitignore"
    assert ignore.exists() == (wanted and not is_package)
    assert not ignore.exists() or ignore.read_bytes() == b"*\n"
