"""A request as the model server got it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.kit.json_object import JsonObject


@dataclass(frozen=True)
class SeenCall:
    """A tool call that stands in the history of a request; `arguments` is the text as sent."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Request:
    """One request. `number` counts from 0 among those of its kind (with tools, or without).

    `problem` says why it was refused (None when it was well-formed). The helpers overlook what is ill-formed, so that
    they can be asked of a refused request too.
    """

    number: int
    raw: bytes
    headers: Mapping[str, str]  # names in lower case
    body: JsonObject
    problem: str | None = None

    @property
    def messages(self) -> list[JsonObject]:
        found = self.body.get("messages")
        return [message for message in found if isinstance(message, dict)] if isinstance(found, list) else []

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools on offer."""
        found = self.body.get("tools")
        tools = found if isinstance(found, list) else []
        functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
        return [str(function.get("name")) for function in functions if isinstance(function, dict)]

    def texts(self, *roles: str) -> list[str]:
        """The text of each message with one of these roles (of all, when none is named)."""
        return [text_of(message) for message in self.messages if not roles or message.get("role") in roles]

    def has(self, text: str, *roles: str) -> bool:
        """Does a message with one of these roles (any, when none is named) hold the text?"""
        return any(text in found for found in self.texts(*roles))

    def calls(self) -> list[SeenCall]:
        """Every tool call of the history, in order."""
        return [call for message in self.messages for call in _calls(message)]

    def results(self) -> dict[str, str]:
        """The text of every tool message, by the id of its call."""
        tool_messages = [message for message in self.messages if message.get("role") == "tool"]
        return {str(message.get("tool_call_id")): text_of(message) for message in tool_messages}

    def result_of(self, needle: str) -> str:
        """The result of the newest call whose name or arguments hold the text.

        Raises:
            AssertionError: there is no such call, or it has no result.
        """
        results = self.results()
        for call in reversed(self.calls()):
            if (needle == call.name or needle in call.arguments) and call.id in results:
                return results[call.id]
        raise AssertionError(f"no call with a result holds {needle!r}: {self.calls()}")


def text_of(message: JsonObject) -> str:
    """The text of a chat message; the text parts of a list of parts, joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _calls(message: JsonObject) -> Iterator[SeenCall]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield SeenCall(str(call.get("id")), str(function.get("name")), str(function.get("arguments")))
