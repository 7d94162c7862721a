"""Brings what a crash left open to an end, when the user acts and before anything else.

Each step is a record of its own and none is repeated: after a crash in the middle, the next resume finds fewer open
ends and does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from agent.context.history import HistoryManager
from agent.events import Observation
from agent.recovery.investigate import Investigated, Investigator
from agent.recovery.lost import LostCommand
from agent.recovery.policies import Choice, Policy, choice_by_policy
from agent.recovery.words import NOT_STARTED, recovery_note, told_attempt, told_by_record
from agent.state import LoopState
from agent.tool_runner import AnyTool, Emit, ToolRunner
from memory.blobs import BlobStore
from memory.calls import ActionFacts
from memory.errors import TranscriptUnavailable
from memory.events import (
    EventType,
    ImageRef,
    JsonObject,
    LifecyclePayload,
    MessagePayload,
    Payload,
    Reason,
    ToolStatus,
    TransitionPayload,
)
from memory.reader import Damage
from memory.state import MissingResult, ResumeState
from tools.base import ErrorCode, Plan
from tools.registry import ToolRegistry

_GONE = "missing_directory"  # in the metadata of a note, so that it is told once
_ACTS = (Choice.REDO, Choice.REVERT, Choice.RESUME)


class DecisionNeeded(Exception):
    """An interrupted action is undecided, and nobody decides it: nothing was settled."""


class Decider(Protocol):
    """Answers *what shall become of it?*. None leaves the action undecided."""

    async def decide(self, item: Investigated) -> Choice | None: ...


@dataclass(frozen=True)
class PolicyDecider:
    """Decides by a stated policy."""

    policy: Policy

    async def decide(self, item: Investigated) -> Choice | None:
        return choice_by_policy(self.policy, item.finding.verdict)


@dataclass(frozen=True)
class Desk:
    """What settling works with: the agent's parts, handed in."""

    emit: Callable[[str, int, str, Payload | Observation], int]  # run, step, event type, payload
    next_seq: Callable[[], int]
    history: HistoryManager
    tool_runner: ToolRunner
    registry: ToolRegistry
    investigator: Investigator
    place: Callable[[str], Path]
    blobs: BlobStore
    new_action_id: Callable[[], str]


class Settlement:
    """What one resumed session still owes: decisions, tool messages, one note."""

    def __init__(
        self,
        desk: Desk,
        state: ResumeState,
        items: Sequence[Investigated],
        *,
        damage: Sequence[Damage],
        changed_files: Sequence[str],
        has_restarted: bool,
        lost: Sequence[LostCommand] = (),
        missing_directory: str | None = None,
    ) -> None:
        self._desk = desk
        self._state = state
        self.items = list(items)
        self._missing = list(state.missing_results)
        self._draft = state.draft
        self._owes_note = True
        self._no_room: TranscriptUnavailable | None = None
        self._damage = [one for one in damage if one.costs_facts and one.key not in state.told_damage]
        self._changed_files = list(changed_files)
        self._has_restarted = has_restarted
        self._lost = list(lost)
        told = [message.metadata.get("recovery") for message in state.history_messages]
        told_gone = [one.get(_GONE) for one in told if isinstance(one, dict)]
        self._gone = None if missing_directory in told_gone else missing_directory

    async def decide(self, decider: Decider) -> None:
        """Decide every uncertain action and record each decision.

        Raises:
            DecisionNeeded: one that has effects is left undecided; then none is recorded.
            TranscriptUnavailable: nothing may follow now. What was settled by then is not settled again.
        """
        self._no_room = None
        choices = [await decider.decide(item) for item in self.items]
        if any(choice is None and item.is_open for choice, item in zip(choices, self.items, strict=True)):
            raise DecisionNeeded
        for index, choice in enumerate(choices):
            if choice is not None and self.items[index].decision is None:
                self.items[index] = await self._settle(self.items[index], choice)
        self._require_room()

    async def write(self, *, keep_draft: bool) -> None:
        """Append the missing tool messages, the cut answer (before a new prompt), and at most one note.

        Raises:
            TranscriptUnavailable, asyncio.CancelledError: call it again to do the rest; nothing is done twice.
        """
        self._no_room = None
        while self._missing:
            await self._answer(self._missing.pop(0))
        if keep_draft:
            self._keep_draft()
        self._lost = [await one.settled() for one in self._lost]
        self._write_note()
        self._require_room()

    async def _settle(self, item: Investigated, choice: Choice) -> Investigated:
        if choice in (Choice.WAIT, Choice.STOP):
            tool = self._desk.registry.get(item.action.tool_name)
            place = self._desk.place(item.action.action_id)
            if tool is not None:
                await tool.await_end(dict(item.action.payload), place, stop=choice is Choice.STOP)
            finding = self._desk.investigator.finding(item.action)
            if choice is Choice.WAIT:  # it has ended, or cannot be seen to: what a cautious policy makes of that
                choice = choice_by_policy(Policy.VERIFY, finding.verdict) or choice
            item = item.decided(choice, finding)
        else:
            item = item.decided(choice)
        details: JsonObject = {
            "action_id": item.action.action_id,
            "verdict": item.finding.verdict.value,
            "evidence": item.finding.evidence(),
            "choice": choice.value,
        }
        self._transition(item.action.run_id, item.action.step, details)
        return item

    async def _answer(self, missing: MissingResult) -> None:
        """One tool message for one call: from its outcome, from its decision, or because it never ran."""
        action = missing.action
        if action is not None and action.outcome is not None:
            failed = action.outcome.status == ToolStatus.FAILED
            self._say_attempt(missing, action, self._desk.blobs.text(action.result), failed=failed)
            return
        if action is None or action.started_at is None:
            first = action.earlier if action else None
            text = told_by_record(first.decision, None) if first and first.decision else NOT_STARTED
            self._say_tool(missing, self._never_ran(missing, text), text, is_recorded=True)
            return
        item = next((item for item in self.items if item.action.action_id == action.action_id), None)
        decision = action.decision or (_record_of(item) if item else {})
        is_act = decision.get("choice") in _ACTS
        if is_act and item is not None:
            await self._act_again(missing, action, decision)
            return
        intent = dict(action.intent)
        tool = self._desk.registry.get(action.tool_name)
        # Decided before a second crash: an act that did not begin then is told, not made up for.
        result = tool.recall(intent, self._desk.place(action.action_id)) if tool and not is_act else None
        text = told_by_record(decision, self._desk.tool_runner.cleaned(result.text) if result else None)
        self._say_tool(missing, action.action_id, text, is_recorded=False)

    async def _act_again(self, missing: MissingResult, action: ActionFacts, decision: JsonObject) -> None:
        """Redo, revert or resume: an ordinary action with records of its own, whose result answers the call."""
        desk, choice = self._desk, Choice(str(decision["choice"]))
        if choice is Choice.REDO and action.intent.get("reverts") and action.earlier is not None:
            action, choice = action.earlier, Choice.REVERT  # what is tried again is to take the change back
        intent, failed = dict(action.intent), False

        def emit(event_type: str, payload: Payload | Observation) -> int:
            nonlocal failed
            if isinstance(payload, LifecyclePayload):
                failed = payload.status == ToolStatus.FAILED
            return desk.emit(missing.run_id, missing.step, event_type, payload)

        def say(_call_id: str, again: str, text: str, images: tuple[ImageRef, ...]) -> None:
            told = told_attempt(decision, text, failed=failed)
            self._say_tool(missing, again, told or text, images, is_recorded=told is None)

        async def revert(tool: AnyTool) -> Plan:
            blob = intent.get("blob")
            plan: Plan = await tool.plan_revert(intent, desk.blobs.get(blob) if isinstance(blob, str) else None)
            return plan

        async def resume(tool: AnyTool) -> Plan:
            plan: Plan = await tool.plan_resume(intent)
            return plan

        if choice is Choice.REVERT:
            await desk.tool_runner.revert(missing.call, action.action_id, Emit(emit, say), revert)
        else:
            plan = resume if choice is Choice.RESUME else None
            await desk.tool_runner.redo(missing.call, action.action_id, Emit(emit, say), plan)

    def _say_attempt(self, missing: MissingResult, action: ActionFacts, result: str, *, failed: bool) -> None:
        """Answer a call from a recorded outcome; of a second attempt together with the decision that began it."""
        decision = action.earlier.decision if action.earlier else None
        told = told_attempt(decision, result, failed=failed) if decision else None
        self._say_tool(missing, action.action_id, told or result, action.images, is_recorded=told is None)

    def _never_ran(self, missing: MissingResult, text: str) -> str:
        """Record that an attempt which was asked for did not run; its action's id."""
        action_id = missing.action.action_id if missing.action else self._desk.new_action_id()
        if missing.action is None:
            self._lifecycle(missing, action_id, ToolStatus.REQUESTED)
        error = {"code": ErrorCode.NOT_RUN.value, "message": "the session was interrupted before it started"}
        self._lifecycle(missing, action_id, ToolStatus.FAILED, result=text, error=error)
        return action_id

    def _lifecycle(
        self,
        missing: MissingResult,
        action_id: str,
        status: ToolStatus,
        *,
        result: str | None = None,
        error: JsonObject | None = None,
    ) -> None:
        tool = self._desk.registry.get(missing.call.name)
        payload = LifecyclePayload(
            missing.call.name,
            missing.call.id,
            status.value,
            action_id,
            replay_safe=tool is not None and tool.replay_safe,
            result=result,
            error=error,
        )
        self._record(missing.run_id, missing.step, EventType.TOOL_LIFECYCLE, payload)

    def _say_tool(
        self,
        missing: MissingResult,
        action_id: str,
        text: str,
        images: tuple[ImageRef, ...] = (),
        *,
        is_recorded: bool,
    ) -> None:
        """History and record. What no outcome record holds stands in the message itself."""
        metadata: JsonObject = {"recovered": True}
        if images and not is_recorded:
            metadata["images"] = msgspec.to_builtins(images)
        self._desk.history.append_tool(
            text,
            seq=self._desk.next_seq(),
            tool_call_id=missing.call.id,
            action_id=action_id,
            metadata=metadata,
            images=images,
        )
        message = MessagePayload(
            "tool",
            None if is_recorded else text,
            tool_call_id=missing.call.id,
            action_id=action_id,
            metadata=metadata,
        )
        self._record(missing.run_id, missing.step, EventType.MESSAGE, message)

    def _keep_draft(self) -> None:
        """The part of an answer that was on the screen becomes a message when a new prompt follows."""
        draft, self._draft = self._draft, None
        if draft is None or not draft.text.strip():
            return
        metadata: JsonObject = {"interrupted": True, "recovered": True}
        self._desk.history.append_assistant(draft.text, seq=self._desk.next_seq(), metadata=metadata)
        message = MessagePayload("assistant", draft.text, metadata=metadata)
        self._record(draft.run_id, draft.step, EventType.MESSAGE, message)

    def _write_note(self) -> None:
        answered = {missing.action.action_id for missing in self._state.missing_results if missing.action}
        text = recovery_note(
            self._damage,
            self._changed_files,
            has_restarted=self._has_restarted,
            without_call=[item for item in self.items if item.action.action_id not in answered],
            lost=self._lost,
            missing_directory=self._gone,
        )
        run = self._state.run
        if not text or run is None or not self._owes_note:
            return
        self._owes_note = False
        metadata: JsonObject = {
            "recovery": {
                "damage": [[one.kind, one.offset] for one in self._damage],
                "changed_files": self._changed_files,
                "background": [one.command.bash_id for one in self._lost if one.is_over],
                **({_GONE: self._gone} if self._gone else {}),
            }
        }
        self._desk.history.append_user(text, seq=self._desk.next_seq(), metadata=metadata)
        self._record(run.run_id, run.step, EventType.MESSAGE, MessagePayload("user", text, metadata=metadata))

    def _transition(self, run_id: str, step: int, details: JsonObject) -> None:
        payload = TransitionPayload(
            Reason.RECOVERY_DECIDED.value, LoopState.IDLE.value, LoopState.RECOVERING.value, details
        )
        self._record(run_id, step, EventType.STATE_TRANSITION, payload)

    def _record(self, run_id: str, step: int, event_type: str, payload: Payload) -> None:
        """A record that finds no room waits in the store, in order: its step is done, and the others follow."""
        try:
            self._desk.emit(run_id, step, event_type, payload)
        except TranscriptUnavailable as error:
            if not error.recoverable:
                raise
            self._no_room = error

    def _require_room(self) -> None:
        if self._no_room is not None:
            raise self._no_room


def _record_of(item: Investigated) -> JsonObject:
    choice = item.decision.value if item.decision else Choice.SKIP.value
    return {"verdict": item.finding.verdict.value, "evidence": item.finding.evidence(), "choice": choice}
