"""How many tokens a message takes: an estimate, since every model counts differently."""

from __future__ import annotations

from agent.provider.base import ChatMessage

BYTES_PER_TOKEN = 4  # of the request's JSON; close for code and English, high for CJK, where a character is 3 bytes


def estimated_tokens(message: ChatMessage) -> int:
    return len(bytes(message.encoded)) // BYTES_PER_TOKEN + 1
