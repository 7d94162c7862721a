"""Records compared whole with a file: what differs in every run gets a stable name first.

Equal things keep equal names: the second action of a transcript is `action-2` wherever it is mentioned. To write the
files anew, run the tests with MYCODEAGENT_UPDATE_GOLDEN=1 and read the difference before committing it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kit.transcript import Record

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
UPDATE = "MYCODEAGENT_UPDATE_GOLDEN"

# Values that say something about the machine or the moment, by the key that holds them.
VOLATILE = frozenset(
    {
        "crc",
        "timestamp",
        "pid",
        "ppid",
        "host",
        "boot_id",
        "pid_namespace",
        "start_time",
        "version",
        "date",
        "created_at",
    }
    | {"duration_ms", "mtime_ns", "size", "input_tokens", "output_tokens", "cached_tokens", "prompt_tokens"}
    | {"completion_tokens", "total_tokens", "elapsed_s", "started_at", "ended_at"}
)
# Ids by their form, longest first: a SHA-256, then ids of ours and of providers.
IDS = re.compile(
    r"(?P<sha256>\b[0-9a-f]{64}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d))"
    r"|(?P<project>(?<=projects/)[^/\s]+-[0-9a-f]{6,64}\b)"
    r"|(?P<event>\bevt-[0-9a-zA-Z]+\b)"
    r"|(?P<session>\bsession-[0-9a-f]{12}\b)"
    r"|(?P<subagent>\bsubagent-[0-9a-f]{12}\b)"
    r"|(?P<call>\bcall_[0-9a-f]+(_\d+)?\b)"
    r"|(?P<uuid>\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
)


class Normalizer:
    """Gives stable names. `places` maps texts of this run, such as the workspace's path, to their names."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = sorted(places.items(), key=lambda item: -len(item[0]))  # a folder after what lies in it
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def records(self, records: Sequence[Record]) -> list[object]:
        """The records without checksum and with stable names."""
        for record in records:
            action_id = record.payload.get("action_id")
            if isinstance(action_id, str):
                self._name(action_id, "action")
        return [self._value({key: value for key, value in record.fields.items() if key != "crc"}) for record in records]

    def value(self, value: object) -> object:
        """Any other JSON value with stable names."""
        return self._value(value)

    def _value(self, value: object, key: str = "") -> object:
        if key in VOLATILE and value is not None:
            return f"<{key}>"
        if isinstance(value, dict):
            return {self._text(str(name)): self._value(part, str(name)) for name, part in value.items()}
        if isinstance(value, list):
            return [self._value(part) for part in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        for place, name in self._places:
            text = text.replace(place, name)
        for ident, name in self._names.items():
            if name.startswith("<action"):  # their form is not fixed: only those that were announced are known
                text = text.replace(ident, name)
        return IDS.sub(lambda match: self._name(match.group(), str(match.lastgroup)), text)

    def _name(self, ident: str, kind: str) -> str:
        if kind == "time":
            return "<time>"
        if ident not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[ident] = f"<{kind}-{self._counts[kind]}>"
        return self._names[ident]


def assert_golden(name: str, normalized: Sequence[object]) -> None:
    """Compare with `tests/golden/<name>`, one indented JSON value after the other, as a whole.

    Raises:
        AssertionError: they differ, or the file does not exist.
    """
    path = GOLDEN / name
    text = "\n".join(json.dumps(value, ensure_ascii=False, indent=1) for value in normalized) + "\n"
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} does not exist: run with {UPDATE}=1 to write it"
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
