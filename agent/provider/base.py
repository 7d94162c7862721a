"""What the loop asks of a model: one request in, decoded Chat Completions chunks out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import msgspec

Chunk = Mapping[str, object]  # one decoded Chat Completions chunk, as the server sent it


class ChatMessage(dict[str, object]):
    """One message in the form of Chat Completions; it does not change once it is made.

    So its JSON is made once, and a request costs no more for the thousand messages before the newest.
    """

    @cached_property
    def encoded(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(self))


@dataclass(frozen=True)
class ModelRequest:
    """Everything that a request depends on; `tools` are in the form of Chat Completions, too."""

    model: str
    messages: Sequence[ChatMessage]
    tools: Sequence[Mapping[str, object]]  # empty: none are offered
    max_output_tokens: int | None = None  # None: the service decides


class ModelProvider(Protocol):
    """A service that answers requests. `ReplyAssembler` makes a reply of its chunks."""

    @property
    def name(self) -> str:
        """What people read: the model's name @ host, or what the demo model is."""

    @property
    def kind(self) -> str:
        """`openai_chat` or `demo`, for records."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Send the request and yield the chunks of the answer.

        Closing the generator (`contextlib.aclosing`), or cancelling the task that waits for it, ends the request at
        once.

        Raises:
            ModelFailure: at any point of the iteration.
        """

    async def close(self) -> None:
        """Give back connections. The provider is not used afterwards."""

    def prepare(self) -> None:
        """Import and build what the first request needs, so that it can be done in a thread while the user types.

        Heavy, idempotent, safe from any thread, and never required: `stream` does it when nobody did.

        Raises:
            ModelFailure: the client cannot be built; `stream` will say so too.
        """
