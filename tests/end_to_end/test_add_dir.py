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


def test_a_resumed_session_and_its_fork_may_go_on_there(server: NewServer, program: NewProgram, tmp_path: Path) -> None:
    added = tmp_path / "added"
    added.mkdir()
    (added / "a.txt").write_text("one\n")
    path = str(added / "a.txt")
    edits = [
        Call("Edit", {"file_path": path, "old_string": a, "new_string": b}) for a, b in (("one", "two"), ("o", "0"))
    ]
    read = Call("Read", {"file_path": path})
    model = server({"GO": [Reply(calls=(read,)), say("read")], "ON": [Reply(calls=tuple(edits)), say("changed")]})
    user = program(model)
    user.ask("GO", *AUTO, "--add-dir", str(added))
    user.resume(user.session_id(), "ON", *AUTO)
    user.resume(user.session_id(), "GO again", "--fork")
    assert (added / "a.txt").read_text() == "tw0\n"
    assert all(f"too: {added}\n" in request.texts("system")[0] for request in model.requests)
    assert len(model.requests) == 6


def test_a_link_in_the_place_of_an_added_directory_leads_nowhere(
    server: NewServer, program: NewProgram, tmp_path: Path
) -> None:
    added, secret = tmp_path / "added", tmp_path / "secret"
    for folder in (added, secret):
        folder.mkdir()
        (folder / "a.txt").write_text(f"{folder.name}\n")
    read = Reply(calls=(Call("Read", {"file_path": str(added / "a.txt")}),))
    user = program(server({"GO": [read, say("done")], "ON": [read, say("done")]}))
    user.ask("GO", "--add-dir", str(added))
    (added / "a.txt").unlink()
    added.rmdir()
    added.symlink_to(secret)
    user.resume(user.session_id(), "ON")
    codes = [record.payload["error"]["code"] for record in user.records() if record.is_action("failed")]
    assert codes == ["OUTSIDE_WORKSPACE"]
