"""Transcripts as tests read them: records, what they say, and whether they keep the contract."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.json_object import JsonObject, parse_object

CRC_BYTES = len(b',"crc":"00000000"}')
CUSTOMERS_FIELDS = ["event_id", "timestamp", "session_id", "run_id", "step", "event_type", "payload"]
FIELDS = [*CUSTOMERS_FIELDS, "schema_version", "seq", "crc"]
EVENT_TYPES = {"message", "state_transition", "tool_lifecycle", "checkpoint", "terminal"}
OUTCOMES = ("completed", "failed")
LIVES = (  # the statuses of an action, in order: finished ones, then those that a crash cut short
    ("requested", "started", "completed"),
    ("requested", "started", "failed"),
    ("requested", "completed"),
    ("requested", "failed"),
    ("requested", "started"),
    ("requested",),
)


@dataclass(frozen=True)
class Record:
    """One line of a transcript that is a JSON object. `file` is the name of its file, `line` its bytes."""

    fields: JsonObject
    line: bytes
    file: str

    @property
    def event_type(self) -> str:
        return str(self.fields.get("event_type"))

    @property
    def payload(self) -> JsonObject:
        found = self.fields.get("payload")
        return found if isinstance(found, dict) else {}

    @property
    def seq(self) -> int:
        return int(self.fields.get("seq", 0))

    def is_action(self, status: str, tool: str = "") -> bool:
        """Is it a tool_lifecycle record of this status (and of this tool)?"""
        fits = self.event_type == "tool_lifecycle" and self.payload.get("status") == status
        return fits and (not tool or self.payload.get("tool_name") == tool)

    def is_transition(self, reason: str) -> bool:
        return self.event_type == "state_transition" and self.payload.get("reason") == reason

    def is_message(self, role: str) -> bool:
        return self.event_type == "message" and self.payload.get("role") == role


Predicate = Callable[[Sequence[Record]], bool]


# -- reading and writing


def lines_of(path: Path) -> list[bytes]:
    """The complete lines of a file, split at b"\\n" only."""
    return path.read_bytes().split(b"\n")[:-1]


def parse_record(line: bytes, file: str) -> Record | None:
    """The record of a line, or None where it is not a JSON object."""
    try:
        return Record(parse_object(line), line, file)
    except ValueError:
        return None


def read_records(path: Path) -> list[Record]:
    """Every line that is a JSON object, in file order."""
    found = [parse_record(line, path.name) for line in lines_of(path)]
    return [record for record in found if record is not None]


def crc_fits(line: bytes) -> bool:
    """Does the line end in the checksum of all bytes before it, in the contract's form?"""
    return line[-CRC_BYTES:] == _crc_ending(line[:-CRC_BYTES])


def sealed(fields: JsonObject) -> bytes:
    """The line of a record (without its newline) with a right checksum: how tests write transcripts of their own."""
    body = json.dumps({key: value for key, value in fields.items() if key != "crc"}, separators=(",", ":"))
    start = body[:-1].encode()
    return start + _crc_ending(start)


def _crc_ending(start: bytes) -> bytes:
    return b',"crc":"%08x"}' % zlib.crc32(start)


# -- what the records say


def arguments(records: Sequence[Record]) -> dict[str, str]:
    """The arguments of every call by its id, as text: they stand in the assistant messages alone."""
    calls = [call for record in records for call in record.payload.get("tool_calls") or [] if isinstance(call, dict)]
    texts = {str(call.get("id")): call.get("arguments") for call in calls}
    return {ident: text if isinstance(text, str) else json.dumps(text) for ident, text in texts.items()}


def results(records: Sequence[Record]) -> dict[str, str]:
    """The result text of every finished call by its id; of a text kept as a blob its head."""
    texts = {}
    for record in records:
        if record.payload.get("status") in OUTCOMES:
            result = record.payload.get("result")
            text = result.get("head") if isinstance(result, dict) else result
            texts[str(record.payload.get("tool_call_id"))] = str(text if text is not None else "")
    return texts


def statuses(records: Sequence[Record]) -> dict[str, list[str]]:
    """The statuses of every action by its action_id, in file order."""
    found: dict[str, list[str]] = {}
    for record in records:
        if record.event_type == "tool_lifecycle":
            action_id = str(record.payload.get("action_id") or record.payload.get("tool_call_id"))
            found.setdefault(action_id, []).append(str(record.payload.get("status")))
    return found


def outcomes(records: Sequence[Record]) -> Counter[str]:
    """How many completed and failed records each action has: never more than one."""
    lives = statuses(records)
    return Counter({action_id: sum(life.count(outcome) for outcome in OUTCOMES) for action_id, life in lives.items()})


def transitions(records: Sequence[Record], reason: str) -> list[JsonObject]:
    """The details of every state_transition with this reason."""
    return [record.payload.get("details") or {} for record in records if record.is_transition(reason)]


def end_of(records: Sequence[Record]) -> str:
    """The reason of the terminal record that ends the file, or "" ; `session_closed` may follow it."""
    for record in reversed(records):
        if record.event_type == "terminal":
            return str(record.payload.get("reason"))
        if not record.is_transition("session_closed"):
            return ""
    return ""


def saw(status: str, tool: str = "", needle: str = "") -> Predicate:
    """A predicate: such an action is there, with the text in its record or in the arguments of its call."""

    def predicate(records: Sequence[Record]) -> bool:
        hits = [record for record in records if record.is_action(status, tool)]
        if not needle or not hits:
            return bool(hits)
        texts = arguments(records)
        return any(needle in texts.get(str(hit.payload.get("tool_call_id")), "") + hit.line.decode() for hit in hits)

    return predicate


def reached(count: int) -> Predicate:
    """A predicate: so many records are there."""
    return lambda records: len(records) >= count


def transitioned(reason: str) -> Predicate:
    """A predicate: a state_transition with this reason is there."""
    return lambda records: any(record.is_transition(reason) for record in records)


# -- the contract


def breaches(path: Path) -> list[str]:
    """Where an undamaged transcript of ours breaks the contract; empty when it keeps it."""
    session_id = path.name.removeprefix("transcript-").removesuffix(".jsonl")
    found = [] if path.read_bytes().endswith(b"\n") else ["the file does not end in a newline"]
    for number, line in enumerate(lines_of(path), 1):
        record = parse_record(line, path.name)
        if record is None:
            found.append(f"line {number} is not a JSON object")
        else:
            found += [f"line {number} {problem}" for problem in _record_breaches(record, number, session_id)]
    records = read_records(path)
    for event_id, count in Counter(str(record.fields.get("event_id")) for record in records).items():
        found += [f"{event_id} stands there {count} times"] if count > 1 else []
    for action_id, life in statuses(records).items():
        found += [] if tuple(life) in LIVES else [f"action {action_id} lives through {life}"]
    return found


def _record_breaches(record: Record, number: int, session_id: str) -> list[str]:
    fields = record.fields
    outside_runs = record.event_type == "state_transition"  # opening and leaving a session belong to no run
    rules = {
        "has other keys": list(fields) == FIELDS,
        "has a wrong checksum": crc_fits(record.line),
        "has a wrong seq": fields.get("seq") == number,
        "is of another session": fields.get("session_id") == session_id,
        "has an unknown event_type": record.event_type in EVENT_TYPES,
        "has no whole number as step": isinstance(fields.get("step"), int),
        "has no run": outside_runs or bool(re.fullmatch(r"run-[1-9]\d*", str(fields.get("run_id")))),
        "has a payload that is no object": isinstance(fields.get("payload"), dict),
        "is not of version 2": fields.get("schema_version") == 2,
        "is longer than 1 MiB": len(record.line) < 1 << 20,
        "has arguments in a tool_lifecycle": not {"args", "arguments"} & set(record.payload)
        or record.event_type != "tool_lifecycle",
    }
    return [problem for problem, kept in rules.items() if not kept]
