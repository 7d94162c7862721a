"""What happens while the agent runs, as values that flow one way: from the loop through the sinks.

Facts are the payloads of `memory.events` and go to the transcript. Observations (here) go to the screen and the trace;
of these only `TextDelta` is kept, in the session's draft, until its message is a fact.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from memory.events import JsonObject, Payload

log = logging.getLogger(__name__)

TEXT_DELTA = "text_delta"
TOOL_OUTPUT = "tool_output"
MODEL_REQUEST = "model_request"
MODEL_REPLY = "model_reply"


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the streaming answer, about to be shown."""

    text: str


class ToolOutput(msgspec.Struct, frozen=True):
    """A piece of what a command prints while it runs, for the screen alone."""

    action_id: str
    text: str


class ModelRequested(msgspec.Struct, frozen=True):
    """A request is about to be sent."""

    messages: int
    tokens: int  # estimated
    attempt: int


class ModelReplied(msgspec.Struct, frozen=True):
    """An answer is complete."""

    text: str
    tool_calls: int
    finish_reason: str
    usage: JsonObject
    seconds: float


Observation = TextDelta | ToolOutput | ModelRequested | ModelReplied


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """One thing that happened. `event_type` is one of the five record types or an observation's name."""

    session_id: str
    run_id: str  # '' outside a run
    step: int
    event_type: str
    payload: Payload | Observation


class RuntimeEventSink(Protocol):
    """Takes events in the order in which they happen."""

    def emit(self, event: RuntimeEvent) -> None: ...


class DurableSink(Protocol):
    """A sink whose failure stops the run. `emit` returns the record's sequence number, 0 when it made none."""

    def emit(self, event: RuntimeEvent) -> int: ...


@dataclass
class CompositeRuntimeEventSink:
    """Durable sinks first, and their failure goes through; then the observers, whose failures are logged."""

    durable: Sequence[DurableSink] = ()
    observers: Sequence[RuntimeEventSink] = ()

    def emit(self, event: RuntimeEvent) -> int:
        """Returns the sequence number of the durable record, 0 without one.

        Raises:
            TranscriptUnavailable: the fact is not on disk.
        """
        seq = 0
        for durable in self.durable:
            seq = durable.emit(event) or seq
        for observer in self.observers:
            try:
                observer.emit(event)
            except OutputClosed:
                raise
            except Exception:  # whatever an observer does, the run goes on
                log.warning("observer %r failed", observer, exc_info=True)
        return seq


class OutputClosed(Exception):
    """Nobody reads our output any more: the run ends in an orderly way."""
