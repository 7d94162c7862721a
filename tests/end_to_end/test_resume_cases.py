"""Cases from public bug reports about resuming, each by its number."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable

from tests.conftest import NewProgram, NewServer
from tests.end_to_end.crashed import (
    NEXT,
    assert_settled_once,
    cut_behind,
    decided,
)
from tests.kit.json_object import JsonObject
from tests.kit.program import Program
from tests.kit.script import Call, Reply, Script, call, say
from tests.kit.side_by_side import side_by_side
from tests.kit.transcript import breaches, saw


def edit_step(old: str, new: str) -> Reply:
    return call("Edit", {"file_path": "f.txt", "old_string": old, "new_string": new})


READ_CACHE_SCRIPT: Script = {
    "READ-IT": [call("Read", {"file_path": "f.txt"}), say("read")],
    "EDIT-SAME": [edit_step("one", "two"), say("edited")],
    "EDIT-TOUCHED": [edit_step("two", "three"), say("edited")],
    "EDIT-CHANGED": [edit_step("three", "four"), say("refused")],
    "EDIT-ALIKE": [edit_step("five", "six"), say("refused")],
}


def test_what_was_read_stays_known_after_a_resume_by_content_and_not_by_time(
    server: NewServer, program: NewProgram
) -> None:
    """K08: after a restart every edit failed, because what had been read was known by times kept in memory."""
    model = server(READ_CACHE_SCRIPT)
    user = program(model)
    path = user.write("f.txt", "one\n")
    user.ask("READ-IT")
    session_id = user.session_id()
    assert user.resume(session_id, "EDIT-SAME").code == 0
    assert user.read("f.txt") == "two\n"
    os.utime(path, (1, 1))
    assert user.resume(session_id, "EDIT-TOUCHED").code == 0
    assert user.read("f.txt") == "three\n"
    user.write("f.txt", "theirs three\n")
    changed = user.resume(session_id, "EDIT-CHANGED")
    assert "Changed while the session was away: f.txt" in changed.err
    refusal = model.last("EDIT-CHANGED").result_of("three")
    assert "changed since it was read" in refusal
    assert "theirs three" in refusal
    assert user.read("f.txt") == "theirs three\n"
    seen = path.stat()
    user.write("f.txt", "other  three\n")  # as long as before, and at the same time as far as the file says
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    user.resume(session_id, "EDIT-ALIKE")
    refusal = model.last("EDIT-ALIKE").result_of("five")
    assert "changed since it was read" in refusal
    assert user.read("f.txt") == "other  three\n"


# -- K09

THREE_CALLS: Script = {
    "THREE-CALLS": [
        Reply(
            calls=(
                Call("Read", {"file_path": "f.txt"}),
                Call("Bash", {"command": "echo x >> count; sleep 0.8; echo y >> count; echo the output"}),
                Call("Read", {"file_path": "g.txt"}),
            )
        ),
        say("all three"),
    ],
    NEXT: [say("went on")],
}


def killed_in_the_sleep(user: Program) -> None:
    process = user.start("-p", "THREE-CALLS", "--mode", "auto")
    end = time.monotonic() + 20
    while "x" not in user.read("count"):
        assert time.monotonic() < end
        time.sleep(0.005)
    process.kill()


def killed_before_the_result_record(user: Program) -> None:
    user.ask("THREE-CALLS")
    cut_behind(user, lambda record: record.is_action("started", "Bash"))


def killed_after_the_result_record(user: Program) -> None:
    user.ask("THREE-CALLS")
    cut_behind(user, lambda record: record.is_action("completed", "Bash"))


def test_a_batch_cut_short_in_its_second_call_runs_nothing_twice(server: NewServer, program: NewProgram) -> None:
    """K09: results were kept only when the whole batch was done, so a restart did the side effects again."""

    def one(crash: Callable[[Program], None]) -> None:
        model = server(THREE_CALLS)
        user = program(model)
        user.write("f.txt", "the first file\n")
        user.write("g.txt", "the second file\n")
        crash(user)
        asked = len(model.requests)
        session_id = user.session_id()
        done = user.resume(session_id, NEXT)
        assert (done.code, done.out) == (0, "went on\n")
        assert user.read("count").split() == ["x", "y"]
        assert len(model.requests) == asked + 1
        request = model.last(NEXT)
        ours = request.calls()[:3]
        first, second, third = [request.results()[one.id] for one in ours]
        assert "the first file" in first
        assert "the output" in second
        assert second.startswith("[Recovery]") is (crash is not killed_after_the_result_record)
        assert "Not run" in third
        assert [one.name for one in ours] == ["Read", "Bash", "Read"]
        assert_settled_once(user.records())
        assert breaches(user.transcript()) == []

    side_by_side(one, (killed_in_the_sleep, killed_before_the_result_record, killed_after_the_result_record))


# -- K12, with the demo model

GO_TO_B = "run cd b && pwd"
WHERE = "run pwd; touch here.txt"


def result_of_last_command(user: Program) -> str:
    return [str(record.payload["result"]) for record in user.records() if record.is_action("completed", "Bash")][-1]


def notes(user: Program) -> list[str]:
    """What the model was told besides results and prompts."""
    texts = [str(record.payload["content"]) for record in user.records() if record.is_message("user")]
    return [text for text in texts if text.startswith("[Recovery]")]


def test_a_session_goes_on_in_its_own_directories_wherever_it_is_resumed(program: NewProgram) -> None:
    """K12: a resume from another directory did its work there, or found no session."""
    user = program()
    places = [user.workspace / name for name in "abc"]
    for place in places:
        place.mkdir()
    user.ask(GO_TO_B)
    session_id = user.session_id()
    for place in places:
        done = user.run("-p", WHERE, "-r", session_id, "--mode", "auto", cwd=place)
        assert done.code == 0
        assert f"Working in {user.workspace}, the session's workspace." in done.err
        assert result_of_last_command(user) == str(user.workspace / "b")
    made = sorted(path.relative_to(user.workspace) for path in user.workspace.rglob("here.txt"))
    assert [str(path) for path in made] == ["b/here.txt"]
    assert user.transcripts() == [user.transcript()]


def test_a_directory_that_is_gone_is_told_to_user_and_model_before_anything_runs(program: NewProgram) -> None:
    """K12: where the directory had been deleted, the resume was impossible, or worked elsewhere without a word."""
    user = program()
    (user.workspace / "b").mkdir()
    user.ask(GO_TO_B)
    session_id = user.session_id()
    shutil.rmtree(user.workspace / "b")
    gone = f"The directory {user.workspace / 'b'}"
    for _ in range(2):  # the user at each resume, the model once
        done = user.resume(session_id, NEXT)
        assert (done.code, gone in done.err) == (0, True)
        assert [(gone in note, "starts in the workspace" in note) for note in notes(user)] == [(True, True)]


def test_a_moved_workspace_is_said_in_one_sentence_and_named_with_an_option(program: NewProgram) -> None:
    """K12: the workspace itself was moved."""
    user = program()
    (user.workspace / "b").mkdir()
    user.ask(GO_TO_B)
    session_id = user.session_id()
    moved = user.folder / "moved"
    user.workspace.rename(moved)
    refused = user.run("-p", NEXT, "-r", session_id, cwd=moved)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"The session's workspace {user.workspace} does not exist any more: say where to go on with -C DIR.\n"
    )
    done = user.run("-p", WHERE, "-r", session_id, "-C", str(moved), "--mode", "auto", cwd=user.folder)
    assert done.code == 0
    assert result_of_last_command(user) == str(moved)
    assert f"The directory {user.workspace / 'b'} is gone" in done.err


# -- K17

BIG_LINES = 60_000
OLD_FILE = b"".join(b"old line %d of a big file\n" % number for number in range(BIG_LINES))
NEW_FILE = OLD_FILE.replace(b"old line", b"new line")
BIG_WRITE: Script = {
    "BIG-WRITE": [
        call("Read", {"file_path": "big.txt"}),
        call("Write", {"file_path": "big.txt", "content": NEW_FILE.decode()}),
        say("never reached"),
    ],
}


def test_a_big_write_killed_at_any_moment_leaves_the_old_or_the_new_file(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    """K17: a kill during a write left an empty or a half file."""
    verdicts: list[str] = []

    def one(wait_s: float) -> None:
        user = program(server(BIG_WRITE))
        path = user.write("big.txt", OLD_FILE)
        process = user.start("-p", "BIG-WRITE", "--mode", "auto")
        process.wait_until(saw("started", "Write"))
        time.sleep(wait_s)
        process.kill()
        content = path.read_bytes()
        assert content in (OLD_FILE, NEW_FILE)
        truth = "applied" if content == NEW_FILE else "not_applied"
        session_id = user.session_id()
        found: list[JsonObject] = user.recover(session_id)["uncertain_actions"]
        is_recorded = saw("completed", "Write")(user.records())
        assert [one["verdict"] for one in found] == ([] if is_recorded else [truth])
        verdicts.append("recorded" if is_recorded else truth)
        user.server = None  # the demo model will do for the rest
        assert user.resume(session_id, NEXT).code == 0
        assert path.read_bytes() == content
        assert [entry.name for entry in user.workspace.iterdir()] == ["big.txt"]
        assert len(decided(user.records())) == (0 if is_recorded else 1)

    side_by_side(one, (0.0, 0.002, 0.005, 0.01, 0.03))
    counts = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
    battery(f"kill -9 during a big Write: {len(verdicts)} kills, {counts}")
