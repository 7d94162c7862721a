"""Background commands in the records: which of them nobody has been told the end of, and how many ids were given."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from memory.events import JsonObject, LifecyclePayload, Payload
from memory.state import RuntimeFacts
from tests.memory.memory_kit import Fact, Place, asks, compacted, in_run, user


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def records(call_id: str, background: JsonObject, *, name: str = "Bash") -> list[Payload]:
    """The life of one call whose outcome speaks of a background command."""
    args = (name, call_id)
    return [
        LifecyclePayload(*args, "requested", f"act-{call_id}"),
        LifecyclePayload(*args, "started", f"act-{call_id}"),
        LifecyclePayload(*args, "completed", f"act-{call_id}", result="", background=background),
    ]


def started(step: int, command: str, **background: object) -> list[Fact]:
    arguments = f'{{"command":"{command}","run_in_background":true}}'
    return in_run("run-1", step, asks(f"c{step}", arguments=arguments), *records(f"c{step}", background))


def ended(step: int, bash_id: str, name: str = "BashOutput") -> list[Fact]:
    found = records(f"c{step}", {"bash_id": bash_id, "ended": True}, name=name)
    return in_run("run-1", step, asks(f"c{step}", name=name), *found)


def loaded(place: Place) -> tuple[list[JsonObject], int]:
    facts = place.load().runtime_state
    return list(facts.background.values()), facts.background_count


def test_a_started_one_is_known_until_its_end_was_told(place: Place) -> None:
    place.write(
        *started(1, "make", bash_id="bash-1"),
        *ended(10, "bash-1"),
        *started(2, "serve", bash_id="bash-2"),
        *started(3, "b", bash_id="bash-3"),
    )
    server = {"bash_id": "bash-2", "action_id": "act-c2", "command": "serve"}
    other = {"bash_id": "bash-3", "action_id": "act-c3", "command": "b"}
    assert loaded(place) == ([server, other], 3)
    place.write(*ended(4, "bash-3", "KillBash"))
    assert loaded(place) == ([server], 3)
    place.write(*ended(5, "bash-2"))
    assert loaded(place) == ([], 3)


def test_what_a_finished_command_left_running_is_marked_as_such(place: Place) -> None:
    place.write(*started(1, "serve &", bash_id="bash-1", left_over=True))
    job = {"bash_id": "bash-1", "left_over": True, "action_id": "act-c1", "command": "serve &"}
    assert loaded(place) == ([job], 1)


def test_a_recovery_note_that_named_it_ends_its_being_told(place: Place) -> None:
    place.write(*started(1, "a", bash_id="bash-1"), *started(2, "b", bash_id="bash-2"))
    place.write(("run-1", 2, user("[Recovery] …", recovery={"background": ["bash-1"]})))
    assert [one["bash_id"] for one in loaded(place)[0]] == ["bash-2"]


def test_a_checkpoint_carries_them(place: Place) -> None:
    place.write(*started(1, "serve", bash_id="bash-1"))
    before = loaded(place)
    session = place.open()
    facts = session.checkpoint_facts()
    checkpoint = compacted(session.store.last_seq + 1, 2)
    carried = msgspec.structs.replace(
        checkpoint,
        session_memory=facts.session_memory,
        runtime_state=facts.runtime_state,
        metadata=facts.metadata,
    )
    session.recorder.record_checkpoint("run-1", 1, carried)
    session.close()
    assert loaded(place) == before


@pytest.mark.parametrize(
    "found",
    [{}, {"background": None, "background_count": "3"}, {"background": ["bash-1", 4], "background_count": None}],
)
def test_what_does_not_fit_is_left_out(found: JsonObject) -> None:
    facts = RuntimeFacts.from_json(found)
    assert (facts.background, facts.background_count) == ({}, 0)
