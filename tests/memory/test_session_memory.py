"""Session memory: bounded, newest first kept, the same live and rebuilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory.events import LifecyclePayload, MessagePayload, Payload, Reason, ToolCall
from memory.session_memory import SessionMemory, SessionMemoryItem
from tests.memory.memory_kit import Place, asks, decided, in_run, record, transition, user


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def remembered(place: Place, *payloads: Payload) -> SessionMemory:
    """The memory of the live session, which must be that of a rebuild too."""
    session = place.open()
    record(session, *in_run("run-1", 1, *payloads))
    live = (session.memory.memory, session.memory.in_view)
    session.close()
    again = place.load().memory
    assert (again.memory, again.in_view) == live
    return live[0]


def call(name: str, **arguments: object) -> MessagePayload:
    return MessagePayload("assistant", "", (ToolCall("c", name, json.dumps(arguments)),))


def ends(name: str, status: str = "completed", **fields: object) -> LifecyclePayload:
    made = {"tool_name": name, "tool_call_id": "c", "status": status, "action_id": "act-c", **fields}
    return LifecyclePayload(**made)  # type: ignore[arg-type]


def test_goal_work_commands_failures_decisions_and_todos_are_remembered(place: Place) -> None:
    todos = [{"content": "first", "status": "pending"}, {"content": "second", "status": "completed"}]
    denied = {"code": "PERMISSION_DENIED", "message": "not allowed"}
    found = remembered(
        place,
        user("fix\n  the bug"),
        call("Edit", file_path="a.py"),
        ends("Edit"),
        call("Bash", command="pytest -q"),
        ends("Bash", exit_code=1),
        call("Read", file_path="a.py"),
        ends("Read", replay_safe=True),
        call("Write", file_path="b.py"),
        ends("Write", "failed", error={"code": "REFUSED", "message": "no\nroom"}),
        call("Bash", command="rm -rf x"),
        ends("Bash", "failed", error=denied),
        call("TodoWrite", todos=todos),
        ends("TodoWrite", replay_safe=True),
        decided("act-c"),
        user("a note", recovery={"damage": []}),
    )
    assert found.render() == (
        "Current goal:\n- fix the bug\nDone so far:\n- Edit a.py\n"
        "Decisions:\n- Bash rm -rf x: not allowed\n- after a crash: skip (unknown)\n"
        "Failed attempts:\n- Write b.py: no room\nTodo list:\n- [pending] first\n- [completed] second\n"
        "Commands and their exit codes:\n- pytest -q -> exit 1"
    )
    assert found.current_goal == SessionMemoryItem("fix the bug", "run-1", 1, 1)


def test_the_newest_are_kept_and_all_stays_small(place: Place) -> None:
    steps = [(call("Edit", file_path=f"{n}-" + "x" * 999), ends("Edit")) for n in range(20)]
    found = remembered(place, user("g" * 9999), *(one for step in steps for one in step))
    assert [item.text[:7] for item in found.completed_work] == [f"Edit {n}" for n in range(14, 20)]
    assert len(found.render()) < 1500


LARGE = "word " * 20_000


@pytest.mark.parametrize(
    "payloads",
    [
        [user(LARGE)],
        [user(" " * 1490 + LARGE)],
        [call("Write", file_path="a.py", content=LARGE), ends("Write")],
        [call("Write", content=LARGE, file_path="a.py"), ends("Write")],
        [call("Bash", command=LARGE), ends("Bash", "failed", error={"code": "LIMIT", "message": LARGE})],
        [call("TodoWrite", todos=[{"content": LARGE, "status": "x"}]), ends("TodoWrite", replay_safe=True)],
        [asks("c", arguments="{broken"), ends("Bash")],
        [asks("c", arguments="[" * 5000), ends("Bash")],
    ],
    ids=range(8),
)
def test_texts_that_became_blobs_are_remembered_the_same_after_a_resume(place: Place, payloads: list[Payload]) -> None:
    """Promise 7: the memory is part of the request."""
    remembered(place, *payloads)


def test_the_view_changes_only_where_a_run_starts(place: Place) -> None:
    place.write(("run-1", 0, user("one")))
    assert place.load().memory.in_view.render() == ""
    place.write(("run-2", 0, transition(Reason.RUN_STARTED)), ("run-2", 0, user("two")))
    state = place.load()
    assert (state.memory.in_view.render(), state.memory.memory.render()) == (
        "Current goal:\n- one",
        "Current goal:\n- two",
    )
