"""Transcript lines: encode with a spliced checksum, decode with the payload left raw.

A line of ours ends in exactly `,"crc":"xxxxxxxx"}`: the CRC-32, in lower-case hex, of all bytes before those 18.
"""

from __future__ import annotations

import json
from zlib import crc32

import msgspec

from memory.events import PAYLOAD_TYPES, NewEvent, Payload, TranscriptEvent
from memory.text import join_surrogates

CRC_BYTES = 18
RECORD_START = b'{"event_id":"'
CRC_KEY = b',"crc":"'

_encoder = msgspec.json.Encoder()
_decode_event = msgspec.json.Decoder(TranscriptEvent).decode
_decode_payload = {name: msgspec.json.Decoder(kind).decode for name, kind in PAYLOAD_TYPES.items()}


class Undecodable(ValueError):
    """The bytes are no record that this version understands."""


def encode_payload(payload: Payload | msgspec.Raw) -> bytes:
    """A payload as JSON. Lone surrogates, which no encoder takes, become U+FFFD."""
    try:
        return _encoder.encode(payload)
    except UnicodeEncodeError:
        return _encoder.encode(cleaned(msgspec.to_builtins(payload)))


def encode_line(event: NewEvent) -> bytes:
    """The line of a record, with its checksum and its newline."""
    line = bytearray()
    encode_line_into(line, event)
    return bytes(line)


def encode_line_into(line: bytearray, event: NewEvent) -> None:
    """The same in place of what a buffer holds: one that is used again saves two copies of each line."""
    try:
        _encoder.encode_into(event, line)
    except UnicodeEncodeError:
        _encoder.encode_into(with_raw_payload(event), line)
    del line[-1]  # the closing brace
    line += b',"crc":"%08x"}\n' % crc32(line)


def with_raw_payload(event: NewEvent) -> NewEvent:
    """The record with its payload as it is now, whatever is done to the value afterwards."""
    return msgspec.structs.replace(event, payload=msgspec.Raw(encode_payload(event.payload)))


def is_sealed(line: bytes | memoryview) -> bool:
    """Does a line (without its newline) end in the checksum of what stands before?

    Compared as bytes: a parse as a number would also take ` 4bd630f` and capitals.
    """
    end = bytes(line[-CRC_BYTES:])
    return end[:8] == CRC_KEY and end == b',"crc":"%08x"}' % crc32(memoryview(line)[:-CRC_BYTES])


def looks_sealed(line: bytes) -> bool:
    """Does a line have a checksum at its end, right or wrong?"""
    return line[-CRC_BYTES:-10] == CRC_KEY and line.endswith(b'"}')


def decode_event(line: bytes) -> TranscriptEvent:
    """The envelope of a sealed line. Raises Undecodable."""
    try:
        return _decode_event(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_loosely(line)


def _decode_loosely(line: bytes) -> TranscriptEvent:
    """The same for a line with escaped lone surrogates, which others write and the fast decoder refuses whole."""
    try:
        loose = cleaned(json.loads(line))
        if not isinstance(loose, dict):
            raise Undecodable("no object")
        payload = msgspec.Raw(_encoder.encode(loose["payload"]))
        return msgspec.convert({**loose, "payload": payload}, TranscriptEvent)
    except (ValueError, KeyError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise Undecodable(str(error)) from error


def decode_payload(event: TranscriptEvent) -> Payload | None:
    """The payload, or None when its type or shape is of another version. Never raises."""
    decode = _decode_payload.get(event.event_type)
    if decode is None:
        return None
    try:
        return decode(event.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    # Escaped lone surrogates, which others write, make the fast decoder refuse the whole payload.
    try:
        loose = cleaned(json.loads(bytes(event.payload)))
        return msgspec.convert(loose, PAYLOAD_TYPES[event.event_type])
    except (ValueError, RecursionError):
        return None


def cleaned(value: object) -> object:
    """The same JSON value with every lone surrogate replaced."""
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {join_surrogates(str(key)): cleaned(item) for key, item in value.items()}
    return value
