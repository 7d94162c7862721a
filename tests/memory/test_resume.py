"""What else a transcript tells: runs, queued input, what the tools knew; and how it is put into an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memory.checkpoint import CompactCheckpoint, CompactStore
from memory.events import End, HistoryMessage, JsonObject, LifecyclePayload, Reason, TerminalPayload
from memory.state import RunFacts, RuntimeFacts
from tests.memory.memory_kit import Place, asks, compacted, facts_of, in_run, kinds, life, says, shown, transition, user


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def read(path: str, sha256: str) -> LifecyclePayload:
    states = ({"path": path, "sha256": sha256, "size": 1, "mtime_ns": 2},)
    return LifecyclePayload("Read", "r", "completed", "act-r", replay_safe=True, result="text", file_states=states)


def test_a_run_is_told_with_its_world_and_its_end(place: Place) -> None:
    place.write(
        ("", 0, transition(Reason.SESSION_OPENED, boot_id="boot", name="auth")),
        *in_run("run-1", 0, transition(Reason.RUN_STARTED, date="2026-01-31"), user("hi")),
        *in_run("run-1", 1, asks("c")),
        *in_run("run-1", 2, says("hello")),
    )
    cut = place.load()
    assert cut.run == RunFacts("run-1", 2, {"date": "2026-01-31"}, None, "hello")
    assert (cut.terminal, cut.steps, cut.runs, cut.name, cut.acted_boot_id) == (None, 2, 1, "auth", "boot")
    place.write(("run-1", 2, TerminalPayload(End.COMPLETED.value)), ("", 0, transition(Reason.SESSION_NAMED, name="b")))
    ended = place.load()
    assert (ended.terminal, ended.name) == ("completed", "b")


def test_a_continued_run_has_no_end_until_it_ends_again(place: Place) -> None:
    place.write(*in_run("run-1", 3, user("hi"), TerminalPayload("interrupted")))
    place.write(("run-1", 3, transition(Reason.USER_INPUT)))
    assert place.load().terminal is None
    place.write(("run-1", 4, TerminalPayload("completed")))
    assert place.load().run == RunFacts("run-1", 4, {}, "completed", None)


@pytest.mark.parametrize("text", ["short", "long " * 20_000], ids=["short", "above 64 KiB"])
def test_queued_input_is_kept_whole_until_it_is_sent_or_dropped(place: Place, text: str) -> None:
    """Promise 2."""
    place.write(*(("", 0, transition(Reason.INPUT_QUEUED, queue_id=f"q{n}", text=f"{n} {text}")) for n in range(3)))
    assert place.load().queued_inputs == {f"q{n}": f"{n} {text}" for n in range(3)}
    place.write(
        ("run-1", 0, user(f"0 {text}", queue_id="q0")), ("run-1", 0, transition(Reason.USER_INPUT, dropped="q1"))
    )
    assert place.load().queued_inputs == {"q2": f"2 {text}"}


def test_queued_input_whose_blob_is_missing_is_shown_in_part_and_reported(place: Place) -> None:
    place.write(("", 0, transition(Reason.INPUT_QUEUED, queue_id="q", text="begin" + "x" * 70_000)))
    (blob,) = place.files.blobs.iterdir()
    blob.unlink()
    state = place.load()
    assert [one[0] for one in kinds(state.damage)] == ["blob_missing"]
    assert (state.queued_inputs["q"][:5], len(state.queued_inputs["q"]) < 3000) == ("begin", True)


def test_todos_directory_grants_and_changed_files_are_those_of_the_last_records(place: Place) -> None:
    todos = '{"todos":[{"content":"a","status":"pending"}]}'
    edited = LifecyclePayload("Edit", "e", "completed", "act-e", result="ok", file_states=({"path": "/w/a"},))
    moved = LifecyclePayload("Bash", "b", "completed", "act-b", result="", cwd="/w/sub", exit_code=0)
    allowed = LifecyclePayload("Bash", "b", "started", "act-b", permission={"rule": "Bash(ls)", "answer": "always"})
    listed = life("t", "requested", "started", "completed", name="TodoWrite")
    place.write(*in_run("run-1", 1, asks("t", arguments=todos, name="TodoWrite"), *listed))
    place.write(*in_run("run-1", 2, read("/w/b", "1"), edited, allowed, moved))
    state = place.load()
    assert state.runtime_state == RuntimeFacts(
        read_cache={"/w/b": {"path": "/w/b", "sha256": "1", "size": 1, "mtime_ns": 2}, "/w/a": {"path": "/w/a"}},
        cwd="/w/sub",
        todos=[{"content": "a", "status": "pending"}],
        grants=["Bash(ls)"],
    )
    assert RuntimeFacts.from_json(state.runtime_state.as_json()) == state.runtime_state
    assert state.files_changed == ("/w/a",)


def test_what_the_model_was_told_at_a_recovery_is_known(place: Place) -> None:
    note = user("note", recovery={"damage": [["torn", 7]], "changed_files": ["/w/a"]})
    place.write(*in_run("run-1", 1, read("/w/a", "1"), read("/w/b", "2"), note))
    state = place.load()
    assert (list(state.runtime_state.read_cache), set(state.told_damage)) == (["/w/b"], {("torn", 7)})


def test_a_load_changes_no_file_and_gives_the_same_each_time(place: Place) -> None:
    place.write(*in_run("run-1", 1, user("hi"), asks("c"), *life("c", "started")))
    place.put(place.data, b"torn")
    before = {path: path.read_bytes() for path in place.files.folder.rglob("*") if path.is_file()}
    assert facts_of(place.load()) == facts_of(place.load())
    assert {path: path.read_bytes() for path in place.files.folder.rglob("*") if path.is_file()} == before


# -- into an agent


@dataclass
class Agent:
    """Notes what a resume does with it."""

    done: list[tuple[str, object]] = field(default_factory=list)
    compact_store: CompactStore = field(default_factory=CompactStore)

    @property
    def context_engine(self) -> Agent:
        return self

    @property
    def history_manager(self) -> Agent:
        return self

    @property
    def tool_registry(self) -> Agent:
        return self

    def reset(self) -> None:
        self.done.append(("reset", None))

    def load_messages(self, messages: Sequence[HistoryMessage], *, messages_before: int) -> None:
        self.done.append(("load", (tuple(messages), messages_before)))

    def import_read_cache(self, entries: Sequence[JsonObject]) -> list[str]:
        self.done.append(("read cache", [entry["path"] for entry in entries]))
        return ["/w/changed"]


def test_a_state_is_put_into_an_agent_in_order(place: Place) -> None:
    place.write(*in_run("run-1", 1, user("old"), says("older"), user("new")), ("run-1", 1, compacted(3, 2)))
    edit = LifecyclePayload("Edit", "e", "started", "act-e", intent={"path": "/w/b"})
    place.write(*in_run("run-1", 2, asks("e"), read("/w/a", "1"), read("/w/b", "2"), edit))
    state, agent = place.load(), Agent()
    assert state.apply_to_host(agent) == ["/w/changed"]
    assert agent.done == [
        ("reset", None),
        ("load", (state.history_messages, 2)),
        ("read cache", ["/w/a", "/w/b"]),
    ]
    assert [text for _, text in shown(state)] == ["new", ""]
    assert agent.compact_store.active == CompactCheckpoint("ckpt-1", "so far", 3, 2)


def test_without_a_checkpoint_none_is_set(place: Place) -> None:
    place.write(("run-1", 1, user("hi")))
    agent = Agent()
    place.load().apply_to_host(agent)
    assert agent.compact_store.active is None
