"""What remembering costs: a record, a sync, a load, a list."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import cycle, islice
from pathlib import Path

import msgspec

from agent.services import EventIds, random_hex, utc_now
from memory.blobs import BlobStore
from memory.catalog import list_sessions
from memory.disk import Disk
from memory.events import LifecyclePayload, MessagePayload, Payload, ToolCall
from memory.layout import MemoryFolder
from memory.recorder import TranscriptRecorder
from memory.resume import ResumeLoader
from memory.session import RecordedSession
from tests.bench.measure import Row, ratio
from tests.crash.kit import Ours
from tests.crash.kit_long import LongSession, Size, code_like
from tests.kit.checkout import CHECKOUT
from tests.kit.in_process import Someone, run
from tests.kit.json_object import JsonObject, parse_object
from tests.kit.script import bash, say

RUNS = 7
APPENDS = 500  # in one measurement
APPEND_RUNS = 56
SYNCS = 400
MEGABYTE = 1_000_000
LARGE_FILE_BYTES = 100 * MEGABYTE
EVENTS = (1_000, 10_000, 100_000)
CHECKPOINT_EVERY = 5_000  # events
SESSIONS = 2_000
SESSION_BYTES = 2 * MEGABYTE
END_BYTES = 64 * 1024  # of a file of the list that is really there, at its head and at its tail
SESSION_ID = "session-0000000be4c4"


def rows(folder: Path) -> list[Row]:
    return [*_append_rows(folder), *_sync_rows(folder), *_load_rows(folder), *_list_rows(folder)]


def _opened(store: Ours) -> RecordedSession:
    """As the agent opens it."""
    return RecordedSession.open(store.files, Disk(), clock=utc_now, new_event_id=EventIds(random_hex()))


# -- append


def _append_rows(folder: Path) -> list[Row]:
    empty = Ours(folder / "empty", SESSION_ID)
    large = LongSession(folder / "large", SESSION_ID, Size(bytes=LARGE_FILE_BYTES)).write()
    base = _PlainFile(folder / "plain.jsonl")
    at_0, at_100 = _opened(empty), _opened(large)
    found = []
    for name, session in (("0 MB", at_0), ("100 MB", at_100)):
        for what, payloads, budget in (("2 KB", _ONE, 0.5), ("the records of steps", _STEPS, None)):
            times, cpu_s = ratio(_appends(session.recorder, payloads), base.appends(payloads), APPEND_RUNS)
            note = f"{cpu_s / APPENDS * 1e6:.1f} us"
            found.append(
                Row(f"append without sync of {what} at {name}, CPU", times, "x json.dumps + os.write", budget, note)
            )
    flat, _ = ratio(_appends(at_100.recorder, _ONE), _appends(at_0.recorder, _ONE), APPEND_RUNS)
    found.append(Row("append of 2 KB at 100 MB compared with 0 MB, CPU", flat, "x", 1.1))
    for session in (at_0, at_100):
        session.close()
    return found


_RANDOM = random.Random(7)
_TEXT = code_like(_RANDOM, 100_000)


def _step(number: int) -> list[Payload]:
    """The records of one step with a command: 2 KB an event in the mean."""
    call = ToolCall(f"call-{number}", "Bash", json.dumps({"command": f"pytest -q tests/test_{number}.py"}))
    lives = [LifecyclePayload("Bash", call.id, "requested", f"act-{number}", replay_safe=True)]
    lives.append(
        LifecyclePayload("Bash", call.id, "started", f"act-{number}", True, intent={"command": call.arguments})
    )
    lives.append(
        LifecyclePayload(
            "Bash",
            call.id,
            "completed",
            f"act-{number}",
            True,
            result=_TEXT[: int(_RANDOM.expovariate(1 / 6000))],
            exit_code=0,
        )
    )
    answer = MessagePayload("tool", tool_call_id=call.id, action_id=f"act-{number}")
    return [MessagePayload("assistant", _TEXT[:400], (call,)), *lives, answer]


_STEPS = [payload for number in range(40) for payload in _step(number)]
_ONE: list[Payload] = [MessagePayload("assistant", _TEXT[start : start + 1800]) for start in range(0, 90_000, 1500)]


def _appends(recorder: TranscriptRecorder, payloads: Sequence[Payload]) -> Callable[[], float]:
    """Records so many payloads, none of them synced, and gives the CPU seconds."""

    def append() -> float:
        began = time.process_time()
        for step, payload in enumerate(islice(cycle(payloads), APPENDS)):
            if isinstance(payload, MessagePayload):
                recorder.record_message("run-1", step, payload)
            elif isinstance(payload, LifecyclePayload):
                recorder.record_tool_lifecycle("run-1", step, payload)
        return time.process_time() - began

    return append


class _PlainFile:
    """The same events by `json.dumps` and `os.write`, with nothing else."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def appends(self, payloads: Sequence[Payload]) -> Callable[[], float]:
        plain = [msgspec.to_builtins(payload) for payload in payloads]

        def append() -> float:
            began = time.process_time()
            for step, payload in enumerate(islice(cycle(plain), APPENDS)):
                os.write(self.fd, json.dumps(_envelope(step, payload), ensure_ascii=False).encode() + b"\n")
            return time.process_time() - began

        return append


def _envelope(step: int, payload: object) -> JsonObject:
    return {
        "event_id": f"evt-{step}",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "session_id": SESSION_ID,
        "run_id": "run-1",
        "step": step,
        "event_type": "message",
        "payload": payload,
    }


# -- sync


def _sync_rows(folder: Path) -> list[Row]:
    store = Ours(folder / "synced", SESSION_ID)
    session = _opened(store)
    plain = _PlainFile(folder / "plain-synced.jsonl")
    line = json.dumps(_envelope(0, {"role": "user", "content": _TEXT[:1500]})).encode() + b"\n"

    def ours() -> float:
        began = time.perf_counter()
        session.recorder.record_message("run-1", 0, MessagePayload("user", _TEXT[:1500]), sync=True)
        return time.perf_counter() - began

    def bare() -> float:
        began = time.perf_counter()
        os.write(plain.fd, line)
        os.fdatasync(plain.fd)
        return time.perf_counter() - began

    times, wall_s = ratio(ours, bare, SYNCS)
    session.close()
    disk = _CountingDisk()
    one = Someone(folder / "turn", [bash("true"), say("done")]).with_services(disk=disk)
    run(one.start(), "run it")
    note = f"{wall_s * 1e3:.2f} ms"
    return [
        Row("append with sync, wall", times, "x bare write + fdatasync", 1.15, note),
        Row("fdatasync in a session of one turn with one command", disk.syncs, "calls"),
    ]


class _CountingDisk(Disk):
    syncs = 0

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        super().fdatasync(fd)


# -- load


def _load_rows(folder: Path) -> list[Row]:
    found = []
    for events in EVENTS:
        for every in (CHECKPOINT_EVERY, 0):
            what = f"{events:,} events {'with' if every else 'without'} checkpoints"
            place = folder / f"{events}-{every}"
            store = LongSession(place, SESSION_ID, Size(events=events, checkpoint_every=every)).write()
            times, cpu_s = ratio(lambda s=store: _load_cpu(s), lambda s=store: _rebuild_cpu(s.path), RUNS)  # type: ignore[misc]
            note = f"{cpu_s * 1000:.0f} ms, {store.path.stat().st_size / MEGABYTE:.0f} MB, {1 / times:.1f}x faster"
            budget = 1 / 4.5 if events == EVENTS[-1] else None
            found.append(Row(f"load of {what}, CPU", times, "x json.loads loop with rebuild", budget, note))
            if events == EVENTS[-1]:
                told = probe("resume", place)
                share, live = told["grown_bytes"] / told["live_bytes"], told["live_bytes"] / MEGABYTE
                found.append(Row(f"peak memory, {what}", share, "x live history", 1.5, f"{live:.1f} MB live"))
    return found


def _load_cpu(store: Ours) -> float:
    began = time.process_time()
    ResumeLoader(store.files, BlobStore(store.files.blobs, Disk())).load_session()
    return time.process_time() - began


@dataclass
class _Event:
    event_id: str
    timestamp: str
    session_id: str
    run_id: str
    step: int
    event_type: str
    payload: JsonObject


@dataclass
class _Message:
    role: str
    content: str | None
    calls: Sequence[JsonObject]


def _rebuild_cpu(path: Path) -> float:
    """CPU seconds of what a plain program does: decode each line into an event, then rebuild the messages."""
    began = time.process_time()
    names = [field.name for field in fields(_Event)]
    with path.open("rb") as file:
        decoded = (json.loads(line) for line in file)
        events = [_Event(**{name: record[name] for name in names}) for record in decoded]
    messages: list[_Message] = []
    results: dict[str, str] = {}
    for event in events:
        payload = event.payload
        if event.event_type == "tool_lifecycle" and payload["status"] == "completed":
            results[payload["action_id"]] = payload["result"]
        elif event.event_type == "message":
            text = payload.get("content") or results.get(payload.get("action_id", ""))
            messages.append(_Message(payload["role"], text, payload.get("tool_calls", ())))
    return time.process_time() - began


def probe(what: str, folder: Path) -> JsonObject:
    """Memory and CPU of a look at sessions, in a process of its own."""
    command = [sys.executable, "-m", "tests.crash.probe_memory", what, str(folder), SESSION_ID]
    return parse_object(subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout)


# -- list


def _list_rows(folder: Path) -> list[Row]:
    """Files of their own, with a hole in the middle that no list has a reason to read."""
    first = LongSession(folder / "many", SESSION_ID, Size(bytes=SESSION_BYTES)).write()
    data = first.path.read_bytes()
    for number in range(1, SESSIONS):
        with first.path.with_name(f"transcript-session-{number:012x}.jsonl").open("wb") as file:
            file.write(data[:END_BYTES])
            file.seek(len(data) - END_BYTES)
            file.write(data[-END_BYTES:])
    began = time.perf_counter()
    found = list_sessions([MemoryFolder(folder / "many")])
    wall_s = time.perf_counter() - began
    told = probe("list", folder / "many")
    what = f"list of {len(found):,} sessions of {SESSION_BYTES // MEGABYTE} MB"
    return [
        Row(f"{what}, wall", wall_s, "s", 2, f"{told['cpu_ms']} ms CPU"),
        Row(f"{what}, peak memory of the process", told["peak_bytes"] / MEGABYTE, "MB", 150),
    ]
