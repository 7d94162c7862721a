"""K07: sessions of hundreds of megabytes, and thousands of them, in bounded memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.crash.kit import scaled
from tests.crash.kit_long import LongSession, Size
from tests.kit.checkout import CHECKOUT
from tests.kit.json_object import JsonObject, parse_object

MEGABYTE = 1 << 20
TRANSCRIPT_BYTES = 60 * MEGABYTE  # MYCODEAGENT_CRASH_SIZE=5 makes it the 300 MB of the report
SESSIONS = 2000
SESSION_BYTES = 2 * MEGABYTE
ADDRESS_SPACE = 1 << 30  # the `ulimit -v` of the report
LIVE_FACTOR = 1.5  # of the history that a resume holds afterwards
GROUND_BYTES = 10 * MEGABYTE  # a buffer, the marks, one large record in several forms

SESSION_ID = "session-00000000b16e"


def probe(what: str, folder: Path) -> JsonObject:
    """Look at sessions in a process of its own with little address space."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))

    command = [sys.executable, "-m", "tests.crash.probe_memory", what, str(folder), SESSION_ID]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert done.returncode == 0, done.stderr[-2000:]
    return parse_object(done.stdout)


def test_a_large_session_with_checkpoints_resumes_in_little_memory(quick: Path, battery: Callable[[str], None]) -> None:
    size = Size(bytes=scaled(TRANSCRIPT_BYTES), checkpoint_every=5000)
    store = LongSession(quick, SESSION_ID, size).write()
    found = probe("resume", quick)
    assert (found["damage"], found["last_seq"]) == (0, store.reader().last_seq)
    assert found["grown_bytes"] <= LIVE_FACTOR * found["live_bytes"] + GROUND_BYTES
    battery(
        f"resume of {store.path.stat().st_size / MEGABYTE:.0f} MB, {found['last_seq']:,} records, with checkpoints: "
        f"{found['live_bytes'] / MEGABYTE:.1f} MB live, +{found['grown_bytes'] / MEGABYTE:.1f} MB, {found['cpu_ms']} ms"
    )


def test_a_large_session_without_a_checkpoint_takes_no_more_than_its_history(
    quick: Path, battery: Callable[[str], None]
) -> None:
    store = LongSession(quick, SESSION_ID, Size(bytes=scaled(TRANSCRIPT_BYTES) // 2)).write()
    found = probe("resume", quick)
    assert (found["damage"], found["last_seq"]) == (0, store.reader().last_seq)
    assert found["grown_bytes"] <= LIVE_FACTOR * found["live_bytes"] + GROUND_BYTES
    battery(
        f"resume of {store.path.stat().st_size / MEGABYTE:.0f} MB without a checkpoint: "
        f"{found['live_bytes'] / MEGABYTE:.1f} MB live, +{found['grown_bytes'] / MEGABYTE:.1f} MB, {found['cpu_ms']} ms"
    )


def test_a_loader_that_keeps_every_line_fails_the_memory_battery(quick: Path) -> None:
    LongSession(quick, SESSION_ID, Size(bytes=TRANSCRIPT_BYTES // 2, checkpoint_every=5000)).write()
    naive = (
        "import json, resource, sys\n"
        "lines = [json.loads(line) for line in open(sys.argv[1], 'rb')]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)\n"
    )
    transcript = quick / "transcripts" / f"transcript-{SESSION_ID}.jsonl"
    told = subprocess.run([sys.executable, "-c", naive, str(transcript)], capture_output=True, text=True, check=True)
    live_bytes = probe("resume", quick)["live_bytes"]
    assert int(told.stdout) > LIVE_FACTOR * live_bytes + GROUND_BYTES


def test_thousands_of_sessions_are_listed_in_little_memory(tmp_path: Path, battery: Callable[[str], None]) -> None:
    store = LongSession(tmp_path, SESSION_ID, Size(bytes=SESSION_BYTES)).write()
    for number in range(1, SESSIONS):
        os.link(store.path, store.path.with_name(f"transcript-session-{number:012x}.jsonl"))
    found = probe("list", tmp_path)
    assert (found["sessions"], found["problems"]) == (SESSIONS, 0)
    assert found["grown_bytes"] <= 50 * MEGABYTE
    battery(
        f"list of {SESSIONS:,} sessions of {SESSION_BYTES // MEGABYTE} MB: +{found['grown_bytes'] / MEGABYTE:.1f} MB, "
        f"{found['cpu_ms']} ms"
    )
