"""Text from outside made fit for a terminal: what a model or a command writes must not steer the screen."""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, and C1, whose members some terminals take for the beginning of a sequence.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


# What turns the direction of text around, or takes no room: in a question it could hide what is asked.
_MASK = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def unmasked(text: str) -> str:
    """The text with every character that steers a screen, or hides, written out as an escape."""
    return _MASK.sub(lambda found: ascii(found[0])[1:-1], text)


def printable(text: str) -> str:
    """The text without escape sequences and control characters; tabs and newlines stay."""
    if _CONTROL.search(text) is None:
        return text
    return _CONTROL.sub("", _SEQUENCE.sub("", text))
