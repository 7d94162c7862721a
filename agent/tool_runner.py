"""The life of an action: requested, plan, permission, intent, started, act, outcome, tool message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from agent.events import TOOL_OUTPUT, Observation, OutputClosed, ToolOutput
from agent.permissions import Answer, Permission, PermissionGate, Question
from memory.errors import TranscriptUnavailable
from memory.events import EventType, ImageRef, JsonObject, LifecyclePayload, Payload, ToolCall, ToolStatus
from memory.text import TextCleaner
from tools.base import Action, CallRefused, ErrorCode, Plan, Tool, ToolResult
from tools.registry import ToolRegistry

log = logging.getLogger(__name__)

ERROR_MESSAGE_CHARACTERS_MAX = 300
AnyTool = Tool[Any, Any]  # each tool knows its own parameters and plan; here they are only handed on
PlanAgain = Callable[[AnyTool], Awaitable[Plan]]

NOT_RUN = "Not run: the user interrupted before this call started. It had no effect."
STOPPED = "Stopped by the user before it came to its end. It only reads, so it had no effect."
NO_TRANSCRIPT = "Not run: the transcript cannot be written, and without a record nothing is done."
NO_READER = "Not run: nobody reads the output any more, so the run ended before this call started. It had no effect."
PLAN_MODE = "Not run: in plan mode nothing is changed. Put it into the plan instead."
DENIED = "The user did not allow this. Ask what they would rather have, or go on without it."
UNANSWERED = (
    "Not allowed: nobody could be asked. Go on without it. (The user can give permission beforehand with --allow or "
    "--mode auto.)"
)


class Emit:
    """How the tool runner speaks to the loop: with the run and the step filled in."""

    def __init__(
        self,
        emit: Callable[[str, Payload | Observation], int],
        say_tool: Callable[[str, str, str, tuple[ImageRef, ...]], None],
    ) -> None:
        self.emit = emit
        self.say_tool = say_tool  # (tool_call_id, action_id, text, images): history and record of the tool message


@dataclass
class Attempt:
    """One action while it lives."""

    call: ToolCall
    action_id: str
    tool: AnyTool | None
    permission: Permission | None = None
    redo_of: str | None = None
    reverts: str | None = None
    plan: PlanAgain | None = None  # other than from the call's arguments
    requested: bool = False
    started: bool = False
    text: str | None = None  # the result, once there is an outcome
    images: tuple[ImageRef, ...] = ()
    answered: bool = False
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def replay_safe(self) -> bool:
        return self.tool is not None and self.tool.replay_safe

    def lifecycle(self, status: ToolStatus, **fields: Any) -> LifecyclePayload:
        return LifecyclePayload(
            tool_name=self.call.name,
            tool_call_id=self.call.id,
            status=status.value,
            action_id=self.action_id,
            replay_safe=self.replay_safe,
            redo_of=self.redo_of,
            reverts=self.reverts,
            **fields,
        )


class ToolRunner:
    """Runs the calls of one assistant message. Every call gets exactly one outcome and one tool message."""

    def __init__(
        self,
        registry: ToolRegistry,
        gate: PermissionGate,
        cleaner: TextCleaner,
        *,
        place: Callable[[str], Path],
        new_action_id: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        self._registry = registry
        self.gate = gate
        self._cleaner = cleaner
        self._place = place
        self._new_action_id = new_action_id
        self._monotonic = monotonic
        self.denials: list[JsonObject] = []
        self.unanswered = False

    def begin_run(self) -> None:
        """What was denied before belongs to an earlier run's result."""
        self.denials = []
        self.unanswered = False

    async def run(self, calls: Sequence[ToolCall], emit: Emit) -> None:
        """Run the calls in order; adjacent replay-safe ones overlap. Tool messages are written in call order.

        When it is cancelled, or the transcript fails, the calls that did not run get their outcome before it returns.

        Raises:
            asyncio.CancelledError: the user interrupted.
            TranscriptUnavailable: a record could not be written.
        """
        await self._run([self._attempt_at(call) for call in calls], emit)

    async def redo(self, call: ToolCall, redo_of: str, emit: Emit, plan: PlanAgain | None = None) -> None:
        """Run an interrupted call again, or let it go on by `plan`: an action of its own. Raises as `run` does."""
        attempt = self._attempt_at(call)
        attempt.redo_of, attempt.plan = redo_of, plan
        await self._run([attempt], emit)

    async def revert(self, call: ToolCall, reverts: str, emit: Emit, plan: PlanAgain) -> None:
        """Take an applied action back, as an ordinary action of its own. Raises as `run` does."""
        attempt = self._attempt_at(call)
        attempt.reverts, attempt.plan = reverts, plan
        await self._run([attempt], emit)

    def refuse(self, calls: Sequence[ToolCall], emit: Emit, why: TranscriptUnavailable | OutputClosed) -> None:
        """None of these calls will run, since the run ends here; each gets its outcome and its tool message."""
        self._close([self._attempt_at(call) for call in calls], emit, why)

    def cleaned(self, text: str) -> str:
        """A tool's text fit for record, request and screen."""
        return self._cleaner.clean(text)

    def _attempt_at(self, call: ToolCall) -> Attempt:
        return Attempt(call, self._new_action_id(), self._registry.get(call.name))

    async def _run(self, attempts: Sequence[Attempt], emit: Emit) -> None:
        try:
            for attempt in attempts:
                self._request(attempt, emit)
            for group in _groups(attempts):
                await self._run_group(group, emit)
                for attempt in group:
                    self._answer(attempt, emit)
        except (asyncio.CancelledError, TranscriptUnavailable, OutputClosed) as why:
            self._close(attempts, emit, why)
            raise

    async def _run_group(self, group: Sequence[Attempt], emit: Emit) -> None:
        if len(group) == 1:
            await self._execute(group[0], emit)
            return
        tasks = [asyncio.ensure_future(self._execute(attempt, emit)) for attempt in group]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    # -- one action

    async def _execute(self, attempt: Attempt, emit: Emit) -> None:
        begun = self._monotonic()
        try:
            result = await self._attempt(attempt, emit)
        except CallRefused as refused:
            result = ToolResult(refused.message, refused.code, file_states=refused.file_states)
        except asyncio.CancelledError:
            # Only what has not begun, or has no effect, ends like this: an act with effects is waited for.
            stopped = ToolResult(STOPPED, ErrorCode.INTERRUPTED)
            self._conclude(attempt, emit, stopped if attempt.started else ToolResult(NOT_RUN, ErrorCode.NOT_RUN), begun)
            raise
        except (TranscriptUnavailable, OutputClosed):
            raise
        except Exception as error:
            # A fault of ours must not cost the session: the model is told, the trace of it goes to the log.
            log.exception("%s failed unexpectedly", attempt.call.name)
            text = f"Internal error of the tool ({type(error).__name__}: {error}). It may have done part of its work."
            result = ToolResult(text, ErrorCode.INTERNAL)
        self._conclude(attempt, emit, result, begun)
        if attempt.stop.is_set():
            raise asyncio.CancelledError

    async def _attempt(self, attempt: Attempt, emit: Emit) -> ToolResult:
        tool = attempt.tool
        params = self._registry.parse(attempt.call.name, str(attempt.call.arguments))
        if tool is None:  # parse has refused it
            raise CallRefused(ErrorCode.UNKNOWN_TOOL, f"There is no tool {attempt.call.name}.")
        plan: Plan = await (attempt.plan(tool) if attempt.plan else tool.plan(params))
        if plan.nothing_to_do is not None:
            nothing: ToolResult = plan.nothing_to_do
            return nothing
        if not tool.replay_safe:
            await self._permit(attempt, tool, plan)
        action = Action(
            attempt.action_id,
            attempt.call.id,
            self._place(attempt.action_id),
            attempt.stop,
            lambda text: _ignore(emit.emit(TOOL_OUTPUT, ToolOutput(attempt.action_id, self._cleaner.clean(text)))),
        )
        intent = await tool.intent(plan, action)
        permission = self._permission_of(attempt)
        started = attempt.lifecycle(ToolStatus.STARTED, permission=permission, intent=dict(intent) or None)
        emit.emit(EventType.TOOL_LIFECYCLE, started)  # if this raises, the tool is never touched
        attempt.started = True
        if tool.replay_safe:
            result: ToolResult = await tool.act(plan, action)
            return result
        return await _to_its_end(tool.act(plan, action), attempt.stop)

    async def _permit(self, attempt: Attempt, tool: AnyTool, plan: Plan) -> None:
        clean = self._cleaner.clean
        question = Question(tool.name, clean(plan.subject), clean(plan.preview), target=plan.target)
        attempt.permission = permission = await self.gate.decide(question)
        if permission.is_granted:
            return
        self.denials.append(
            {
                "tool_name": tool.name,
                "tool_call_id": attempt.call.id,
                "subject": question.subject,
                **(self._permission_of(attempt) or {}),
            }
        )
        if permission.answer is Answer.UNANSWERED:
            self.unanswered = True
            raise CallRefused(ErrorCode.PERMISSION_DENIED, UNANSWERED)
        raise CallRefused(ErrorCode.PERMISSION_DENIED, PLAN_MODE if permission.rule == "mode plan" else DENIED)

    def _permission_of(self, attempt: Attempt) -> JsonObject | None:
        """As records hold it. A rule holds a whole target, which the question showed without the key."""
        if attempt.permission is None:
            return None
        found = attempt.permission.as_json()
        return {**found, "rule": self._cleaner.clean(attempt.permission.rule)}

    def _conclude(self, attempt: Attempt, emit: Emit, result: ToolResult, begun: float) -> None:
        """Write the outcome."""
        attempt.text = self._cleaner.clean(result.text)
        attempt.images = tuple(
            ImageRef(self._cleaner.clean(image.name), image.media_type, image.blob, image.bytes)
            for image in result.images
        )
        code = result.error_code
        error = {"code": code.value, "message": _reason(attempt.text)} if code else None
        denied = code is ErrorCode.PERMISSION_DENIED and attempt.permission is not None
        outcome = attempt.lifecycle(
            ToolStatus.FAILED if code else ToolStatus.COMPLETED,
            permission=self._permission_of(attempt) if denied else None,
            result=attempt.text,
            error=error,
            file_states=tuple(state.as_json() for state in result.file_states),
            images=tuple(msgspec.to_builtins(image) for image in attempt.images),
            cwd=result.cwd,
            exit_code=result.exit_code,
            background=dict(result.background) if result.background else None,
            duration_ms=round((self._monotonic() - begun) * 1000),
        )
        emit.emit(EventType.TOOL_LIFECYCLE, outcome)

    def _request(self, attempt: Attempt, emit: Emit) -> None:
        attempt.requested = True
        emit.emit(EventType.TOOL_LIFECYCLE, attempt.lifecycle(ToolStatus.REQUESTED))

    def _answer(self, attempt: Attempt, emit: Emit) -> None:
        attempt.answered = True
        emit.say_tool(attempt.call.id, attempt.action_id, attempt.text or "", attempt.images)

    def _close(self, attempts: Sequence[Attempt], emit: Emit, why: BaseException) -> None:
        """Give every call that is still open its outcome and its tool message, whatever the transcript does."""
        for attempt in attempts:
            if not attempt.requested:
                with suppress(TranscriptUnavailable, OutputClosed):
                    self._request(attempt, emit)
            if attempt.text is None:
                with suppress(TranscriptUnavailable, OutputClosed):
                    self._conclude(attempt, emit, _not_run(why), self._monotonic())
            if not attempt.answered:
                with suppress(TranscriptUnavailable, OutputClosed):
                    self._answer(attempt, emit)


def _not_run(why: BaseException) -> ToolResult:
    match why:
        case TranscriptUnavailable():
            return ToolResult(NO_TRANSCRIPT, ErrorCode.TRANSCRIPT_UNAVAILABLE)
        case OutputClosed():
            return ToolResult(NO_READER, ErrorCode.NOT_RUN)
        case _:
            return ToolResult(NOT_RUN, ErrorCode.NOT_RUN)


async def _to_its_end(act: Any, stop: asyncio.Event) -> ToolResult:
    """An act with effects is not abandoned: an interruption sets `stop` and its result is waited for all the same."""
    task: asyncio.Task[ToolResult] = asyncio.ensure_future(act)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            stop.set()
        except BaseException:
            if not task.done():
                raise
    return task.result()


def _groups(attempts: Sequence[Attempt]) -> Iterator[list[Attempt]]:
    """Runs of replay-safe calls together, every other call alone."""
    for safe, group in groupby(attempts, key=lambda attempt: attempt.replay_safe):
        if safe:
            yield list(group)
        else:
            yield from ([attempt] for attempt in group)


def _reason(text: str) -> str:
    """Why a call failed, in one line: a note that ends the text in brackets (its output stands first), or the start."""
    lines = text.strip().splitlines() or [""]
    is_note = lines[-1].startswith("[") and lines[-1].endswith("]")
    line = lines[-1][1:-1] if is_note else lines[0]
    return line if len(line) <= ERROR_MESSAGE_CHARACTERS_MAX else line[:ERROR_MESSAGE_CHARACTERS_MAX] + "…"


def _ignore(_seq: int) -> None:
    return None
