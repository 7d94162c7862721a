"""The conversation in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.events import HistoryMessage, ImageRef, ToolCall


class HistoryManager:
    """Messages from the last checkpoint on, and the number of those before.

    `generation` changes whenever messages other than by appending do: who derives from the list starts anew then.
    """

    def __init__(self) -> None:
        self._messages: list[HistoryMessage] = []
        self.messages_before = 0
        self.generation = 0
        self._call_ids: set[str] = set()

    @property
    def messages(self) -> Sequence[HistoryMessage]:
        return self._messages

    def append_user(self, content: str, *, seq: int, metadata: Mapping[str, object] | None = None) -> HistoryMessage:
        return self._append(HistoryMessage("user", content, metadata=metadata or {}, seq=seq))

    def append_assistant(
        self,
        content: str,
        *,
        seq: int,
        tool_calls: tuple[ToolCall, ...] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> HistoryMessage:
        return self._append(HistoryMessage("assistant", content, tool_calls, metadata=metadata or {}, seq=seq))

    def append_tool(
        self,
        content: str,
        *,
        seq: int,
        tool_call_id: str,
        action_id: str,
        metadata: Mapping[str, object] | None = None,
        images: tuple[ImageRef, ...] = (),
    ) -> HistoryMessage:
        message = HistoryMessage("tool", content, (), tool_call_id, action_id, metadata or {}, seq, images)
        return self._append(message)

    def load_messages(self, messages: Sequence[HistoryMessage], *, messages_before: int) -> None:
        """Replace everything by what a transcript tells."""
        self._messages = list(messages)
        self._call_ids = {call.id for message in messages for call in message.tool_calls}
        self.messages_before = messages_before
        self.generation += 1

    def forget_before(self, index: int) -> None:
        """Drop the messages that a checkpoint's summary stands for."""
        self.messages_before += index
        del self._messages[:index]
        self.generation += 1

    @property
    def awaits_answer(self) -> bool:
        """Is there something to answer: a prompt, results, or calls whose results are to come?"""
        said = (one for one in reversed(self._messages) if not {"interrupted", "recovery"} & set(one.metadata))
        last = next(said, None)
        return last is not None and (last.role != "assistant" or bool(last.tool_calls))

    def has_call(self, call_id: str) -> bool:
        """Was this id used in the session since it was opened? Services refuse an id that comes twice."""
        return call_id in self._call_ids

    def _append(self, message: HistoryMessage) -> HistoryMessage:
        self._messages.append(message)
        self._call_ids.update(call.id for call in message.tool_calls)
        return message
