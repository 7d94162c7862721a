"""What the model sees: system prompt, session memory, summary of what was compacted, history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.context.history import HistoryManager
from agent.context.pictures import IMAGE_TOKENS, Pictures
from agent.context.prompt import system_prompt
from agent.context.tokens import estimated_tokens
from agent.context.wire import WireForm
from agent.provider.base import ChatMessage
from agent.state import World
from memory.checkpoint import CompactStore
from memory.events import ImageRef

_SUMMARY = "[Summary of the conversation so far; the messages that it stands for are left out]\n\n"


class ContextEngine:
    """Builds the model's view. A message is translated once, when it is new: a step costs the same at any age."""

    def __init__(self, history: HistoryManager, load_image: Callable[[str], bytes | None]) -> None:
        self._history = history
        self._pictures = Pictures(load_image)
        self._images: list[ImageRef] = []  # of the newest results, not shown yet
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
        view = [ChatMessage(role="system", content=first)]
        checkpoint = self.compact_store.active
        if checkpoint is not None:
            view.append(ChatMessage(role="user", content=_SUMMARY + checkpoint.summary))
        self._show_images()
        conversation = list(self._conversation)
        if world.sees_images:
            self._pictures.fill(conversation)
        view.extend(conversation)
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
            self._pictures.clear()
            self._images = []
        for message in self._history.messages[self._translated :]:
            chat = self._wire.message(message)
            images = len(message.images) * IMAGE_TOKENS
            self._tokens.append(estimated_tokens(chat) + images if chat else 0)
            if chat is None:
                continue
            if message.role != "tool":
                self._show_images()
            self._images.extend(message.images)
            # A prompt may speak of the answer that was cut off before it. Where the run goes on instead, the model is
            # asked again without that answer: services refuse a request that ends in one.
            if self._cut_off is not None and message.role == "user":
                self._conversation.append(self._cut_off)
            self._cut_off = chat if message.metadata.get("interrupted") else None
            if self._cut_off is None:
                self._conversation.append(chat)
        self._translated = len(self._history.messages)

    def _show_images(self) -> None:
        """The results of an exchange are complete: a message with their images follows."""
        if self._images:
            self._conversation.append(self._pictures.reserve(len(self._conversation), self._images))
            self._images = []
