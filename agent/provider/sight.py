"""Which models see images, and what the others get in their place.

No service says in a way that all share whether its models see any, so their names have to tell.
"""

from __future__ import annotations

import re

from agent.provider.base import ChatMessage

_LEFT_OUT = "[Left out: the service did not take it.]"

# Families whose members take images, as of November 2026; MYCODEAGENT_IMAGES decides where this is wrong.
_FAMILIES = (
    r"(chat)?gpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-[5-9]|o1(?!-mini|-preview)|o[3-9](?!-mini)|o4-mini",
    r"claude-|gemini-|grok-[4-9]|llama-?4|pixtral|llava|minicpm-v|step-?3|internvl",
    r"gemma-?3(?![-:](1b|270m))|glm-[4-9](\.\d)?v|kimi-k2\.[5-9]|mistral-(small|medium|large)-(3\.[1-9]|2[5-9])",
)
_WORDS = r"\b(vl|vision|multimodal|omni)\b|\dvl\b"
_SEES = re.compile(f"(^|[/:])({'|'.join(_FAMILIES)})|{_WORDS}", re.IGNORECASE)


def sees_images(model: str) -> bool:
    """Whether a model of this name is known to see images."""
    return _SEES.search(model) is not None


def has_images(message: ChatMessage) -> bool:
    """Whether a message of Chat Completions holds images beside its text."""
    return isinstance(message.get("content"), list)


def without_images(message: ChatMessage) -> ChatMessage:
    """The message with the texts of its parts alone."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    texts = [str(part["text"]) for part in content if part.get("type") == "text"]
    return ChatMessage(message, content="\n".join([*texts, _LEFT_OUT]))
