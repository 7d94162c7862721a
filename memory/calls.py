"""What is known of each tool call: the life of its actions, folded from the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memory.events import (
    ImageRef,
    JsonObject,
    LifecyclePayload,
    Text,
    ToolCall,
    ToolStatus,
    TranscriptEvent,
    image_refs,
)


@dataclass
class ActionFacts:
    """One attempt at one call, as far as the records tell."""

    action_id: str
    tool_call_id: str
    tool_name: str
    run_id: str
    step: int
    replay_safe: bool = False
    started_at: str | None = None
    started_seq: int = 0
    intent: JsonObject = field(default_factory=dict)
    outcome: LifecyclePayload | None = None
    decision: JsonObject | None = None
    earlier: ActionFacts | None = None  # the attempt that this one repeats, takes back or lets go on
    has_message: bool = False  # a tool message follows an outcome, so there was one even where its record is lost

    @property
    def is_uncertain(self) -> bool:
        """Started, and nothing tells how it ended."""
        return self.started_at is not None and self.outcome is None and self.decision is None and not self.has_message

    @property
    def result(self) -> Text | None:
        """The recorded result; of an old file's failure without one, its error message."""
        if self.outcome is None:
            return None
        if self.outcome.result is not None:
            return self.outcome.result
        return str((self.outcome.error or {}).get("message", ""))

    @property
    def images(self) -> tuple[ImageRef, ...]:
        """The images of the recorded result."""
        return image_refs(self.outcome.images) if self.outcome is not None else ()


class CallLedger:
    """All actions that still matter: those of the newest assistant message, and open ones from before."""

    def __init__(self) -> None:
        self._actions: dict[str, ActionFacts] = {}
        self._of_call: dict[tuple[str, str], str] = {}  # (run, call) -> its newest action

    def ingest(self, event: TranscriptEvent, lifecycle: LifecyclePayload) -> ActionFacts:
        """Fold in one `tool_lifecycle` record; the action that it belongs to."""
        call = (event.run_id, lifecycle.tool_call_id)
        action_id = lifecycle.action_id or self._old_action_id(call, lifecycle.status)
        action = self._actions.get(action_id)
        if action is None:
            action = ActionFacts(action_id, lifecycle.tool_call_id, lifecycle.tool_name, event.run_id, event.step)
            action.earlier = self._actions.get(lifecycle.redo_of or lifecycle.reverts or "")
            self._actions[action_id] = action
        self._of_call[call] = action_id
        action.replay_safe = action.replay_safe or lifecycle.replay_safe
        if lifecycle.status == ToolStatus.STARTED:
            action.started_at, action.started_seq = event.timestamp, event.seq
            action.intent = lifecycle.intent or {}
        elif lifecycle.status in (ToolStatus.COMPLETED, ToolStatus.FAILED) and action.outcome is None:
            action.outcome = lifecycle
        return action

    def _old_action_id(self, call: tuple[str, str], status: str) -> str:
        """Old files have no action ids: an attempt begins at each `requested`."""
        newest = self._of_call.get(call)
        if newest is not None and status != ToolStatus.REQUESTED:
            return newest
        count = sum(1 for action in self._actions.values() if (action.run_id, action.tool_call_id) == call)
        return f"{call[0]}/{call[1]}/{count + 1}"

    def decide(self, details: JsonObject) -> None:
        """Fold in a `recovery_decided` record."""
        action = self._actions.get(str(details.get("action_id")))
        if action is not None:
            action.decision = details

    def of_call(self, run_id: str, call: ToolCall) -> ActionFacts | None:
        """The newest action of a call."""
        return self._actions.get(self._of_call.get((run_id, call.id), ""))

    def answered(self, run_id: str, tool_call_id: str) -> ActionFacts | None:
        """A tool message for this call was recorded; its newest action."""
        action = self._actions.get(self._of_call.get((run_id, tool_call_id), ""))
        if action is not None:
            action.has_message = True
        return action

    def uncertain(self) -> Iterator[ActionFacts]:
        """Open actions in the order in which they began."""
        return iter(sorted((a for a in self._actions.values() if a.is_uncertain), key=lambda a: a.started_seq))

    def reopen(self, actions: Sequence[ActionFacts]) -> None:
        """Take in open actions from before the records that are folded."""
        for action in actions:
            self._actions.setdefault(action.action_id, action)
            self._of_call.setdefault((action.run_id, action.tool_call_id), action.action_id)

    def forget_settled(self) -> None:
        """Called at each assistant message: what is settled by now is not asked for again."""
        settled = [key for key, action in self._actions.items() if not action.is_uncertain]
        for key in settled:
            action = self._actions.pop(key)
            self._of_call.pop((action.run_id, action.tool_call_id), None)
