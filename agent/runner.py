"""The loop: one user input driven to its end. Recovery, retries, tools and rendering live in the parts it calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Protocol

import msgspec

from agent.context import compaction
from agent.context.engine import ContextEngine
from agent.context.history import HistoryManager
from agent.context.tokens import BYTES_PER_TOKEN
from agent.errors import FailureKind, ModelFailure
from agent.events import (
    MODEL_REPLY,
    MODEL_REQUEST,
    TEXT_DELTA,
    CompositeRuntimeEventSink,
    ModelReplied,
    ModelRequested,
    Observation,
    OutputClosed,
    RuntimeEvent,
    TextDelta,
)
from agent.model_turn import ModelTurn, Retry
from agent.provider.assembly import Reply
from agent.provider.base import ModelRequest
from agent.state import Limits, LoopState, RunResult, Usage, World
from agent.tool_runner import Emit, ToolRunner
from memory.checkpoint import CompactCheckpoint
from memory.errors import TranscriptUnavailable
from memory.events import (
    CheckpointPayload,
    End,
    EventType,
    JsonObject,
    MessagePayload,
    Payload,
    Reason,
    TerminalPayload,
    ToolCall,
    TransitionPayload,
)
from memory.recorder import timestamp
from memory.snapshot import CheckpointFacts

log = logging.getLogger(__name__)

_INTERRUPTIONS = {End.INTERRUPTED, End.TERMINATED, End.HANGUP}


class RunHost(Protocol):
    """What a run needs from the agent that it runs in."""

    session_id: str
    runtime_event_sink: CompositeRuntimeEventSink
    history_manager: HistoryManager
    context_engine: ContextEngine
    tool_runner: ToolRunner
    model_turn: ModelTurn
    context_tokens: int
    clock: Callable[[], datetime]

    def new_id(self, kind: str) -> str:
        """A fresh id of a kind, like `act-…`."""

    def next_seq(self) -> int:
        """The number that the next record will get; 0 when the session is not recorded."""

    def session_memory(self) -> str:
        """The session memory in view."""

    def checkpoint_facts(self) -> CheckpointFacts:
        """What a checkpoint carries besides its summary, so that a load can start there."""

    def tool_definitions(self, names: tuple[str, ...]) -> list[Mapping[str, object]]:
        """The definitions of the tools that are offered, of those that exist here."""


class RuntimeRunner:
    """One run. `step` counts the model's turns; a continued run goes on behind its last one."""

    def __init__(self, host: RunHost, run_id: str, world: World, limits: Limits, *, step: int = 0) -> None:
        self._host = host
        self._run_id = run_id
        self._world = world
        self._limits = limits
        self._step = step
        self._state = LoopState.IDLE
        self._tools = host.tool_definitions(world.tools)
        self._window_tokens = host.context_tokens  # the model's, as far as we know
        self._tool_tokens = len(msgspec.json.encode(self._tools)) // BYTES_PER_TOKEN
        self._turns = 0
        self._usage = Usage()
        self._shown: list[str] = []  # of the answer that streams
        self._response = ""
        self._why_cancelled = End.INTERRUPTED
        self._task: asyncio.Task[object] | None = None

    # -- the whole life of a run

    async def run(
        self, user_input: str | None, *, metadata: JsonObject | None = None, answer: str | None = None
    ) -> RunResult:
        """Drive one input to its `terminal` record; None goes on with the interrupted run. Never raises what ends it.

        `answer`: the continued run had its final answer already and lacks only its end.
        """
        self._response = answer or ""
        self._task = asyncio.current_task()
        failure: Exception | None = None
        try:
            self._begin(user_input, metadata or {})
            end = await self._loop()
        except asyncio.CancelledError:
            end = self._why_cancelled
        except ModelFailure as error:
            end, failure = End.MODEL_ERROR, error
        except TranscriptUnavailable as error:
            end, failure = End.TRANSCRIPT_ERROR, error
        except OutputClosed:
            end = End.OUTPUT_CLOSED
        except Exception as error:  # the session must have its end record even then
            log.exception("the run failed unexpectedly")
            end, failure = End.INTERNAL_ERROR, error
        return self._finish(end, failure)

    async def _loop(self) -> End:
        while not self._response:
            limit = self._limit_reached()
            if limit is not None:
                return limit
            reply = await self._ask_model()
            self._say_assistant(reply)
            if not reply.tool_calls:
                break
            await self._host.tool_runner.run(_calls(reply), Emit(self._emit_now, self._say_tool))
            self._transition(Reason.TOOLS_EXECUTED, LoopState.ASKING_MODEL)
        self._transition(Reason.MODEL_RETURNED_FINAL, LoopState.ENDED)
        return End.COMPLETED

    @property
    def step(self) -> int:
        """The model's turn that the run is at."""
        return self._step

    def interrupt(self, end: End) -> None:
        """End the run soon and in order: the user pressed Ctrl+C, or a signal came. Safe to call again and again."""
        if end not in _INTERRUPTIONS:
            raise ValueError(end)
        self._why_cancelled = end
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def _begin(self, user_input: str | None, metadata: JsonObject) -> None:
        if user_input is None:
            self._transition(Reason.USER_INPUT, LoopState.ASKING_MODEL, {"action": "continue"})
            return
        self._transition(Reason.RUN_STARTED, LoopState.ASKING_MODEL, self._world.as_json())
        seq = self._host.next_seq()
        self._host.history_manager.append_user(user_input, seq=seq, metadata=metadata)
        self._emit_now(EventType.MESSAGE, MessagePayload("user", user_input, metadata=metadata))

    def _limit_reached(self) -> End | None:
        if self._limits.steps_max is not None and self._turns >= self._limits.steps_max:
            return End.MAX_STEPS
        used = self._usage.input_tokens + self._usage.output_tokens
        if self._limits.tokens_max is not None and used >= self._limits.tokens_max:
            return End.TOKEN_BUDGET
        return None

    def _finish(self, end: End, failure: Exception | None) -> RunResult:
        details: JsonObject = {"steps": self._turns, "usage": self._usage.as_json()}
        if end is End.OUTPUT_CLOSED:
            details["complete"] = bool(self._response)
        if failure is not None:
            details["error"] = str(failure)
        with suppress(TranscriptUnavailable, OutputClosed):
            self._keep_partial_answer()
            if end in _INTERRUPTIONS:
                self._transition(Reason.INTERRUPTED_BY_USER, LoopState.ENDED, {"reason": end.value})
        with suppress(TranscriptUnavailable, OutputClosed):
            self._emit_now(EventType.TERMINAL, TerminalPayload(end.value, details))
        tools = self._host.tool_runner
        return RunResult(
            run_id=self._run_id,
            end=end,
            response=self._response,
            steps=self._turns,
            usage=self._usage,
            permission_denials=tuple(tools.denials),
            unanswered=tools.unanswered,
            error_code=_error_code(failure),
            error_message=str(failure) if failure is not None else None,
            details=details,
        )

    # -- one question to the model

    async def _ask_model(self) -> Reply:
        self._step += 1
        self._shown.clear()
        if self._view_tokens() > self._window_tokens * compaction.FULL_AT:
            await self._compact(compaction.KEEP)
        for keep in (compaction.KEEP, compaction.KEEP_LESS):
            try:
                return await self._request()
            except ModelFailure as failure:
                if failure.kind is not FailureKind.CONTEXT_TOO_LONG:
                    raise
                # The service knows best: its window is smaller than this request, whatever we were told.
                self._window_tokens = min(self._window_tokens, self._view_tokens())
                if not await self._compact(keep):
                    raise
        return await self._request()

    async def _request(self) -> Reply:
        host = self._host
        messages = host.context_engine.build_model_view(self._world, host.session_memory())
        request = ModelRequest(self._world.model, messages, self._tools)
        self._emit_now(MODEL_REQUEST, ModelRequested(len(messages), self._view_tokens(), self._turns + 1))
        begun = asyncio.get_running_loop().time()
        reply = await host.model_turn.ask(
            request, on_text=self._show, on_retry=self._retry, taken=host.history_manager.has_call
        )
        usage = reply.usage
        self._usage.input_tokens += usage.input_tokens
        self._usage.cached_tokens += usage.cached_tokens
        self._usage.output_tokens += usage.output_tokens
        self._turns += 1
        seconds = asyncio.get_running_loop().time() - begun
        replied = ModelReplied(reply.text, len(reply.tool_calls), reply.finish_reason, _usage_json(reply), seconds)
        self._emit_now(MODEL_REPLY, replied)
        return reply

    def _show(self, text: str) -> None:
        self._shown.append(text)
        self._emit_now(TEXT_DELTA, TextDelta(text))  # into the draft first, then onto the screen

    def _retry(self, retry: Retry) -> None:
        details: JsonObject = {"attempt": retry.attempt, "wait_s": round(retry.wait_s, 2), "reason": retry.reason}
        self._transition(Reason.MODEL_RETRY, LoopState.ASKING_MODEL, details)

    def _say_assistant(self, reply: Reply) -> None:
        calls = _calls(reply)
        metadata: JsonObject = {"usage": _usage_json(reply), "finish_reason": reply.finish_reason}
        seq = self._host.next_seq()
        self._host.history_manager.append_assistant(reply.text, seq=seq, tool_calls=calls, metadata=metadata)
        self._shown.clear()
        if not calls:
            self._response = reply.text
        message = MessagePayload("assistant", reply.text, tool_calls=calls, metadata=metadata)
        try:
            self._emit_now(EventType.MESSAGE, message)
            if calls:
                count: JsonObject = {"tool_count": len(calls)}
                self._transition(Reason.MODEL_RETURNED_TOOL_CALLS, LoopState.RUNNING_TOOLS, count)
        except (TranscriptUnavailable, OutputClosed) as why:
            # The history holds these calls from here on, and every later request needs their results.
            self._host.tool_runner.refuse(calls, Emit(self._emit_now, self._say_tool), why)
            raise

    def _keep_partial_answer(self) -> None:
        """What was shown of an answer that did not come to its end is a message too, marked so."""
        text = "".join(self._shown)
        self._shown.clear()
        if not text.strip():
            return
        metadata: JsonObject = {"interrupted": True}
        seq = self._host.next_seq()
        self._host.history_manager.append_assistant(text, seq=seq, metadata=metadata)
        self._emit_now(EventType.MESSAGE, MessagePayload("assistant", text, metadata=metadata))

    def _say_tool(self, tool_call_id: str, action_id: str, text: str) -> None:
        seq = self._host.next_seq()
        self._host.history_manager.append_tool(text, seq=seq, tool_call_id=tool_call_id, action_id=action_id)
        self._emit_now(EventType.MESSAGE, MessagePayload("tool", tool_call_id=tool_call_id, action_id=action_id))

    # -- compaction

    def _view_tokens(self) -> int:
        checkpoint = self._host.context_engine.compact_store.active
        summary = checkpoint.summary if checkpoint else ""
        return (
            sum(self._host.context_engine.message_tokens())
            + self._tool_tokens
            + (len(summary) + len(self._world.project_rules)) // BYTES_PER_TOKEN
            + 1000  # system prompt and session memory
        )

    async def _compact(self, keep: float) -> bool:
        """Let a summary stand for the older messages, and record that before the next request.

        False when nothing can be left out: the newest exchange is all there is.
        """
        host = self._host
        history = host.history_manager.messages
        tokens = host.context_engine.message_tokens()
        cut = compaction.retained_from(history, tokens, int(self._window_tokens * keep))
        if cut == 0:
            return False
        left_out = history[:cut]
        active = host.context_engine.compact_store.active
        summary, is_made = await self._summary_of(cut, active.summary if active else "")
        retain_seq = history[cut].seq if cut < len(history) else host.next_seq()
        facts = host.checkpoint_facts()
        checkpoint = CheckpointPayload(
            checkpoint_id=host.new_id("ckpt"),
            summary=compaction.complete_summary(summary, left_out),
            source_message_count=host.history_manager.messages_before + len(history),
            retain_start_idx=host.history_manager.messages_before + cut,
            messages_compacted=len(left_out),
            created_at=timestamp(host.clock()),
            retain_start_seq=retain_seq,
            session_memory=facts.session_memory,
            runtime_state=facts.runtime_state,
            metadata={"summarized_by": "model" if is_made else "rules", **facts.metadata},
        )
        self._emit_now(EventType.CHECKPOINT, checkpoint)
        host.history_manager.forget_before(cut)
        host.context_engine.compact_store.set_active(
            CompactCheckpoint(checkpoint.checkpoint_id, str(checkpoint.summary), retain_seq, len(left_out))
        )
        reason = Reason.CONTEXT_COMPACTED if is_made else Reason.CONTEXT_TRUNCATED
        self._transition(reason, LoopState.ASKING_MODEL, {"messages": len(left_out)})
        return True

    async def _summary_of(self, cut: int, earlier: str) -> tuple[str, bool]:
        """A summary, and whether the model made it. An empty or failed one is none."""
        host = self._host
        left_out = host.history_manager.messages[:cut]
        room = int(self._window_tokens * compaction.SUMMARY_SOURCE) * BYTES_PER_TOKEN
        request = ModelRequest(self._world.model, compaction.summary_request(left_out, earlier, room), ())
        try:
            reply = await host.model_turn.ask(request, on_text=lambda _text: None, on_retry=self._retry)
        except ModelFailure as failure:
            log.warning("no summary: %s", failure)
        else:
            if reply.text.strip():
                return reply.text, True
        return compaction.fallback_summary(left_out, earlier, host.session_memory()), False

    # -- events

    def _emit_now(self, event_type: str, payload: Payload | Observation) -> int:
        return self._emit(event_type, payload, step=self._step)

    def _emit(self, event_type: str, payload: Payload | Observation, *, step: int) -> int:
        return self._emit_runtime_event(self._run_id, step, event_type, payload)

    def _emit_runtime_event(self, run_id: str, step: int, event_type: str, payload: Payload | Observation) -> int:
        event = RuntimeEvent(self._host.session_id, run_id, step, str(event_type), payload)
        return self._host.runtime_event_sink.emit(event)

    def _transition(self, reason: Reason, to: LoopState, details: JsonObject | None = None) -> None:
        before, self._state = self._state, to
        self._emit_now(
            EventType.STATE_TRANSITION, TransitionPayload(reason.value, before.value, to.value, details or {})
        )


def _calls(reply: Reply) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(call.id, call.name, call.arguments) for call in reply.tool_calls)


def _usage_json(reply: Reply) -> JsonObject:
    usage = reply.usage
    return Usage(usage.input_tokens, usage.cached_tokens, usage.output_tokens).as_json()


def _error_code(failure: Exception | None) -> str | None:
    match failure:
        case None:
            return None
        case ModelFailure():
            return failure.kind.value
        case TranscriptUnavailable():
            return "transcript_unavailable"
        case _:
            return "internal_error"
