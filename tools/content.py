"""A file's whole content: its bytes, and its text in the one form that all tools work on."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event

from tools.base import CallRefused, ErrorCode
from tools.encoding import UTF_8, UTF_8_STRAY, Encoding, encoding_of, high_runs
from tools.file_kind import kind_of
from tools.single_byte import plausible_codecs
from tools.text_file import is_cr_only

WAY_FORWARD = "Convert it with a command (Bash, such as iconv), or make an edit that needs ASCII only."

_LARGE_BYTES = 1024 * 1024  # from here on a copy and a hash are worth avoiding and waiting for
_HASHERS = ThreadPoolExecutor(2, thread_name_prefix="hash")  # threads begin with the first large content

Piece = bytes | memoryview


@dataclass(frozen=True)
class Splice:
    """A change of a text: its bytes from `start` to `end` give way to `new`."""

    text: bytes = field(repr=False)
    start: int
    end: int
    new: bytes = field(repr=False)

    @property
    def is_empty(self) -> bool:
        return self.text[self.start : self.end] == self.new

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The text that comes out, without a copy of what stays."""
        view = memoryview(self.text)
        return view[: self.start], self.new, view[self.end :]


@dataclass(frozen=True)
class Content:
    """`pieces` are the bytes of the file, one behind the other. `shown` names it in refusals.

    `known` is its encoding where that is known otherwise than by a look at it.
    """

    pieces: tuple[Piece, ...] = field(repr=False)
    shown: str
    known: Encoding | None = None

    @cached_property
    def data(self) -> bytes:
        """All bytes in one."""
        match self.pieces:
            case (bytes(whole),):
                return whole
        return b"".join(self.pieces)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    @cached_property
    def sha256(self) -> str:
        return self._ahead.result() if "_ahead" in self.__dict__ else _sha256(self.pieces)

    def hash_ahead(self) -> None:
        """Begin with the hash in another thread: of a large content it takes as long as all else that is done."""
        if self.size >= _LARGE_BYTES:
            _ = self._ahead

    @cached_property
    def _ahead(self) -> Future[str]:
        begun = Event()
        hashed = _HASHERS.submit(_sha256, self.pieces, begun)
        begun.wait()  # hashing needs no interpreter lock, but beginning does: a long search would keep it out
        return hashed

    @cached_property
    def encoding(self) -> Encoding:
        """Raises CallRefused (NOT_TEXT) with the kind and size of what it is instead."""
        found = self.known or encoding_of(self.data)
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
            text = _as_western(self.data) if self.encoding.ascii_only else self.body
        except CallRefused:
            return self.data
        return text.replace(b"\r", b"\n") if is_cr_only(text) else text

    def spliced(self, change: Splice) -> Content:
        """The content with a change of its body. Raises CallRefused as `with_body` does."""
        if self.encoding.codec is None and len(self.data) >= _LARGE_BYTES:
            return Content((self.encoding.mark, *change.pieces), self.shown, self.encoding)
        return self.with_body(b"".join(change.pieces))

    def readable_splice(self, change: Splice) -> Splice:
        """A change of the body as one of `readable`."""
        if self.encoding.ascii_only:
            start, end = (len(_as_western(change.text[:position])) for position in (change.start, change.end))
            change = Splice(_as_western(change.text), start, end, _as_western(change.new))
        if is_cr_only(change.text):
            text, new = (part.replace(b"\r", b"\n") for part in (change.text, change.new))
            change = Splice(text, change.start, change.end, new)
        return change

    def with_body(self, body: bytes) -> Content:
        """The content with another text, in the same encoding.

        What stays is the same bytes, since each of these encodings writes a character the same way wherever it stands.

        Raises:
            CallRefused: REFUSED, the encoding does not have one of the characters.
        """
        encoding = self.encoding
        if encoding.codec is None:
            return Content((encoding.mark + body,), self.shown, encoding)
        try:
            return Content((encoding.mark + body.decode().encode(encoding.codec),), self.shown, encoding)
        except UnicodeEncodeError as error:
            raise self._not_in_encoding(error) from error

    def require_expressible(self, text: str) -> None:
        """Raises CallRefused (REFUSED) when the encoding is too unsure, or too small, for a text."""
        encoding = self.encoding
        if "\0" in text:
            raise self._refused("a NUL character would make it a binary file. Write it as an escape.")
        if encoding is UTF_8_STRAY and text.count("\ufffd") > self.body.count("\ufffd".encode()):
            raise self._refused(
                "Read shows \ufffd for bytes of it that are not UTF-8, and they would be lost. Edit what stands around "
                "them."
            )
        foreign = next((character for character in text if character > "\x7f"), None)
        if foreign is not None and encoding.ascii_only:
            raise self._refused(
                f"its encoding is not certain, so {foreign!r} cannot be matched or written in it. {WAY_FORWARD}"
            )
        for codec in (encoding.codec, *encoding.also):
            if codec is not None and foreign is not None:
                try:
                    text.encode(codec)
                except UnicodeEncodeError as error:
                    raise self._not_in_encoding(error) from error
        if encoding.is_guess and foreign is not None:
            self._refuse_doubtful(text, foreign)

    def _refuse_doubtful(self, text: str, foreign: str) -> None:
        """New text must be the same bytes in every encoding that the text, together with it, may be in."""
        codec = self.encoding.codec or ""
        for rival in plausible_codecs(self.data, high_runs(self.data), text):
            try:
                differs = text.encode(rival) != text.encode(codec)
            except UnicodeEncodeError:
                continue
            if differs:
                names = f"{self.encoding.name} or {rival}"
                raise self._refused(f"it may be in {names}, where {foreign!r} is not the same. {WAY_FORWARD}")

    def _not_in_encoding(self, error: UnicodeEncodeError) -> CallRefused:
        character = error.object[error.start]
        return self._refused(f"{character!r} cannot be written in its encoding ({self.encoding.name}). {WAY_FORWARD}")

    def _refused(self, why: str) -> CallRefused:
        return CallRefused(ErrorCode.REFUSED, f"{self.shown} was not changed: {why}")


def _sha256(pieces: tuple[Piece, ...], begun: Event | None = None) -> str:
    hashed = hashlib.sha256()
    if begun is not None:
        begun.set()
    for piece in pieces:
        hashed.update(piece)
    return hashed.hexdigest()


def _as_western(data: bytes) -> bytes:
    return data.decode("cp1252", "replace").encode()


def of_text(text: str, shown: str) -> Content:
    """The content of a new file. Raises CallRefused for what is no text."""
    content = Content((text.encode(),), shown, UTF_8)
    content.require_expressible(text)
    return content


def not_text(shown: str, head: bytes, size: int, advice: str = "Use a command (Bash) to look at it.") -> CallRefused:
    """The refusal of what is no text, by its kind and size in bytes."""
    kind = kind_of(head) or "binary data"
    return CallRefused(ErrorCode.NOT_TEXT, f"{shown} is not text: {kind}, {size:,} bytes. {advice}")
