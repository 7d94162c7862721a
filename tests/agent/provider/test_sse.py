from __future__ import annotations

import pytest

from agent.provider.sse import EVENT_BYTES_MAX, EventTooLong, SseEvent, SseParser

STREAM = (
    b"\xef\xbb\xbfretry: 3000\n\n"
    b": ping\n\n"
    b'id: 1\ndata: {"a":1}\n\n'
    b"data:\n\n"
    b"data: first\ndata: second\n\n"
    b"event: error\r\ndata:bad\r\n\r\n"
    b"data: carriage\r\r"
    b"data: \xe4\xbd\xa0 \xe2\x80\xa8 in one line\n\n"
    b"id: 7\n\n"
    b"data: [DONE]"
)
EVENTS = [
    SseEvent("", b'{"a":1}'),
    SseEvent("", b"first\nsecond"),
    SseEvent("error", b"bad"),
    SseEvent("", b"carriage"),
    SseEvent("", "你 \u2028 in one line".encode()),
    SseEvent("", b"[DONE]"),
]


def parsed(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)] + list(parser.end())


def test_blocks_without_data_are_no_events() -> None:
    """K30: the blocks that hold only `retry:`, a comment, an empty `data:` or an `id:`."""
    assert parsed(STREAM) == EVENTS


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_may_be_cut_anywhere(size: int) -> None:
    assert parsed(*(STREAM[i : i + size] for i in range(0, len(STREAM), size))) == EVENTS


def test_every_single_cut_gives_the_same_events() -> None:
    for place in range(len(STREAM)):
        assert parsed(STREAM[:place], STREAM[place:]) == EVENTS, place


def test_an_event_without_end_is_refused() -> None:
    parser = SseParser()
    with pytest.raises(EventTooLong):
        for _ in range(EVENT_BYTES_MAX // 2**20 + 1):
            list(parser.feed(b"x" * 2**20))
