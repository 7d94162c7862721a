"""The trace: lines for debugging, made at the first one."""

from __future__ import annotations

import json
from pathlib import Path

from memory.disk import Disk
from memory.layout import MemoryFolder
from memory.trace import TraceLogger
from tests.memory.memory_kit import SESSION_ID, START


def test_a_trace_holds_every_event_with_long_texts_shortened(tmp_path: Path) -> None:
    files = MemoryFolder(tmp_path).session(SESSION_ID)
    logger = TraceLogger(files, Disk(), lambda: START)
    assert not files.trace.exists()
    logger.log("message", "run-1", 2, {"text": "x" * 30_000, "list": [{"nan": float("nan")}], "odd": ("中", None)})
    logger.close()
    logger.log("terminal", "run-1", 3, {})
    logger.close()
    assert [json.loads(line) for line in files.trace.read_bytes().splitlines()] == [
        {
            "timestamp": "2026-01-31T12:00:00.000Z",
            "run_id": "run-1",
            "step": 2,
            "event_type": "message",
            "payload": {"text": "x" * 20_000 + "…", "list": [{"nan": None}], "odd": ["中", None]},
        },
        {
            "timestamp": "2026-01-31T12:00:00.000Z",
            "run_id": "run-1",
            "step": 3,
            "event_type": "terminal",
            "payload": {},
        },
    ]
