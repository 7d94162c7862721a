"""Text is cleaned once, where it enters: no lone surrogates, no API key (promises 4 and 11)."""

from __future__ import annotations

import re
from collections.abc import Sequence

SECRET_REMOVED = "[API key removed]"

_SURROGATE = re.compile("[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """Join surrogate pairs into their character and make every lone surrogate U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class TextCleaner:
    """Cleans what comes from the user, the model and the tools. `secrets` are exact values that are written nowhere."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = tuple(secret for secret in secrets if secret)

    def clean(self, text: str) -> str:
        return self.without_secrets(join_surrogates(text))

    def without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, SECRET_REMOVED)
        return text

    def holds_secret(self, data: bytes) -> bool:
        return any(secret.encode() in data for secret in self._secrets)

    def stream(self) -> StreamCleaner:
        """A cleaner for one text that comes in pieces."""
        return StreamCleaner(self, self._secrets)


class StreamCleaner:
    """Cleans a text that comes in pieces: what may be the beginning of a secret or of a pair is held back."""

    def __init__(self, cleaner: TextCleaner, secrets: Sequence[str]) -> None:
        self._cleaner = cleaner
        self._secrets = secrets
        self._held = ""

    def feed(self, piece: str) -> str:
        """The cleaned text that is certain by now."""
        # Whole secrets go first: one that ends as it begins would be cut in two by holding back its end.
        text = self._cleaner.without_secrets(self._held + piece)
        keep = self._unsure(text)
        self._held = text[len(text) - keep :]
        return self._cleaner.clean(text[: len(text) - keep])

    def flush(self) -> str:
        """The rest, when no more pieces come."""
        text, self._held = self._held, ""
        return self._cleaner.clean(text)

    def _unsure(self, text: str) -> int:
        longest = 1 if text and "\ud800" <= text[-1] <= "\udbff" else 0
        for secret in self._secrets:
            for length in range(min(len(secret) - 1, len(text)), longest, -1):
                if secret.startswith(text[-length:]):
                    longest = length
                    break
        return longest
