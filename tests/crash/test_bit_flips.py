"""Every bit of a transcript flipped: what is read is what was written, or the reader says where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from memory.reader import TranscriptReader
from tests.crash.kit import Ours, conversation, scaled

FLIPS = 25_000


def small_transcript(store: Ours) -> bytes:
    """The last records of a conversation, with its text of many scripts: about 25,000 bits."""
    writer = store.open()
    for fact in conversation()[:11]:
        writer.record(fact)
    writer.close()
    return store.path.read_bytes()


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def records(reader: TranscriptReader) -> list[tuple[object, ...]]:
    """All that was recorded, field by field."""
    return [
        (e.event_id, e.timestamp, e.session_id, e.run_id, e.step, e.event_type, bytes(e.payload), e.seq, e.late)
        for e in reader.events()
    ]


def bits_of(data: bytes, count: int) -> range:
    """So many bits, all of them or evenly spread."""
    return range(0, len(data) * 8, max(1, len(data) * 8 // count))


def test_no_flipped_bit_goes_undetected(quick: Path, battery: Callable[[str], None]) -> None:
    store = Ours(quick)
    data = small_transcript(store)
    whole = records(store.reader())
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    undetected, lost, reported = [], [], 0
    bits = bits_of(data, scaled(FLIPS))
    for bit in bits:
        store.path.write_bytes(flipped(data, bit))
        reader = store.reader()
        found = records(reader)
        reported += bool(reader.damage)
        hit = next(index for index, end in enumerate(ends) if bit // 8 <= end)
        others = [one for index, one in enumerate(whole) if index != hit]
        if found != whole and not reader.damage:
            undetected.append(bit)
        if found not in (whole, others):
            lost.append(bit)
    battery(f"bit flips: {len(bits):,} of {len(data) * 8:,} bits, {reported:,} reported, {len(undetected)} undetected")
    assert (undetected, lost) == ([], [])
    assert len(bits) >= min(scaled(FLIPS), len(data) * 8)


def test_a_reader_without_checksums_fails_the_flip_battery(quick: Path) -> None:
    store = Ours(quick)
    data = small_transcript(store)

    def unchecked(damaged: bytes) -> tuple[list[object], bool]:
        """What a reader knows that takes each line that is JSON, and whether it says that a line is bad."""
        found, is_damaged = [], False
        for line in damaged.split(b"\n")[:-1]:
            try:
                found.append({key: value for key, value in json.loads(line).items() if key != "crc"})
            except (ValueError, AttributeError):
                is_damaged = True
        return list(found), is_damaged

    whole, _ = unchecked(data)
    undetected = 0
    for bit in bits_of(data, 2500):
        found, is_damaged = unchecked(flipped(data, bit))
        undetected += found != whole and not is_damaged
    assert undetected > 1000


def test_no_flip_in_the_key_of_a_checksum_goes_undetected(quick: Path, battery: Callable[[str], None]) -> None:
    """A line whose checksum can no longer be found must not pass for one that never had any."""
    store = Ours(quick)
    data = small_transcript(store)
    whole = records(store.reader())
    lines = data.split(b"\n")[:-1]
    flips, start = 0, 0
    for index, line in enumerate(lines):
        key = start + len(line) - len(b'"crc":"00000000"}')
        for bit in range(key * 8, (key + len(b'"crc":')) * 8):
            store.path.write_bytes(flipped(data, bit))
            reader = store.reader()
            flips += 1
            kinds = [damage.kind for damage in reader.damage]
            if index == 0 and kinds == ["unverified"]:  # no line before it says that this file has checksums
                assert records(reader) == whole, bit
            else:
                assert kinds == ["corrupt"], bit
                assert records(reader) == whole[:index] + whole[index + 1 :], bit
        start += len(line) + 1
    battery(f"flips in the key of a checksum: {flips:,}")
