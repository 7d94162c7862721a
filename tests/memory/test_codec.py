"""Lines: what is encoded is decoded the same, and no change of a bit goes unnoticed."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.codec import (
    CRC_BYTES,
    Undecodable,
    decode_event,
    decode_payload,
    encode_line,
    encode_payload,
    is_sealed,
    looks_sealed,
)
from memory.events import (
    PAYLOAD_TYPES,
    BlobRef,
    CheckpointPayload,
    EventType,
    LifecyclePayload,
    MessagePayload,
    NewEvent,
    Payload,
    TerminalPayload,
    ToolCall,
    TranscriptEvent,
    TransitionPayload,
)

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
blobs = st.builds(BlobRef, texts, st.integers(0, 2**40), texts, texts)
either = texts | blobs
maybe = st.none() | texts
calls = st.lists(st.builds(ToolCall, texts, texts, either), max_size=3).map(tuple)
file_states = st.lists(objects, max_size=2).map(tuple)

payloads: Mapping[str, st.SearchStrategy[Payload]] = {
    EventType.MESSAGE: st.builds(MessagePayload, texts, st.none() | either, calls, maybe, maybe, objects),
    EventType.STATE_TRANSITION: st.builds(TransitionPayload, texts, maybe, maybe, objects),
    EventType.TOOL_LIFECYCLE: st.builds(
        LifecyclePayload,
        tool_name=texts,
        tool_call_id=texts,
        status=texts,
        action_id=texts,
        replay_safe=st.booleans(),
        permission=st.none() | objects,
        intent=st.none() | objects,
        result=st.none() | either,
        error=st.none() | objects,
        file_states=file_states,
        exit_code=st.none() | st.integers(-255, 255),
    ),
    EventType.CHECKPOINT: st.builds(
        CheckpointPayload,
        texts,
        either,
        st.integers(0, 9),
        st.integers(0, 9),
        st.integers(0, 9),
        texts,
        st.integers(0, 9),
        objects,
        objects,
        objects,
    ),
    EventType.TERMINAL: st.builds(TerminalPayload, texts, objects),
}
kinds_and_payloads = st.sampled_from(sorted(payloads)).flatmap(lambda kind: st.tuples(st.just(kind), payloads[kind]))


def event(kind: str, payload: bytes, **changes: object) -> TranscriptEvent:
    made = TranscriptEvent(
        "evt-1", "2026-01-31T12:00:00.000Z", "session-1", "run-1", 3, kind, msgspec.Raw(payload), 2, 7
    )
    return msgspec.structs.replace(made, **changes)


def as_written(event: TranscriptEvent, payload: Payload) -> NewEvent:
    """The same record before its payload was encoded."""
    fields = msgspec.structs.asdict(event)
    return NewEvent(**{**fields, "payload": payload})


LINE = bytes(encode_line(event("message", encode_payload(MessagePayload("user", "naïve 中文 \u2028 🙂")))))


@given(kinds_and_payloads, texts, texts, st.integers(0, 2**31), st.integers(1, 2**40), st.booleans())
def test_a_record_is_read_as_it_was_written(
    made: tuple[str, Payload], event_id: str, run_id: str, step: int, seq: int, late: bool
) -> None:
    kind, payload = made
    written = event(
        kind, encode_payload(payload), event_id=f"e{event_id}", run_id=run_id, step=step, seq=seq, late=late
    )
    line = bytes(encode_line(written))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    read = decode_event(line[:-1])
    assert msgspec.structs.replace(read, payload=written.payload) == written
    assert bytes(read.payload) == bytes(written.payload)
    assert decode_payload(read) == payload
    assert encode_line(as_written(written, payload)) == line


def test_a_line_has_the_form_of_the_contract() -> None:
    body, seal = LINE[: -CRC_BYTES - 1], LINE[-CRC_BYTES - 1 :]
    assert seal == b',"crc":"%08x"}\n' % zlib.crc32(body)
    assert list(json.loads(LINE)) == [
        *("event_id", "timestamp", "session_id", "run_id", "step", "event_type", "payload"),
        *("schema_version", "seq", "crc"),
    ]


def test_no_flipped_bit_leaves_a_line_sealed() -> None:
    line = LINE[:-1]
    assert is_sealed(line)
    for bit in range(8 * len(line)):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not is_sealed(bytes(flipped)), bit


@pytest.mark.parametrize("kept", [0, 1, 17, 18, 40])
def test_a_part_of_a_line_is_not_sealed(kept: int) -> None:
    assert not is_sealed(LINE[:kept])


def test_a_checksum_counts_only_in_its_own_form() -> None:
    """K03's kin: a parse as a number would also take capitals, spaces and signs."""
    body = next(
        line for n in range(1000) if (line := b'{"n":%d' % n) and zlib.crc32(line) in range(0xA000000, 0x10000000)
    )
    digits = b"%08x" % zlib.crc32(body)
    sealed = {form: is_sealed(body + b',"crc":"%b"}' % form) for form in (digits, digits.upper(), b" " + digits[1:])}
    assert sealed == {digits: True, digits.upper(): False, b" " + digits[1:]: False}
    assert looks_sealed(body + b',"crc":"%b"}' % digits.upper())


def test_lone_surrogates_and_numbers_that_json_lacks_are_stored_as_what_json_has() -> None:
    """K05: no record may fail to encode."""
    odd: dict[str, object] = {"\ud83d": ["a\udc00", {"deep": ("\ud800x",)}], "nan": math.nan, "inf": -math.inf}
    payload = MessagePayload("user", "half \ud83d", (ToolCall("c", "Bash", '{"a":"\udc00"}'),), metadata=odd)
    encoded = encode_payload(payload)
    found = decode_payload(event("message", encoded))
    clean = {"\ufffd": ["a\ufffd", {"deep": ["\ufffdx"]}], "nan": None, "inf": None}
    assert found == MessagePayload("user", "half \ufffd", (ToolCall("c", "Bash", '{"a":"\ufffd"}'),), metadata=clean)
    written = event("message", encoded)
    assert encode_line(as_written(written, payload)) == encode_line(written)


def test_a_surrogate_pair_is_stored_as_its_character() -> None:
    found = decode_payload(event("message", encode_payload(MessagePayload("user", "\ud83d\ude42"))))
    assert found == MessagePayload("user", "🙂")


def test_escaped_surrogates_of_others_do_not_cost_the_record() -> None:
    payload = b'{"role":"user","content":"half \\ud83d, whole \\ud83d\\ude42"}'
    assert decode_payload(event("message", payload)) == MessagePayload("user", "half \ufffd, whole 🙂")


@pytest.mark.parametrize("kind", sorted(PAYLOAD_TYPES))
@pytest.mark.parametrize(
    "payload", [b"null", b"7", b"[]", b'"text"', b"{}", b'{"role":1,"reason":1,"status":1}', b"[" * 9000 + b"]" * 9000]
)
def test_a_payload_of_another_shape_is_none_and_no_error(kind: str, payload: bytes) -> None:
    assert decode_payload(event(kind, payload)) is None


def test_what_is_nested_too_deep_is_undecodable_and_no_error_of_its_own() -> None:
    deep = event("terminal", b'{"reason":"x","details":{"a":' + b"[" * 9000 + b"]" * 9000 + b"}}")
    assert decode_payload(deep) is None
    with pytest.raises(Undecodable):
        decode_event(bytes(encode_line(deep))[:-1])


def test_an_unknown_type_is_none_and_an_unknown_field_is_skipped() -> None:
    assert decode_payload(event("mood", b'{"mood":"good"}')) is None
    assert decode_payload(event("terminal", b'{"reason":"completed","mood":1}')) == TerminalPayload("completed")


@pytest.mark.parametrize(
    "line",
    [b"", b"null", b"[]", b'{"event_id":"x"}', b"\xff\xfe", LINE[:-1].replace(b'"step":3', b'"step":"3"'), b"[" * 9000],
)
def test_what_is_no_envelope_is_undecodable(line: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_event(line)


def test_a_newer_version_with_more_fields_is_read() -> None:
    newer = LINE[: -CRC_BYTES - 1].replace(b'"schema_version":2', b'"mood":{"a":[1]},"schema_version":9')
    line = newer + b',"crc":"%08x"}' % zlib.crc32(newer)
    assert is_sealed(line)
    assert decode_event(line).schema_version == 9
