"""Random sessions: the written file tells what was recorded, wherever reading begins and whatever is lost."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.blobs import BlobStore
from memory.codec import decode_event, encode_line
from memory.disk import Disk
from memory.events import (
    CheckpointPayload,
    LifecyclePayload,
    NewEvent,
    Payload,
    Reason,
    TerminalPayload,
    TranscriptEvent,
)
from memory.fold import SessionFold
from memory.reader import TranscriptReader
from memory.recorder import TranscriptRecorder
from memory.state import ResumeState
from tests.memory.memory_kit import (
    START,
    Fact,
    Place,
    answers,
    asks,
    decided,
    facts_of,
    in_run,
    life,
    record,
    says,
    transition,
    user,
)

words = st.text(max_size=20) | st.just("long " * 15_000)


@st.composite
def steps(draw: st.DrawFn, name: str) -> list[Payload]:
    """One answer of the model with its calls; the last ones may be cut short, and then be settled."""
    calls = draw(st.lists(st.sampled_from("abcd"), max_size=3, unique=True))
    if not calls:
        return [says(draw(words))]
    text = draw(words)
    made: list[Payload] = [asks(*calls, arguments=draw(st.sampled_from(["{}", '{"todos":[{"content":"x"}]}', "{bro"])))]
    for call in calls[: draw(st.integers(0, len(calls)))]:
        action = f"act-{name}-{call}"
        ending = draw(st.sampled_from([["completed"], ["completed"], ["failed"], []]))
        made += life(call, "requested", "started", *ending, result=text, action_id=action)
        if ending:
            made.append(answers(call))
        elif draw(st.booleans()):
            made += [decided(action), answers(call, "told")]
    return made


@st.composite
def sessions(draw: st.DrawFn) -> list[list[Fact]]:
    """Runs as lists of facts: where two lists meet is a place for a checkpoint."""
    parts: list[list[Fact]] = [[("", 0, transition(Reason.SESSION_OPENED, boot_id="b", name=draw(words)))]]
    for run in range(1, draw(st.integers(1, 4))):
        run_id = f"run-{run}"
        parts.append(in_run(run_id, 0, transition(Reason.RUN_STARTED, date="d"), user(draw(words))))
        for step in range(1, draw(st.integers(1, 4))):
            parts.append(in_run(run_id, step, *draw(steps(f"{run}-{step}"))))
        state = LifecyclePayload(
            "Edit", "e", "completed", f"act-e{run}", cwd="/w", file_states=({"path": f"/w/{run}", "sha256": "x"},)
        )
        ends: list[Payload] = [
            state,
            TerminalPayload("completed"),
            transition(Reason.INPUT_QUEUED, queue_id="q", text=draw(words)),
        ]
        parts.append(in_run(run_id, 5, *ends[: draw(st.integers(0, 3))]))
    return parts


class Live:
    """A session that remembers what it recorded."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.events: list[TranscriptEvent] = []
        self.session = place.open()
        self.session.recorder = TranscriptRecorder(
            self.session.store,
            place.files.session_id,
            clock=lambda: START,
            new_id=lambda: f"evt-{len(self.events)}",
            on_recorded=self._remember,
        )

    def _remember(self, event: NewEvent, payload: Payload) -> None:
        self.events.append(decode_event(encode_line(event)[:-1]))
        self.session.memory.ingest_event(event, payload)

    def compact(self, retained: int) -> None:
        """A checkpoint as the agent writes it: the last so many messages stay, calls and results together."""
        history = self.state().history_messages
        index = max(len(history) - retained, 0)
        while index < len(history) and history[index].role == "tool":
            index += 1
        start = history[index].seq if index < len(history) else self.session.store.last_seq + 1
        facts = self.session.checkpoint_facts()
        payload = CheckpointPayload(
            "ckpt", "summary", len(history), index, index, "", start, **msgspec.structs.asdict(facts)
        )
        record(self.session, (self.events[-1].run_id or "run-1", 9, payload))

    def state(self) -> ResumeState:
        """The fold of what was recorded, from the first event on."""
        fold = SessionFold(BlobStore(self.place.files.blobs, Disk()))
        for event in self.events:
            fold.ingest(event)
        return fold.state(self.place.files, TranscriptReader(self.place.files.transcript, "session-x"))


def assert_valid(state: ResumeState) -> None:
    """Every call has one result, in call order, right behind its message; what is missing stands at the end."""
    owed: Sequence[str] = ()
    for message in state.history_messages:
        if message.role == "tool":
            assert owed and message.tool_call_id == owed[0], state.history_messages
            owed = owed[1:]
        else:
            assert not owed, state.history_messages
            owed = [call.id for call in message.tool_calls]
    assert [one.call.id for one in state.missing_results] == list(owed)


@settings(max_examples=60)
@given(sessions(), st.sets(st.integers(0, 12), max_size=3), st.integers(0, 6))
def test_a_load_tells_what_the_live_session_knows(
    parts: list[list[Fact]], checkpoints: set[int], retained: int
) -> None:
    """Also where it begins at a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Place(Path(folder)))
        for number, part in enumerate(parts):
            record(live.session, *part)
            if number in checkpoints and number and not live.state().missing_results:
                live.compact(retained)
        expected = facts_of(live.state())
        memory = (live.session.memory.memory, live.session.memory.in_view)
        live.session.close()
        state = live.place.load()
        found = facts_of(state)
        assert {name: (found[name], expected[name]) for name in found if found[name] != expected[name]} == {}
        assert (state.memory.memory, state.memory.in_view) == memory
        assert_valid(state)


@settings(max_examples=100)
@given(sessions(), st.lists(st.integers(0, 40), max_size=4), st.integers(0, 60), st.booleans())
def test_whatever_is_lost_the_next_request_is_valid(
    parts: list[list[Fact]], lost: list[int], end: int, leaves_bad_lines: bool
) -> None:
    """Promise 4, with lines missing, damaged or doubled, and the end cut off."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        place.write(*(fact for part in parts for fact in part))
        lines = place.lines[: max(end, 1)]
        for index in lost:
            if index < len(lines):
                lines[index] = b"{bad\n" if leaves_bad_lines else lines[index] * (index % 3)
        place.put(*lines)
        state = place.load()
        assert_valid(state)
        assert facts_of(place.load()) == facts_of(state)
        place.opened_by_agent()
        assert place.load().history_messages == state.history_messages
