"""A file's whole content: its bytes, and its text in the one form that all tools work on."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from tools.base import CallRefused, ErrorCode
from tools.encoding import UTF_8, Encoding, encoding_of
from tools.file_kind import kind_of

WAY_FORWARD = "Convert it with a command (Bash, such as iconv), or make an edit that needs ASCII only."

_HASHED_AHEAD_BYTES_MIN = 1024 * 1024
_HASHERS = ThreadPoolExecutor(2, thread_name_prefix="hash")  # threads begin with the first large content


@dataclass(frozen=True)
class Content:
    """`shown` names the file in refusals."""

    data: bytes = field(repr=False)
    shown: str

    @cached_property
    def sha256(self) -> str:
        return self._ahead.result() if "_ahead" in self.__dict__ else _sha256(self.data)

    def hash_ahead(self) -> None:
        """Begin with the hash in another thread: of a large content it takes as long as all else that is done."""
        if len(self.data) >= _HASHED_AHEAD_BYTES_MIN:
            _ = self._ahead

    @cached_property
    def _ahead(self) -> Future[str]:
        return _HASHERS.submit(_sha256, self.data)

    @cached_property
    def encoding(self) -> Encoding:
        """Raises CallRefused (NOT_TEXT) with the kind and size of what it is instead."""
        found = encoding_of(self.data)
        if found is None:
            raise not_text(self.shown, self.data, len(self.data))
        return found

    @cached_property
    def body(self) -> bytes:
        """The text in UTF-8 without its mark; the bytes of the file where the encoding is not sure. May be refused."""
        body = self.data[len(self.encoding.mark) :] if self.encoding.mark else self.data
        return body if self.encoding.codec is None else body.decode(self.encoding.codec).encode()

    @property
    def readable(self) -> bytes:
        """The text in UTF-8 for reading, whatever it is: not sure is shown as if it were Western."""
        try:
            return self.data.decode("cp1252", "replace").encode() if self.encoding.ascii_only else self.body
        except CallRefused:
            return self.data

    def with_body(self, body: bytes) -> Content:
        """The content with another text, in the same encoding.

        What stays is the same bytes, since each of these encodings writes a character the same way wherever it stands.

        Raises:
            CallRefused: REFUSED, the encoding does not have one of the characters.
        """
        encoding = self.encoding
        if encoding.codec is None:
            return Content(encoding.mark + body, self.shown)
        try:
            return Content(encoding.mark + body.decode().encode(encoding.codec), self.shown)
        except UnicodeEncodeError as error:
            raise self._not_in_encoding(error) from error

    def require_expressible(self, text: str) -> None:
        """Raises CallRefused (REFUSED) when the encoding is too unsure, or too small, for a text."""
        encoding = self.encoding
        foreign = next((character for character in text if character > "\x7f"), None)
        if foreign is not None and encoding.ascii_only:
            raise CallRefused(
                ErrorCode.REFUSED,
                f"{self.shown} was not changed: its encoding is not certain, so {foreign!r} cannot be matched or "
                f"written in it. {WAY_FORWARD}",
            )
        for codec in (encoding.codec, *encoding.also):
            if codec is not None and foreign is not None:
                try:
                    text.encode(codec)
                except UnicodeEncodeError as error:
                    raise self._not_in_encoding(error) from error

    def _not_in_encoding(self, error: UnicodeEncodeError) -> CallRefused:
        character = error.object[error.start]
        return CallRefused(
            ErrorCode.REFUSED,
            f"{self.shown} was not changed: {character!r} cannot be written in its encoding ({self.encoding.name}). "
            f"{WAY_FORWARD}",
        )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def of_text(text: str, shown: str) -> Content:
    """The content of a new file."""
    return Content(text.encode(UTF_8.codec or "utf-8"), shown)


def not_text(shown: str, head: bytes, size: int, advice: str = "Use a command (Bash) to look at it.") -> CallRefused:
    """The refusal of what is no text, by its kind and size in bytes."""
    kind = kind_of(head) or "binary data"
    return CallRefused(ErrorCode.NOT_TEXT, f"{shown} is not text: {kind}, {size:,} bytes. {advice}")
