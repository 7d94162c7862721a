"""When the history outgrows the model's window: what stays, and what the summary is made of. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from agent.provider.base import ChatMessage
from memory.events import HistoryMessage

FULL_AT = 0.9  # of the window: the rest is for the answer; where the estimate is off, the service says so
KEEP = 0.3  # of the window stays word for word
KEEP_LESS = 0.1  # when the model still says that it is too much
SUMMARY_SOURCE = 0.4  # of the window at most is read to make a summary

MESSAGE_CHARACTERS_MAX = 1500  # of each message in the summary's source: head and tail
EARLIER_CHARACTERS_MAX = 6000  # of the summary before, where rules make the next one: else each would hold all before
PROMPT_CHARACTERS_MAX = 4000  # of the user's last request, which the summary repeats word for word

_LAST_REQUEST = "\n\nThe user's last request among these, word for word:\n"
_NO_SUMMARY = "No summary could be made; older messages were left out of view. They remain in the transcript."

_INSTRUCTION = """\
Summarize this conversation between a user and a code agent for the agent itself, which goes on with the work and \
will see only your summary. Keep: what the user wants, what was done (files, commands, results), decisions and their \
reasons, what failed, what is still open, and every name and path that is needed to go on. At most 600 words.

"""


def retained_from(messages: Sequence[HistoryMessage], tokens: Sequence[int], keep_tokens: int) -> int:
    """Index of the first message that stays: as many of the newest as fit, cut only before a user or assistant message.

    A call and its results are never parted (K02). The newest exchange stays, even where it is larger than the budget.
    """
    index, total = len(messages), 0
    newest_safe = len(messages)
    while index > 0:
        total += tokens[index - 1]
        if total > keep_tokens and newest_safe < len(messages):
            break
        index -= 1
        if messages[index].role != "tool":
            newest_safe = index
    return newest_safe


def recovered_exchange(messages: Sequence[HistoryMessage]) -> int:
    """Index of the newest exchange if a crash cut it short and the model was not asked since, else the end.

    It holds what became of interrupted actions, which the model must see word for word.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "assistant" and not message.metadata.get("interrupted"):
            answers = messages[index + 1 :]
            is_recovered = any(answer.role == "tool" and answer.metadata.get("recovered") for answer in answers)
            return index if is_recovered else len(messages)
    return len(messages)


def summary_request(messages: Sequence[HistoryMessage], earlier: str, characters_max: int) -> list[ChatMessage]:
    """The request for a summary of messages that will be left out. The newest of them weigh most when not all fit."""
    parts: list[str] = []
    room = characters_max
    for message in reversed(messages):
        part = _shown(message)
        room -= len(part)
        if room < 0:
            parts.append("[… older messages are left out …]")
            break
        parts.append(part)
    source = "\n\n".join(reversed(parts))
    before = f"Summary of what came before:\n{earlier}\n\n" if earlier else ""
    return [ChatMessage(role="user", content=f"{_INSTRUCTION}{before}{source}")]


def complete_summary(summary: str, messages: Sequence[HistoryMessage], earlier: str = "") -> str:
    """The summary with the user's last request word for word: the work that goes on is for it.

    Where it is not among the messages, the summary of what came before them has it.
    """
    prompt = _last_prompt(messages) or earlier.partition(_LAST_REQUEST)[2]
    return f"{summary.strip()}{_LAST_REQUEST}{prompt}" if prompt else summary


def fallback_summary(messages: Sequence[HistoryMessage], earlier: str, session_memory: str) -> str:
    """What stands for the messages when no summary could be had: what is known without a model."""
    prompts = [f"- {_clip(m.content, 200)}" for m in messages if m.role == "user" and "recovery" not in m.metadata]
    before = earlier.partition(_LAST_REQUEST)[0].removeprefix(_NO_SUMMARY).strip()
    parts = [
        _NO_SUMMARY,
        _clip(before, EARLIER_CHARACTERS_MAX),
        "What the user asked for in them:\n" + "\n".join(prompts[-20:]) if prompts else "",
        session_memory if session_memory not in before else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _last_prompt(messages: Sequence[HistoryMessage]) -> str:
    prompts = [m.content for m in messages if m.role == "user" and "recovery" not in m.metadata]
    return _clip(prompts[-1], PROMPT_CHARACTERS_MAX) if prompts else ""


def _shown(message: HistoryMessage) -> str:
    calls = "".join(f"\n[calls {call.name} {_clip(str(call.arguments), 400)}]" for call in message.tool_calls)
    return f"{message.role}: {_clip(message.content, MESSAGE_CHARACTERS_MAX)}{calls}"


def _clip(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3]} […] {text[-limit // 3 :]}"
