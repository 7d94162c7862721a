"""A stand-in for the program, to test the kit: writes records at known places, starts a child, and waits to be ended.

stand_in.py <steps> [child] [deaf]    writes so many records of a session, then waits for lines of input, or signals
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.kit.transcript import sealed

SESSION = "session-0123456789ab"


def record(seq: int) -> bytes:
    """A Bash action: requested, started, and then completed for ever."""
    status = {1: "requested", 2: "started"}.get(seq, "completed")
    return sealed(
        {
            "event_id": f"evt-{seq:04d}",
            "timestamp": "2026-01-31T12:00:00.000Z",
            "session_id": SESSION,
            "run_id": "run-1",
            "step": 1,
            "event_type": "tool_lifecycle",
            "payload": {"tool_name": "Bash", "tool_call_id": "call_1", "action_id": "a1", "status": status},
            "schema_version": 2,
            "seq": seq,
        }
    )


def main() -> None:
    steps, *words = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    if "child" in words:
        subprocess.Popen(["sleep", "60"])
    folder = Path(os.environ["MYCODEAGENT_HOME"]) / "projects" / "workspace-1" / "memory" / "transcripts"
    folder.mkdir(parents=True)
    with (folder / f"transcript-{SESSION}.jsonl").open("wb", buffering=0) as file:
        for seq in range(1, int(steps) + 1):
            file.write(record(seq) + b"\n")
            time.sleep(0.002)
    print("ready", flush=True)
    print("to the side", file=sys.stderr, flush=True)
    if "deaf" in words:
        signal.pause()
    for line in sys.stdin:
        print(f"heard {line.strip()}", flush=True)
        if line.strip() == "end":
            sys.exit(3)


if __name__ == "__main__":
    main()
