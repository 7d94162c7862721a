"""--add-dir: another directory that the file tools may use, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import NewProgram, NewServer
from tests.kit.program import AUTO
from tests.kit.script import Call, Reply, say


def test_files_of_an_added_directory_are_read_and_changed(
    server: NewServer, program: NewProgram, tmp_path: Path
) -> None:
    added, beside = tmp_path / "added", tmp_path / "beside"
    for folder in (added, beside):
        folder.mkdir()
        (folder / "a.txt").write_text("one\n")
    edits = [
        Call("Edit", {"file_path": str(f / "a.txt"), "old_string": "one", "new_string": "two"}) for f in (added, beside)
    ]
    reads = [Call("Read", {"file_path": str(folder / "a.txt")}) for folder in (added, beside)]
    user = program(server({"GO": [Reply(calls=tuple(reads)), Reply(calls=tuple(edits)), say("done")]}))
    assert user.ask("GO", *AUTO, "--add-dir", str(added)).out == "done\n"
    assert [(folder / "a.txt").read_text() for folder in (added, beside)] == ["two\n", "one\n"]
    refused = [record.payload["error"]["code"] for record in user.records() if record.is_action("failed")]
    assert refused == ["OUTSIDE_WORKSPACE"] * 2


def test_an_added_directory_that_is_not_there_is_told(server: NewServer, program: NewProgram) -> None:
    done = program(server({"GO": [say("done")]})).ask("GO", "--add-dir", "nowhere")
    assert (done.code, done.err) == (2, "nowhere is no directory: --add-dir takes one that exists.\n")
