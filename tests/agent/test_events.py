"""Events go to the durable sinks first; what observers do never stops a run, except that nobody reads any more."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from agent.events import (
    CompositeRuntimeEventSink,
    ModelRequested,
    OutputClosed,
    RuntimeEvent,
    TextDelta,
    ToolOutput,
)
from agent.host import CodeAgent
from memory.draft import read_draft
from memory.errors import TranscriptUnavailable
from memory.events import EventType, MessagePayload, TerminalPayload
from tests.kit.in_process import FailingDisk, Someone, run

EVENT = RuntimeEvent("session-1", "run-1", 1, "text_delta", TextDelta("hi"))


class Sink:
    """Writes its name into a common book, then fails if told so; as a durable sink it returns a number."""

    def __init__(self, book: list[str], name: str, failure: Exception | None = None, seq: int = 0) -> None:
        self._book = book
        self._name = name
        self._failure = failure
        self._seq = seq

    def emit(self, event: RuntimeEvent) -> int:
        del event
        self._book.append(self._name)
        if self._failure is not None:
            raise self._failure
        return self._seq


class Observer(Sink):
    def emit(self, event: RuntimeEvent) -> None:  # type: ignore[override]
        super().emit(event)


def test_durable_sinks_come_first_and_their_number_is_the_answer() -> None:
    book: list[str] = []
    sink = CompositeRuntimeEventSink((Sink(book, "durable", seq=7), Sink(book, "second")), (Observer(book, "screen"),))
    assert (sink.emit(EVENT), book) == (7, ["durable", "second", "screen"])


def test_without_a_durable_sink_there_is_no_record() -> None:
    assert CompositeRuntimeEventSink().emit(EVENT) == 0


def test_a_durable_sink_that_fails_keeps_the_event_from_every_screen() -> None:
    book: list[str] = []
    full = Sink(book, "durable", TranscriptUnavailable("full", recoverable=True))
    with pytest.raises(TranscriptUnavailable):
        CompositeRuntimeEventSink((full,), (Observer(book, "screen"),)).emit(EVENT)
    assert book == ["durable"]


def test_a_failing_observer_is_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    book: list[str] = []
    broken, screen = Observer(book, "broken", ValueError("a bug")), Observer(book, "screen")
    with caplog.at_level(logging.WARNING):
        CompositeRuntimeEventSink((), (broken, screen)).emit(EVENT)
    assert book == ["broken", "screen"]
    (line,) = caplog.records
    assert line.exc_info is not None and str(line.exc_info[1]) == "a bug"


def test_a_reader_that_went_away_ends_the_run() -> None:
    with pytest.raises(OutputClosed):
        CompositeRuntimeEventSink((), (Observer([], "pipe", OutputClosed()),)).emit(EVENT)


# -- the bridge to memory


def emit(agent: CodeAgent, event_type: str, payload: object) -> int:
    return agent.emit("run-1", 1, event_type, payload)  # type: ignore[arg-type]


def test_streamed_text_is_in_the_draft_until_its_message_is_a_record(tmp_path: Path) -> None:
    one = Someone(tmp_path)
    agent = one.start()
    path = one.files(agent.session_id).draft
    assert emit(agent, "text_delta", TextDelta("Hel")) == emit(agent, "text_delta", TextDelta("lo")) == 0
    draft = read_draft(path)
    assert draft is not None
    assert (draft.run_id, draft.step, draft.text) == ("run-1", 1, "Hello")
    emit(agent, EventType.MESSAGE, MessagePayload("assistant", "Hello"))
    assert read_draft(path) is None
    run(agent)


def test_a_draft_that_finds_no_room_stops_the_answer_before_it_is_shown(tmp_path: Path) -> None:
    one = Someone(tmp_path).with_services(disk=FailingDisk(is_refused=lambda data: b"secret of the sea" in data))
    agent = one.start()
    with pytest.raises(TranscriptUnavailable, match="free some space") as caught:
        emit(agent, "text_delta", TextDelta("secret of the sea"))
    assert caught.value.recoverable
    run(agent)


def test_observations_make_no_record_and_the_trace_holds_all_but_pieces_of_text(tmp_path: Path) -> None:
    one = Someone(tmp_path)
    agent = one.start()
    before = len(one.records(agent.session_id))
    assert emit(agent, "model_request", ModelRequested(3, 100, 1)) == 0
    assert emit(agent, "tool_output", ToolOutput("act-1", "piece")) == 0
    assert emit(agent, EventType.TERMINAL, TerminalPayload("completed")) == before + 1
    run(agent)
    trace = [json.loads(line) for line in one.files(agent.session_id).trace.read_text().splitlines()]
    kinds = [(line["event_type"], line["run_id"], line["step"]) for line in trace]
    assert kinds == [
        ("state_transition", "", 0),
        ("model_request", "run-1", 1),
        ("terminal", "run-1", 1),
        ("state_transition", "", 0),
    ]
    assert trace[1]["payload"] == {"messages": 3, "tokens": 100, "attempt": 1}


def test_a_trace_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    refuses_the_trace = FailingDisk(is_refused=lambda data: data.startswith(b'{"timestamp"'))
    one = Someone(tmp_path).with_services(disk=refuses_the_trace)
    (result,) = run(one.start(), "hello")
    assert (result.exit_code, result.response) == (0, "done")
