"""What the model sees: system prompt, session memory, summary of what was compacted, history."""

from __future__ import annotations

from collections.abc import Sequence

from agent.context.history import HistoryManager
from agent.context.prompt import system_prompt
from agent.context.tokens import estimated_tokens
from agent.context.wire import ChatMessage, WireForm
from agent.state import World
from memory.checkpoint import CompactStore

_SUMMARY = "[Summary of the conversation so far; the messages that it stands for are left out]\n\n"


class ContextEngine:
    """Builds the model's view. A message is translated once, when it is new: a step costs the same at any age."""

    def __init__(self, history: HistoryManager) -> None:
        self._history = history
        self.compact_store = CompactStore()
        self._generation = -1
        self._wire = WireForm()
        self._conversation: list[ChatMessage] = []
        self._cut_off: ChatMessage | None = None  # the newest message, when it is an interrupted answer
        self._translated = 0
        self._tokens: list[int] = []  # of each history message, 0 for one that is left out

    def reset(self) -> None:
        """Forget everything derived, and the active checkpoint."""
        self.compact_store.set_active(None)
        self._generation = -1

    def build_model_view(self, world: World, session_memory: str) -> list[ChatMessage]:
        """The messages of the next request."""
        self._catch_up()
        # One system message: some services' templates refuse a second one.
        first = system_prompt(world)
        if session_memory:
            first += f"\nSession memory:\n{session_memory}\n"
        view: list[ChatMessage] = [{"role": "system", "content": first}]
        checkpoint = self.compact_store.active
        if checkpoint is not None:
            view.append({"role": "user", "content": _SUMMARY + checkpoint.summary})
        view.extend(self._conversation)
        return view

    def message_tokens(self) -> Sequence[int]:
        """Estimated tokens of each message of the history, in its order."""
        self._catch_up()
        return self._tokens

    def _catch_up(self) -> None:
        if self._generation != self._history.generation:
            self._generation = self._history.generation
            self._wire, self._conversation, self._tokens, self._translated = WireForm(), [], [], 0
            self._cut_off = None
        for message in self._history.messages[self._translated :]:
            chat = self._wire.message(message)
            self._tokens.append(estimated_tokens(chat) if chat else 0)
            if chat is None:
                continue
            # A prompt may speak of the answer that was cut off before it. Where the run goes on instead, the model is
            # asked again without that answer: services refuse a request that ends in one.
            if self._cut_off is not None and message.role == "user":
                self._conversation.append(self._cut_off)
            self._cut_off = chat if message.metadata.get("interrupted") else None
            if self._cut_off is None:
                self._conversation.append(chat)
        self._translated = len(self._history.messages)
