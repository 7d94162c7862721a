"""How many tokens a message takes: an estimate, since every model counts differently."""

from __future__ import annotations

import msgspec

from agent.context.wire import ChatMessage

BYTES_PER_TOKEN = 4  # of the request's JSON; close for code and English, high for CJK, where a character is 3 bytes

_encode = msgspec.json.Encoder().encode


def estimated_tokens(message: ChatMessage) -> int:
    return len(_encode(message)) // BYTES_PER_TOKEN + 1
