"""A load that begins at a checkpoint tells what a fold of every record tells, at every event and after damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.host import CodeAgent
from memory.blobs import BlobStore
from memory.disk import Disk
from memory.events import JsonObject
from memory.fold import SessionFold
from memory.layout import MemoryFolder, SessionFiles
from memory.reader import TranscriptReader
from memory.resume import ResumeLoader
from memory.state import ResumeState
from tests.kit.in_process import Someone, run
from tests.kit.request import Request
from tests.kit.script import Call, Reply, call, say
from tests.kit.transcript import sealed
from tests.memory.memory_kit import facts_of

STEPS_OF_A_RUN = 9
RUNS = 5
FILES = 4
CONTEXT_TOKENS = 9_000  # so that a run outgrows it: several checkpoints


def scripted(number: int, _request: Request) -> Reply:
    """Reads, edits, todos and commands in turn, and an answer at the end of each run."""
    step = number % STEPS_OF_A_RUN
    if step == STEPS_OF_A_RUN - 1:
        return say(f"完成 {number}")
    path = f"file-{number % FILES}.txt"
    if step % 4 == 1:
        edit = {
            "file_path": path,
            "old_string": f"mark {number % FILES}",
            "new_string": f"mark {number % FILES}",
            "x": 1,
        }
        return Reply("both", calls=(Call("Read", {"file_path": path}), Call("Edit", edit)))
    if step == 6:
        return call(
            "TodoWrite", {"todos": [{"content": f"第 {number} 件", "status": "pending", "activeForm": "doing"}]}
        )
    return call("Read", {"file_path": path}, text=f"step {number}")


def compacted_session(folder: Path) -> tuple[SessionFiles, CodeAgent]:
    """A session of several runs and checkpoints, and the agent that lived it."""
    one = Someone(folder, scripted).with_services(context_tokens=CONTEXT_TOKENS)
    for number in range(FILES):
        one.file(f"file-{number}.txt", f"mark {number}\n" + "text of the file 文件\n" * 200)
    agent = one.start()
    run(agent, *(f"prompt {number}" for number in range(RUNS)))
    return one.files(agent.session_id), agent


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[SessionFiles, CodeAgent]:
    return compacted_session(tmp_path_factory.mktemp("lived"))


def load(files: SessionFiles) -> ResumeState:
    return ResumeLoader(files, BlobStore(files.blobs, Disk())).load_session()


def full_fold(files: SessionFiles) -> ResumeState:
    """What every record tells, taken in one after the other from the first on."""
    reader = TranscriptReader(files.transcript, files.session_id).scan()
    fold = SessionFold(BlobStore(files.blobs, Disk()))
    for event in reader.events():
        fold.ingest(event)
    return fold.state(files, reader)


def differences(files: SessionFiles) -> JsonObject:
    """Where a load and the fold of every record differ."""
    loaded, folded = facts_of(load(files)), facts_of(full_fold(files))
    return {name: (value, folded[name]) for name, value in loaded.items() if value != folded[name]}


def copy_with(files: SessionFiles, folder: Path, lines: Sequence[bytes]) -> SessionFiles:
    """The session elsewhere, with other lines in its transcript."""
    copied = MemoryFolder(folder).session(files.session_id)
    copied.transcript.parent.mkdir(parents=True, exist_ok=True)
    copied.transcript.write_bytes(b"".join(lines))
    if files.blobs.exists() and not copied.blobs.exists():
        shutil.copytree(files.blobs, copied.blobs)
    return copied


def lines_of(files: SessionFiles) -> list[bytes]:
    return files.transcript.read_bytes().splitlines(keepends=True)


def checkpoints_in(lines: Sequence[bytes]) -> list[int]:
    return [index for index, line in enumerate(lines) if b'"event_type":"checkpoint"' in line]


def with_facts(line: bytes, facts: object) -> bytes:
    """A checkpoint whose snapshot is another one."""
    record = json.loads(line)
    record["payload"]["metadata"]["facts"] = facts
    return sealed(record) + b"\n"


def test_a_resume_equals_the_live_process(lived: tuple[SessionFiles, CodeAgent]) -> None:
    files, agent = lived
    state = load(files)
    assert len(checkpoints_in(lines_of(files))) >= 3
    assert list(state.history_messages) == list(agent.history_manager.messages)
    assert state.messages_before == agent.history_manager.messages_before
    assert state.checkpoint == agent.context_engine.compact_store.active
    assert agent.session is not None
    assert state.memory.memory == agent.session.memory.memory
    assert state.memory.in_view == agent.session.memory.in_view
    live = {str(entry["path"]): entry for entry in agent.tool_registry.export_read_cache()}
    assert {path: entry["sha256"] for path, entry in state.runtime_state.read_cache.items()} == {
        path: entry["sha256"] for path, entry in live.items()
    }


def test_at_every_event_a_load_from_a_checkpoint_equals_the_full_fold(
    quick: Path, lived: tuple[SessionFiles, CodeAgent], battery: Callable[[str], None]
) -> None:
    files, _ = lived
    lines = lines_of(files)
    for count in range(len(lines) + 1):
        copied = copy_with(files, quick, lines[:count])
        assert differences(copied) == {}, count
    battery(f"checkpoints: {len(lines) + 1} events, {len(checkpoints_in(lines))} checkpoints, equal to the full fold")


def test_a_damaged_checkpoint_gives_way_to_an_older_one(
    quick: Path, lived: tuple[SessionFiles, CodeAgent], battery: Callable[[str], None]
) -> None:
    """Of the last checkpoints any number is damaged: a load says so, and tells what all other records tell."""
    files, _ = lived
    lines = lines_of(files)
    places = checkpoints_in(lines)
    for count in range(1, len(places) + 1):
        damaged = list(lines)
        for place in places[-count:]:
            damaged[place] = damaged[place].replace(b'"checkpoint_id"', b'"checkpoint_iD"')
        copied = copy_with(files, quick, damaged)
        state = load(copied)
        assert [(one.kind, one.line) for one in state.damage] == [("corrupt", place + 1) for place in places[-count:]]
        assert differences(copied) == {}, count
    battery(f"checkpoints: 1 to {len(places)} damaged ones, an older one or the beginning stood in")


@pytest.mark.parametrize(
    "facts", [None, [], {}, {"version": 99}, {"messages": "many"}, "x"], ids=lambda facts: json.dumps(facts)
)
def test_a_snapshot_of_another_version_is_passed_over(
    quick: Path, lived: tuple[SessionFiles, CodeAgent], facts: object
) -> None:
    files, _ = lived
    lines = lines_of(files)
    for place in checkpoints_in(lines)[-2:]:
        lines[place] = with_facts(lines[place], facts)
    copied = copy_with(files, quick, lines)
    assert load(copied).damage == ()
    assert differences(copied) == {}


def test_a_loader_that_trusts_any_snapshot_fails_the_comparison(
    quick: Path, lived: tuple[SessionFiles, CodeAgent]
) -> None:
    """The negative control: a snapshot that is well-formed and wrong shows in the comparison."""
    files, _ = lived
    lines = lines_of(files)
    place = checkpoints_in(lines)[-1]
    facts = json.loads(lines[place])["payload"]["metadata"]["facts"]
    lines[place] = with_facts(lines[place], {**facts, "steps": facts["steps"] + 1, "files_changed": ["/nowhere"]})
    assert set(differences(copy_with(files, quick, lines))) == {"steps", "files_changed"}
