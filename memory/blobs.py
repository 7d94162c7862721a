"""Texts too large for a record, and old file contents: whole files named by their SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from memory.disk import Disk
from memory.events import BlobRef, JsonObject, Text

STRING_BYTES_MAX = 64 * 1024  # any string above, in whatever field, is a blob
RECORD_BYTES_MAX = (1 << 20) - 4096  # room for the envelope below 1 MiB
_SMALLER_STRINGS = (STRING_BYTES_MAX, 4096, 512)  # many strings just below the limit can still make a large record
HEAD_CHARACTERS = 1500
TAIL_CHARACTERS = 500

_REFERENCE_KEYS = frozenset(BlobRef.__struct_fields__)


class BlobStore:
    """The blobs of one session."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def put(self, data: bytes) -> str:
        """Keep bytes, durable on return; their name. One that exists is compared, not trusted.

        Raises:
            OSError: there is no room, or the folder cannot be written.
        """
        name = hashlib.sha256(data).hexdigest()
        path = self._folder / name
        if self._read(path) != data:
            self._disk.private_directory(self._folder)
            self._disk.replace(path, data)
        return name

    def get(self, name: str) -> bytes | None:
        """The bytes of a blob; None when it is missing or does not hold what its name says."""
        data = self._read(self._folder / name)
        return data if data is not None and hashlib.sha256(data).hexdigest() == name else None

    def has(self, name: str) -> bool:
        """Whether there is a blob of this name, whatever it holds."""
        return "/" not in name and (self._folder / name).is_file()

    def text(self, text: Text | None) -> str:
        """A text in full; of a missing blob its head and tail with a mark between."""
        if text is None or isinstance(text, str):
            return text or ""
        data = self.get(text.blob)
        if data is not None:
            return data.decode("utf-8", "replace")
        return f"{text.head}\n[… {text.bytes:,} bytes in all: the stored text is missing …]\n{text.tail}"

    def resolved(self, value: JsonObject) -> JsonObject:
        """A JSON object with every reference to a blob replaced by its text: what `slimmed` took out is back."""
        return {key: self._resolved(item) for key, item in value.items()}

    def _resolved(self, value: object) -> object:
        if isinstance(value, dict):
            if value.keys() == _REFERENCE_KEYS:
                try:
                    return self.text(msgspec.convert(value, BlobRef))
                except msgspec.ValidationError:
                    return value
            return self.resolved(value)
        return [self._resolved(item) for item in value] if isinstance(value, list) else value

    def slimmed(self, encoded: bytes) -> bytes:
        """A payload's JSON with every large string replaced by a reference to its blob.

        Raises:
            OSError: a blob could not be written.
        """
        value: object = msgspec.json.decode(encoded)
        for limit in _SMALLER_STRINGS:
            value = self._replaced(value, limit)
            encoded = msgspec.json.encode(value)
            if len(encoded) <= RECORD_BYTES_MAX:
                break
        return encoded

    def _replaced(self, value: object, limit: int) -> object:
        if isinstance(value, str):
            data = value.encode()
            if len(data) <= limit:
                return value
            cut = 1 if limit == STRING_BYTES_MAX else 10
            return BlobRef(self.put(data), len(data), value[: HEAD_CHARACTERS // cut], value[-TAIL_CHARACTERS // cut :])
        if isinstance(value, list):
            return [self._replaced(item, limit) for item in value]
        if isinstance(value, dict) and value.keys() != _REFERENCE_KEYS:
            return {key: self._replaced(item, limit) for key, item in value.items()}
        return value

    @staticmethod
    def _read(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except (OSError, ValueError):  # ValueError: a foreign record may give a name that no file can have
            return None


def text_in(found: JsonObject, key: str) -> Text:
    """A text that an object of a record holds: as it is, or the reference that replaced it; '' where there is none."""
    value = found.get(key)
    if isinstance(value, dict):
        try:
            return msgspec.convert(value, BlobRef)
        except msgspec.ValidationError:
            return ""
    return value if isinstance(value, str) else ""
