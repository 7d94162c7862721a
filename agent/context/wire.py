"""History messages in the form of Chat Completions, such that the strictest service takes them (promise 4)."""

from __future__ import annotations

import json
import re

from agent.provider.base import ChatMessage
from memory.events import HistoryMessage, ToolCall

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the strictest service takes
_ID_CHARACTERS_MAX = 64
EMPTY_RESULT = "(no output)"


class WireForm:
    """Translates messages in their order. Remembers call ids: a service refuses one that comes twice."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._renamed: dict[str, str] = {}  # of the newest assistant message

    def message(self, message: HistoryMessage) -> ChatMessage | None:
        """The chat message; None for one that holds nothing, which services refuse."""
        if message.role == "tool":
            call_id = message.tool_call_id or ""
            content = message.content if message.content.strip() else EMPTY_RESULT
            return ChatMessage(role="tool", tool_call_id=self._renamed.get(call_id, call_id), content=content)
        if message.role != "assistant" or not message.tool_calls:
            return ChatMessage(role=message.role, content=message.content) if message.content.strip() else None
        self._renamed = {call.id: self._unique(call.id) for call in message.tool_calls}
        calls = [self._call(call) for call in message.tool_calls]
        return ChatMessage(role="assistant", content=message.content or None, tool_calls=calls)

    def _call(self, call: ToolCall) -> dict[str, object]:
        arguments = call.arguments if isinstance(call.arguments, str) else "{}"
        return {
            "id": self._renamed[call.id],
            "type": "function",
            "function": {
                "name": call.name if _TOOL_NAME.fullmatch(call.name) else "unknown",
                "arguments": arguments if is_json_object(arguments) else "{}",
            },
        }

    def _unique(self, call_id: str) -> str:
        base = call_id[: _ID_CHARACTERS_MAX - 6] if len(call_id) > _ID_CHARACTERS_MAX else call_id or "call"
        unique, number = base, 1
        while unique in self._used:
            number += 1
            unique = f"{base[: _ID_CHARACTERS_MAX - 6]}-{number}"
        self._used.add(unique)
        return unique


def is_json_object(text: str) -> bool:
    """Is the text one JSON object, by the letter of the standard (no NaN, no lone surrogate)?"""
    try:
        found = json.loads(text, parse_constant=_refuse)
        if not isinstance(found, dict):
            return False
        if "\\ud" in text or "\\uD" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # UnicodeEncodeError is a ValueError
        return False
    return True


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
