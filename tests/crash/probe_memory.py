"""What a look at sessions costs in memory, as a process of its own.

    python -m tests.crash.probe_memory WHAT FOLDER ID

WHAT is `resume` (load the session) or `list` (list the folder). Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from memory.blobs import BlobStore
from memory.catalog import list_sessions
from memory.disk import Disk
from memory.layout import MemoryFolder
from memory.resume import ResumeLoader


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def main() -> None:
    what, folder, session_id = sys.argv[1:]
    memory = MemoryFolder(Path(folder))
    before, began = peak_bytes(), time.process_time()
    if what == "list":
        found = list_sessions([memory])
        told = {"sessions": len(found), "problems": sum(bool(one.problem) for one in found)}
    else:
        files = memory.session(session_id)
        state = ResumeLoader(files, BlobStore(files.blobs, Disk())).load_session()
        texts = [
            (message.content, *(str(call.arguments) for call in message.tool_calls))
            for message in state.history_messages
        ]
        live = sum(sys.getsizeof(text) for several in texts for text in several)  # 4 bytes a character with an emoji
        told = {"messages": len(state.history_messages), "live_bytes": live, "damage": len(state.damage)}
    told |= {
        "peak_bytes": peak_bytes(),
        "grown_bytes": peak_bytes() - before,
        "cpu_ms": round((time.process_time() - began) * 1000),
    }
    print(json.dumps({**told, "last_seq": state.last_seq} if what == "resume" else told))


if __name__ == "__main__":
    main()
