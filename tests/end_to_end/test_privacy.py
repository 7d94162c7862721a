"""Everything that is written is the user's alone, and the key is in none of it."""

from __future__ import annotations

import os
import stat

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Program
from tests.kit.script import Reply, bash, call, say
from tests.kit.transcript import breaches


def files_below(user: Program) -> dict[str, bytes]:
    """Every file that the program wrote, by its path below the user's folder."""
    places = [user.state, user.folder / "tmp", user.folder / "output", user.home]
    found = [path for place in places for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(user.folder)): path.read_bytes() for path in found}


def test_files_are_0600_and_directories_0700_whatever_the_umask(server: NewServer, program: NewProgram) -> None:
    before = os.umask(0o022)
    try:
        user = program(
            server(
                [
                    call("Read", {"file_path": "a.txt"}),
                    call("Edit", {"file_path": "a.txt", "old_string": "a", "new_string": "b"}),
                    bash("umask; echo out; echo err >&2"),
                    call("Task", {"description": "d", "prompt": "CHILD"}),
                    say("done"),
                    say("done"),
                ]
            )
        )
        user.write("a.txt", "a\n").chmod(0o644)
        assert user.ask("GO").code == 0
    finally:
        os.umask(before)
    modes: dict[str, set[str]] = {"file": set(), "directory": set()}
    for path in (user.state, *user.state.rglob("*")):
        kind = "directory" if path.is_dir() else "file"
        modes[kind].add(oct(stat.S_IMODE(path.stat().st_mode)))
    assert modes == {"file": {"0o600"}, "directory": {"0o700"}}
    kinds = {path.suffix or path.name for path in user.state.rglob("*") if path.is_file()}
    assert {".jsonl", ".lock", "outcome", "claim", "stdout", "stderr"} <= kinds
    assert list((user.folder / "tmp").iterdir()) == []
    assert stat.S_IMODE((user.workspace / "a.txt").stat().st_mode) == 0o644


def test_the_key_is_written_nowhere(server: NewServer, program: NewProgram) -> None:
    model = server([])
    user = program(model)
    key = user.key
    user.write("secret.txt", f"key = {key}\nother = 1\n")
    model.script = [
        Reply(f"The key is {key}, I think.", calls=bash("env").calls, pieces=9),
        bash("cat secret.txt; cat secret.txt >&2; exit 1"),
        call("Read", {"file_path": "secret.txt"}),
        call("Edit", {"file_path": "secret.txt", "old_string": "other = 1", "new_string": "other = 2"}),
        call("Grep", {"pattern": "key", "output_mode": "content"}),
        bash(f"echo {key}"),
        say(f"done with {key}"),
    ]
    done = user.ask(f"Use {key} please", "--output-format", "stream-json")
    assert done.code == 0
    assert user.read("secret.txt") == f"key = {key}\nother = 2\n"
    assert [name for name, data in files_below(user).items() if key.encode() in data] == []
    assert [request.number for request in model.requests if key.encode() in request.raw] == []
    env = model.last().result_of("env")
    assert "PATH=" in env
    assert "OPENAI_API_KEY" not in env
    blobs = [path for path in user.state.rglob("blobs/*/*") if path.is_file()]
    assert blobs == []  # the old content holds the key: it is not kept, and no revert is offered
    started = next(record for record in user.records() if record.is_action("started", "Edit"))
    assert started.payload["intent"].get("blob") is None
    assert breaches(user.transcript()) == []


def test_an_answer_in_pieces_does_not_carry_the_key_onto_the_screen(server: NewServer, program: NewProgram) -> None:
    model = server([])
    user = program(model)
    model.script = [Reply(f"Here: {user.key} it was.", pieces=40, pause_s=0.01)]
    terminal = user.terminal()
    terminal.wait_for("/help helps")
    terminal.enter("tell me")
    terminal.wait_for("it was")
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0
    assert user.key.encode() not in terminal.raw()
    assert [name for name, data in files_below(user).items() if user.key.encode() in data] == []
