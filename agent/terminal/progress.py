"""Observers that print lines: what the tools do (stderr), and the event stream (stdout)."""

from __future__ import annotations

import sys
from typing import TextIO

import msgspec

from agent.events import TEXT_DELTA, OutputClosed, RuntimeEvent
from agent.terminal.printable import printable
from agent.terminal.recovery_screen import subject_of
from memory.events import EventType, JsonObject, LifecyclePayload, MessagePayload, Reason, ToolStatus, TransitionPayload

STREAMED = {*EventType, TEXT_DELTA}


class ProgressLines:
    """One line for each call when it begins, one when it fails, one for each retry. No escape codes."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._calls: dict[str, str] = {}

    def emit(self, event: RuntimeEvent) -> None:
        match event.payload:
            case MessagePayload(role="assistant", tool_calls=calls):
                self._calls.update((call.id, f"{call.name} {subject_of(str(call.arguments))}") for call in calls)
            case LifecyclePayload(status=ToolStatus.REQUESTED) as call:
                self._line(f"- {self._calls.get(call.tool_call_id, call.tool_name)}")
            case LifecyclePayload(status=ToolStatus.FAILED) as call:
                error = call.error or {}
                self._line(f"  {call.tool_name}: {error.get('code')}: {error.get('message')}")
            case TransitionPayload(reason=Reason.MODEL_RETRY, details=details):
                self._line(f"  the model is asked again in {details.get('wait_s')} s: {details.get('reason')}")
            case TransitionPayload(reason=Reason.CONTEXT_COMPACTED | Reason.CONTEXT_TRUNCATED, details=details):
                self._line(f"  {details.get('messages')} older messages were replaced by a summary")
            case _:
                pass

    def _line(self, text: str) -> None:
        if self._out is not None:
            print(printable(text), file=self._out, flush=True)


class JsonStream:
    """One JSON line for each event, as it happens. Raises OutputClosed when nobody reads any more."""

    def emit(self, event: RuntimeEvent) -> None:
        if event.event_type in STREAMED:
            payload: JsonObject = msgspec.to_builtins(event.payload)
            line: JsonObject = {
                "type": event.event_type,
                "session_id": event.session_id,
                "run_id": event.run_id,
                "step": event.step,
                "payload": payload,
            }
            try:
                write_json_line(line)
            except OutputClosed:
                if event.run_id:  # it ends a run; a session is opened and closed all the same
                    raise


def write_json_line(value: JsonObject) -> None:
    """Raises OutputClosed."""
    if sys.stdout is None:
        raise OutputClosed
    try:
        sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
        sys.stdout.buffer.flush()
    except (OSError, ValueError) as error:
        raise OutputClosed from error
