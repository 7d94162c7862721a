"""The loop: one user input driven to its end. Recovery, retries, tools and rendering live in the parts it calls."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from agent.context import compaction
from agent.context.compactor import Compactor
from agent.errors import FailureKind, ModelFailure
from agent.events import (
    MODEL_REPLY,
    MODEL_REQUEST,
    TEXT_DELTA,
    ModelReplied,
    ModelRequested,
    Observation,
    OutputClosed,
    RuntimeEvent,
    TextDelta,
)
from agent.model_turn import Retry
from agent.provider.assembly import Reply
from agent.provider.base import ModelRequest
from agent.run_host import RunHost
from agent.state import Limits, LoopState, RunResult, Usage, World
from agent.tool_runner import Emit
from memory.errors import TranscriptUnavailable
from memory.events import (
    End,
    EventType,
    ImageRef,
    JsonObject,
    MessagePayload,
    Payload,
    Reason,
    TerminalPayload,
    ToolCall,
    TransitionPayload,
)

log = logging.getLogger(__name__)

_INTERRUPTIONS = {End.INTERRUPTED, End.TERMINATED, End.HANGUP}


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
        self._compactor = Compactor(host, world, self._tools, self._emit_now, self._transition, self._retry)
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
        with suppress(OutputClosed):  # the prompt is recorded in any case; its own event says it again
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
        if self._compactor.is_full():
            await self._compactor.compact(compaction.KEEP, spare_recovered=True)
        for keep in (compaction.KEEP, compaction.KEEP_LESS):
            try:
                return await self._request()
            except ModelFailure as failure:
                if failure.kind is not FailureKind.CONTEXT_TOO_LONG:
                    raise
                self._compactor.learn_that_it_was_too_long()
                if not await self._compactor.compact(keep):
                    raise
        return await self._request()

    async def _request(self) -> Reply:
        host = self._host
        messages = host.context_engine.build_model_view(self._world, host.session_memory())
        request = ModelRequest(self._world.model, messages, self._tools)
        self._emit_now(MODEL_REQUEST, ModelRequested(len(messages), self._compactor.view_tokens(), self._turns + 1))
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

    def _say_tool(self, tool_call_id: str, action_id: str, text: str, images: tuple[ImageRef, ...]) -> None:
        self._host.history_manager.append_tool(
            text, seq=self._host.next_seq(), tool_call_id=tool_call_id, action_id=action_id, images=images
        )
        self._emit_now(EventType.MESSAGE, MessagePayload("tool", tool_call_id=tool_call_id, action_id=action_id))

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
