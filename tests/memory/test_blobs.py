"""Large texts are whole files, durable before the record that names them."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import msgspec
import pytest

from memory.blobs import RECORD_BYTES_MAX, STRING_BYTES_MAX, BlobStore, text_in
from memory.disk import Disk
from memory.events import BlobRef
from tests.memory.memory_kit import FaultyDisk


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs" / "session-1", Disk())


def blob_of(tmp_path: Path, name: str) -> Path:
    return tmp_path / "blobs" / "session-1" / name


def restored(store: BlobStore, value: object) -> object:
    """A JSON value with every reference resolved."""
    if isinstance(value, dict):
        if set(value) == {"blob", "bytes", "head", "tail"}:
            return store.text(msgspec.convert(value, BlobRef))
        return {key: restored(store, item) for key, item in value.items()}
    return [restored(store, item) for item in value] if isinstance(value, list) else value


def test_a_blob_is_named_by_its_hash_and_comes_back(store: BlobStore, tmp_path: Path) -> None:
    data = b"\x00\xff" * 9
    name = store.put(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert store.get(name) == data
    assert [path.name for path in blob_of(tmp_path, "").iterdir()] == [name]


@pytest.mark.parametrize("found", [b"", b"other", b"12345678"])
def test_a_damaged_blob_is_not_trusted_and_written_anew(store: BlobStore, tmp_path: Path, found: bytes) -> None:
    name = store.put(b"1234567")
    blob_of(tmp_path, name).write_bytes(found)
    assert store.get(name) is None
    assert store.put(b"1234567") == name
    assert store.get(name) == b"1234567"


@pytest.mark.parametrize("name", ["0" * 64, "../../outside", "a\0b", "x" * 5000, ""])
def test_a_blob_that_is_not_there_is_none_whatever_its_name(store: BlobStore, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_bytes(b"not yours")
    assert store.get(name) is None


def test_of_a_missing_blob_head_and_tail_are_left(store: BlobStore) -> None:
    text = store.text(BlobRef("0" * 64, 70000, "the head", "the tail"))
    assert text == "the head\n[… 70,000 bytes in all: the stored text is missing …]\nthe tail"


@pytest.mark.parametrize("call", ["mkdir", "open", "write", "fsync", "rename"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_failing_call_leaves_no_temp_file_and_no_wrong_blob(tmp_path: Path, call: str, nth: int) -> None:
    store = BlobStore(tmp_path / "blobs" / "session-1", FaultyDisk(call, lambda n: n == nth, error=errno.EIO))
    try:
        name = store.put(b"data")
    except OSError:
        name = hashlib.sha256(b"data").hexdigest()
    assert store.get(name) in (b"data", None)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] in ([], [name])


def test_only_strings_above_64_kib_are_taken_out_and_measured_in_bytes(store: BlobStore) -> None:
    fits, long, wide = "x" * STRING_BYTES_MAX, "x" * (STRING_BYTES_MAX + 1), "é" * (STRING_BYTES_MAX // 2 + 1)
    found = msgspec.json.decode(store.slimmed(msgspec.json.encode({"a": fits, "b": [{"c": long}], "d": wide})))
    assert found["a"] == fits
    assert found["b"][0]["c"] == {
        "blob": hashlib.sha256(long.encode()).hexdigest(),
        "bytes": len(long),
        "head": "x" * 1500,
        "tail": "x" * 500,
    }
    assert found["d"]["bytes"] == len(wide.encode())
    assert restored(store, found) == {"a": fits, "b": [{"c": long}], "d": wide}


def test_an_object_with_a_key_called_blob_is_no_reference(store: BlobStore) -> None:
    value = {"intent": {"blob": "0" * 64, "text": "y" * (STRING_BYTES_MAX + 1)}}
    slim = msgspec.json.decode(store.slimmed(msgspec.json.encode(value)))
    assert set(slim["intent"]["text"]) == {"blob", "bytes", "head", "tail"}
    assert restored(store, slim) == value


@pytest.mark.parametrize(
    "value",
    [
        {"many": ["z" * STRING_BYTES_MAX] * 40},
        {"small": ["z" * 4000 + str(n) for n in range(300)]},
        {"control": ["\x01" * STRING_BYTES_MAX] * 4},
    ],
)
def test_many_strings_just_below_the_limit_do_not_make_a_large_record(store: BlobStore, value: object) -> None:
    encoded = store.slimmed(msgspec.json.encode(value))
    assert len(encoded) <= RECORD_BYTES_MAX
    assert restored(store, msgspec.json.decode(encoded)) == value


def test_a_text_is_read_from_an_object_as_itself_or_as_its_reference() -> None:
    ref = BlobRef("0" * 64, 1, "", "")
    found = {"plain": "text", "ref": msgspec.to_builtins(ref), "odd": {"blob": 1}, "number": 7}
    assert [text_in(found, key) for key in ("plain", "ref", "odd", "number", "none")] == ["text", ref, "", "", ""]
