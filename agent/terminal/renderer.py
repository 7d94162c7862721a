"""The screen as a sink: what the agent does, in lines for the scrollback and a status beside the prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from agent.events import RuntimeEvent, TextDelta, ToolOutput
from agent.terminal.paint import Paint, diff_start
from agent.terminal.printable import printable
from agent.terminal.recovery_screen import subject_of
from agent.terminal.stream_view import StreamView
from memory.events import (
    LifecyclePayload,
    MessagePayload,
    Reason,
    TerminalPayload,
    ToolCall,
    ToolStatus,
    TransitionPayload,
)

RESULT_LINES_MAX = 4  # of a result on the screen; the model gets all of it
NEW_LINES_MAX = 10  # of a file that was made
SUBJECT_CHARACTERS_MAX = 100

_FILE_CHANGES = ("Edit", "Write")


class ScreenRenderer:
    """Observer. `commit` puts text into the scrollback, `refresh` redraws the prompt with `status`."""

    def __init__(
        self, stream: StreamView, paint: Paint, commit: Callable[[str], None], refresh: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._paint = paint
        self._commit = commit
        self._refresh = refresh
        self._subjects: dict[str, str] = {}
        self._new_texts: dict[str, str] = {}  # of files that calls make
        self._status: dict[str, str] = {}  # of running actions

    def status(self) -> list[str]:
        """Rows above the prompt: the unfinished part of the answer, and what runs."""
        return [*self._stream.tail(), *self._status.values()]

    def emit(self, event: RuntimeEvent) -> None:
        payload = event.payload
        match payload:
            case TextDelta(text=text):
                self._commit(self._stream.feed(text))
                self._refresh()
            case ToolOutput(action_id=action_id, text=text):
                if action_id in self._status and text.strip():
                    self._status[action_id] = f"  {printable(text).strip().splitlines()[-1][:SUBJECT_CHARACTERS_MAX]}"
                    self._refresh()
            case MessagePayload(role="assistant"):
                self._commit(self._stream.flush())
                for call in payload.tool_calls:
                    self._subjects[call.id] = subject_of(str(call.arguments))
                    self._new_texts[call.id] = _new_text(call)
            case LifecyclePayload():
                self._lifecycle(payload)
            case TransitionPayload():
                self._transition(payload)
            case TerminalPayload():
                self._status.clear()
                self._commit(self._stream.flush())
                self._refresh()
            case _:
                pass

    def _lifecycle(self, payload: LifecyclePayload) -> None:
        if payload.status == ToolStatus.REQUESTED:
            subject = self._subjects.pop(payload.tool_call_id, "")
            self._commit(f"● {payload.tool_name} {subject[:SUBJECT_CHARACTERS_MAX]}\n")
        elif payload.status == ToolStatus.STARTED:
            self._status[payload.action_id] = f"  {payload.tool_name} is at work …"
            self._refresh()
        else:
            self._status.pop(payload.action_id, None)
            self._commit(self._outcome(payload))
            self._refresh()

    def _transition(self, payload: TransitionPayload) -> None:
        details = payload.details
        match payload.reason:
            case Reason.MODEL_RETRY:
                self._commit(f"  asked again in {details.get('wait_s')} s: {details.get('reason')}\n")
            case Reason.CONTEXT_COMPACTED | Reason.CONTEXT_TRUNCATED:
                self._commit(f"  {details.get('messages')} older messages were replaced by a summary\n")
            case Reason.INTERRUPTED_BY_USER:
                self._commit("  interrupted\n")
            case _:
                pass

    def _outcome(self, payload: LifecyclePayload) -> str:
        new_text = self._new_texts.pop(payload.tool_call_id, "")
        if payload.error:
            return _first(printable(f"{payload.error.get('code')}: {payload.error.get('message')}").split("\n"))
        text = printable(payload.result) if isinstance(payload.result, str) else ""
        lines = text.strip("\n").split("\n") if text.strip("\n") else []
        if payload.tool_name not in _FILE_CHANGES:
            return _first(lines)
        start = diff_start(lines)
        if start < len(lines):  # the tool bounds it
            return _first(lines[:start]) + self._paint.diff(lines[start:])
        return _first(lines) + _first([f"+{line}" for line in printable(new_text).splitlines()], NEW_LINES_MAX)


def _first(lines: Sequence[str], count: int = RESULT_LINES_MAX) -> str:
    shown = "".join(f"  {line[:SUBJECT_CHARACTERS_MAX]}\n" for line in lines[:count])
    more = len(lines) - count
    return shown + (f"  … {more} more lines\n" if more > 0 else "")


def _new_text(call: ToolCall) -> str:
    """What a call puts into a file that is not there yet."""
    if call.name not in _FILE_CHANGES:
        return ""
    try:
        found = json.loads(str(call.arguments))
    except (ValueError, RecursionError):
        return ""
    match found:
        case {"content": str(text)} | {"old_string": "", "new_string": str(text)}:
            return text
    return ""
