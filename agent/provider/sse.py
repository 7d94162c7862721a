"""Server-sent events, from bytes (https://html.spec.whatwg.org/multipage/server-sent-events.html).

The SDK's own reader makes an event of blocks that hold only `id:`, `retry:` or an empty `data:` and then fails to
decode it (K30). Here, as the standard says, such blocks are no events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

EVENT_BYTES_MAX = 16 * 1024 * 1024  # no chunk of an answer comes near it; bounds what a broken server can make us hold


class SseEvent(NamedTuple):
    event: str  # "" when the server gave no name
    data: bytes  # never empty; its lines are joined by \n


class EventTooLong(ValueError):
    """The server sends one event without an end."""


class SseParser:
    """Feed it bytes cut anywhere; it yields each event that they complete."""

    def __init__(self) -> None:
        self._line_parts: list[bytes] = []  # of the unfinished line: joined once, however many pieces it came in
        self._skip_line_feed = False  # the last piece ended in \r: a \n that follows belongs to it
        self._at_start = True
        self._event = ""
        self._data: list[bytes] = []
        self._held_bytes = 0

    def feed(self, piece: bytes) -> Iterator[SseEvent]:
        """Yield the events that end within this piece.

        Raises:
            EventTooLong: more than EVENT_BYTES_MAX without the end of an event.
        """
        if not piece:
            return
        if self._skip_line_feed:
            piece = piece.removeprefix(b"\n")
        self._held_bytes += len(piece)
        for line in piece.splitlines(keepends=True):  # of bytes: \n, \r and \r\n, nothing else
            self._line_parts.append(line)
            if line.endswith((b"\n", b"\r")):
                yield from self._line(b"".join(self._line_parts).rstrip(b"\r\n"))
                self._line_parts.clear()
        self._skip_line_feed = piece.endswith(b"\r")
        if self._held_bytes > EVENT_BYTES_MAX:
            raise EventTooLong(f"one event of more than {EVENT_BYTES_MAX} bytes")

    def end(self) -> Iterator[SseEvent]:
        """Yield what stands there at the end of the stream: some servers leave out the last empty line."""
        yield from self._line(b"".join(self._line_parts))
        self._line_parts.clear()
        yield from self._dispatch()

    def _line(self, line: bytes) -> Iterator[SseEvent]:
        if self._at_start:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        if not line:
            yield from self._dispatch()
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        # Comments (an empty name), `id` and `retry` are for clients that reconnect; unknown fields are ignored.

    def _dispatch(self) -> Iterator[SseEvent]:
        event = SseEvent(self._event, b"\n".join(self._data))
        self._event = ""
        self._data.clear()
        self._held_bytes = 0
        if event.data.strip():
            yield event
