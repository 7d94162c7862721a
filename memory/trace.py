"""The trace: every event with times and figures, for debugging. Recovery never reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

import msgspec

from memory.disk import Disk
from memory.events import JsonObject
from memory.layout import SessionFiles
from memory.recorder import timestamp

TEXT_CHARACTERS_MAX = 20_000  # a trace is read by people; the transcript holds the whole text


class TraceLogger:
    """Appends JSON lines to `traces/<session_id>.jsonl`, made at the first line. Raises OSError."""

    def __init__(self, files: SessionFiles, disk: Disk, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._disk = disk
        self._clock = clock
        self._fd: int | None = None

    def log(self, event_type: str, run_id: str, step: int, payload: JsonObject) -> None:
        if self._fd is None:
            self._disk.private_directory(self._files.trace.parent)
            self._fd = self._disk.open(self._files.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        line = {
            "timestamp": timestamp(self._clock()),
            "run_id": run_id,
            "step": step,
            "event_type": event_type,
            "payload": _shortened(payload),
        }
        self._disk.write_all(self._fd, msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def _shortened(value: object) -> object:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARACTERS_MAX else value[:TEXT_CHARACTERS_MAX] + "…"
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value]
    return value
