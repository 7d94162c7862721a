"""Keeps the model's view within its window: a summary takes the place of older messages, and a checkpoint says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from agent.context import compaction
from agent.context.tokens import BYTES_PER_TOKEN
from agent.errors import ModelFailure
from agent.events import Observation
from agent.model_turn import Retry
from agent.provider.base import ModelRequest
from agent.run_host import RunHost
from agent.state import LoopState, World
from memory.checkpoint import CompactCheckpoint
from memory.events import CheckpointPayload, EventType, JsonObject, Payload, Reason
from memory.recorder import timestamp

log = logging.getLogger(__name__)

PROMPT_TOKENS = 1000  # of the system prompt and the session memory, roughly


class Compactor:
    """Compacts the history of one run. `emit` and `transition` write its records, `on_retry` those of its requests."""

    def __init__(
        self,
        host: RunHost,
        world: World,
        tools: Sequence[Mapping[str, object]],
        emit: Callable[[str, Payload | Observation], int],
        transition: Callable[[Reason, LoopState, JsonObject], None],
        on_retry: Callable[[Retry], None],
    ) -> None:
        self._host = host
        self._world = world
        self._emit = emit
        self._transition = transition
        self._on_retry = on_retry
        self._window_tokens = host.context_tokens  # the model's, as far as we know
        self._tool_tokens = len(msgspec.json.encode(tools)) // BYTES_PER_TOKEN

    def view_tokens(self) -> int:
        """Estimated tokens of the next request."""
        checkpoint = self._host.context_engine.compact_store.active
        summary = checkpoint.summary if checkpoint else ""
        fixed = self._tool_tokens + (len(summary) + len(self._world.project_rules)) // BYTES_PER_TOKEN + PROMPT_TOKENS
        return sum(self._host.context_engine.message_tokens()) + fixed

    def is_full(self) -> bool:
        """Should older messages go before the next request?"""
        return self.view_tokens() > self._window_tokens * compaction.FULL_AT

    def learn_that_it_was_too_long(self) -> None:
        """The service knows best: its window is smaller than this request, whatever we were told."""
        self._window_tokens = min(self._window_tokens, self.view_tokens())

    async def compact(self, keep: float, *, spare_recovered: bool = False) -> bool:
        """Let a summary stand for all but the newest messages, `keep` of the window, and record that.

        False when nothing can be left out: the newest exchange is all there is. With `spare_recovered` one that a
        crash cut short stays, however large: the service may take it, and else says so.

        Raises:
            TranscriptUnavailable: it cannot be recorded, so nothing was left out.
        """
        host = self._host
        history = host.history_manager.messages
        cut = compaction.retained_from(history, host.context_engine.message_tokens(), int(self._window_tokens * keep))
        if spare_recovered:
            cut = min(cut, compaction.recovered_exchange(history))
        if cut == 0:
            return False
        checkpoint, is_made = await self._checkpoint(cut)
        self._emit(EventType.CHECKPOINT, checkpoint)
        host.history_manager.forget_before(cut)
        host.context_engine.compact_store.set_active(
            CompactCheckpoint(checkpoint.checkpoint_id, str(checkpoint.summary), checkpoint.retain_start_seq, cut)
        )
        reason = Reason.CONTEXT_COMPACTED if is_made else Reason.CONTEXT_TRUNCATED
        self._transition(reason, LoopState.ASKING_MODEL, {"messages": cut})
        return True

    async def _checkpoint(self, cut: int) -> tuple[CheckpointPayload, bool]:
        """The record of leaving out the messages before `cut`, and whether the model made its summary."""
        host = self._host
        history, before = host.history_manager.messages, host.history_manager.messages_before
        active = host.context_engine.compact_store.active
        earlier = active.summary if active else ""
        summary, is_made = await self._summary_of(cut, earlier)
        facts = host.checkpoint_facts()
        checkpoint = CheckpointPayload(
            checkpoint_id=host.new_id("ckpt"),
            summary=compaction.complete_summary(summary, history[:cut], earlier),
            source_message_count=before + len(history),
            retain_start_idx=before + cut,
            messages_compacted=cut,
            created_at=timestamp(host.clock()),
            retain_start_seq=history[cut].seq if cut < len(history) else host.next_seq(),
            session_memory=facts.session_memory,
            runtime_state=facts.runtime_state,
            metadata={"summarized_by": "model" if is_made else "rules", **facts.metadata},
        )
        return checkpoint, is_made

    async def _summary_of(self, cut: int, earlier: str) -> tuple[str, bool]:
        """A summary, and whether the model made it. An empty or failed one is none."""
        host = self._host
        left_out = host.history_manager.messages[:cut]
        room = int(self._window_tokens * compaction.SUMMARY_SOURCE) * BYTES_PER_TOKEN
        request = ModelRequest(self._world.model, compaction.summary_request(left_out, earlier, room), ())
        try:
            reply = await host.model_turn.ask(request, on_text=lambda _text: None, on_retry=self._on_retry)
        except ModelFailure as failure:
            log.warning("no summary: %s", failure)
        else:
            if reply.text.strip():
                return reply.text, True
        return compaction.fallback_summary(left_out, earlier, host.session_memory()), False
