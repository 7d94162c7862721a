"""The kit reads transcripts, notices breaches of the contract, and gives stable names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.golden import Normalizer
from tests.kit.json_object import JsonObject
from tests.kit.transcript import (
    arguments,
    breaches,
    crc_fits,
    end_of,
    outcomes,
    read_records,
    results,
    saw,
    sealed,
    transitions,
)

SESSION = "session-0123456789ab"
HASH = "ab" * 32


def a_record(seq: int, event_type: str, **payload: object) -> JsonObject:
    return {
        "event_id": f"evt-{seq:06x}",
        "timestamp": f"2026-01-31T12:00:{seq:02d}.000Z",
        "session_id": SESSION,
        "run_id": "run-1",
        "step": 1,
        "event_type": event_type,
        "payload": payload,
        "schema_version": 2,
        "seq": seq,
    }


def action(seq: int, status: str, **more: object) -> JsonObject:
    head = {"tool_name": "Bash", "tool_call_id": "call_0a", "action_id": "act-77", "status": status}
    return a_record(seq, "tool_lifecycle", **head, **more)


def a_turn() -> list[JsonObject]:
    """A run with one command."""
    called = {"id": "call_0a", "name": "Bash", "arguments": '{"command": "ls"}'}
    return [
        a_record(1, "state_transition", reason="session_opened", details={"pid": 77, "cwd": "/tmp/x/workspace"}),
        a_record(2, "message", role="assistant", content="", tool_calls=[called]),
        action(3, "requested"),
        action(4, "started", intent={"sha256": HASH}),
        action(5, "completed", result=f"in /tmp/x/workspace: {HASH}", duration_ms=12),
        a_record(6, "terminal", reason="completed"),
        a_record(7, "state_transition", reason="session_closed"),
    ]


def written(folder: Path, records: list[JsonObject]) -> Path:
    path = folder / f"transcript-{SESSION}.jsonl"
    path.write_bytes(b"".join(sealed(record) + b"\n" for record in records))
    return path


def test_records_say_what_happened(tmp_path: Path) -> None:
    records = read_records(written(tmp_path, a_turn()))
    assert arguments(records) == {"call_0a": '{"command": "ls"}'}
    assert results(records) == {"call_0a": f"in /tmp/x/workspace: {HASH}"}
    assert outcomes(records) == {"act-77": 1}
    assert transitions(records, "session_opened") == [{"pid": 77, "cwd": "/tmp/x/workspace"}]
    assert (end_of(records), end_of(records[:5])) == ("completed", "")


def test_a_predicate_finds_an_action_by_status_tool_and_text(tmp_path: Path) -> None:
    records = read_records(written(tmp_path, a_turn()))
    found = [
        saw("started"),
        saw("started", "Bash"),
        saw("started", "Bash", '"command": "ls"'),
        saw("completed", needle="in /tmp"),
    ]
    missed = [saw("failed"), saw("started", "Edit"), saw("started", "Bash", "rm")]
    assert ([p(records) for p in found], [p(records) for p in missed]) == ([True] * 4, [False] * 3)


def test_a_good_transcript_has_no_breach(tmp_path: Path) -> None:
    assert breaches(written(tmp_path, a_turn())) == []


THRICE = ["requested", "started", "requested"]


def spoiled(number: int, **fields: object) -> list[JsonObject]:
    """A turn in which some fields of one record are different."""
    turn = a_turn()
    turn[number - 1].update(fields)
    return turn


@pytest.mark.parametrize(
    ("records", "breach"),
    [
        (spoiled(3, seq=9), "line 3 has a wrong seq"),
        (spoiled(3, session_id="session-000000000000"), "line 3 is of another session"),
        (spoiled(6, event_type="end"), "line 6 has an unknown event_type"),
        (spoiled(3, run_id=""), "line 3 has no run"),
        (spoiled(3, more=1), "line 3 has other keys"),
        (spoiled(3, schema_version=1), "line 3 is not of version 2"),
        (spoiled(3, event_id="evt-000002"), "evt-000002 stands there 2 times"),
        ([action(1, "requested", args={})], "line 1 has arguments in a tool_lifecycle"),
        (
            [action(1, "requested"), action(2, "started"), action(3, "requested")],
            f"action act-77 lives through {THRICE}",
        ),
    ],
)
def test_a_breach_of_the_contract_is_named(tmp_path: Path, records: list[JsonObject], breach: str) -> None:
    assert breaches(written(tmp_path, records)) == [breach]


def test_a_flipped_byte_breaks_the_checksum(tmp_path: Path) -> None:
    path = written(tmp_path, a_turn())
    path.write_bytes(path.read_bytes().replace(b'"call_0a","action_id"', b'"call_0b","action_id"', 1))
    assert breaches(path) == ["line 3 has a wrong checksum"]


def test_a_checksum_in_another_form_does_not_fit() -> None:
    line = sealed({"event_id": "evt-1", "seq": 3})
    upper = line[:-10] + line[-10:-2].upper() + line[-2:]
    assert (crc_fits(line), crc_fits(upper), crc_fits(b"{}")) == (True, upper == line, False)


def test_normalised_records_are_equal_in_every_run(tmp_path: Path) -> None:
    one = written(tmp_path, a_turn())
    text = one.read_bytes().decode()
    changes = {SESSION: "session-fedcba987654", "act-77": "act-4711", "/tmp/x": "/tmp/y", HASH: "cd" * 32}
    changes |= {"12:00": "13:30", "evt-0000": "evt-00ab", "call_0a": "call_0b", '"pid":77': '"pid":1234'}
    for old, new in changes.items():
        text = text.replace(old, new)
    (tmp_path / "other").mkdir()
    two = tmp_path / "other" / "transcript-session-fedcba987654.jsonl"
    two.write_text(text)
    first = Normalizer({"/tmp/x/workspace": "<workspace>"}).records(read_records(one))
    second = Normalizer({"/tmp/y/workspace": "<workspace>"}).records(read_records(two))
    assert first == second
    assert first[4] == {
        "event_id": "<event-5>",
        "timestamp": "<timestamp>",
        "session_id": "<session-1>",
        "run_id": "run-1",
        "step": 1,
        "event_type": "tool_lifecycle",
        "payload": {
            "tool_name": "Bash",
            "tool_call_id": "<call-1>",
            "action_id": "<action-1>",
            "status": "completed",
            "result": "in <workspace>: <sha256-1>",
            "duration_ms": "<duration_ms>",
        },
        "schema_version": 2,
        "seq": 5,
    }
