"""The stage of the guided tour: a temporary folder, the real program as a process, and `kill -9`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.config import ADDRESS, CONTEXT_TOKENS, IMAGES, KEY, MEMORY_DIR, MODEL, SDK
from agent.config import HOME as SESSIONS
from memory.events import JsonObject

MAIN = Path(__file__).resolve().parents[2] / "main.py"  # beside our packages, in a checkout and in an installed copy
_HIDDEN = (KEY, ADDRESS, MODEL, MEMORY_DIR, CONTEXT_TOKENS, IMAGES, SDK, "XDG_CONFIG_HOME")
LOOK_S = 0.0005  # between two looks at a growing transcript: the moment to kill in may last a few milliseconds
WAIT_S_MAX = 30.0  # for anything that the tour waits for: a machine that is slower than this is broken


class TourFailed(Exception):
    """The tour cannot go on; the message says why."""


@dataclass(frozen=True)
class Finished:
    """How one start of the program ended; `code` is negative when a signal ended it."""

    code: int
    out: str
    err: str


class Stage:
    """A workspace and a state directory of their own below `folder`. Nothing of the user's settings is used."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mycodeagent-demo-")).resolve()
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        self._settings = self.folder / "settings.env"
        self._settings.write_text("# The tour uses no settings: the demo model answers.\n")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words: str) -> Finished:
        """Start the program and let it come to its end."""
        return _finished(self._start(words))

    def run_and_kill(self, *words: str, when: Callable[[], bool]) -> Finished:
        """Start the program and send it SIGKILL as soon as `when` holds; at its end when it never does."""
        process = self._start(words)
        try:
            give_up_at = time.monotonic() + WAIT_S_MAX
            while process.poll() is None and not when() and time.monotonic() < give_up_at:
                time.sleep(LOOK_S)
        finally:
            process.kill()
        return _finished(process)

    def transcripts(self) -> list[Path]:
        """Those of all sessions on this stage."""
        return sorted((self.folder / "state").glob("projects/*/memory/transcripts/transcript-session-*.jsonl"))

    def has_outcome(self) -> bool:
        """Has a command's supervisor written how it ended?"""
        return any((self.folder / "state").glob("projects/*/memory/outputs/*/*/outcome"))

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Raises TourFailed when it does not come."""
        give_up_at = time.monotonic() + WAIT_S_MAX
        while not condition():
            if time.monotonic() > give_up_at:
                raise TourFailed(f"{what} did not come within {WAIT_S_MAX:g} s")
            time.sleep(0.02)

    def _start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """The program without a terminal, on this stage."""
        command = [sys.executable, str(MAIN), "--env-file", str(self._settings), *words]
        return subprocess.Popen(
            command,
            cwd=self.workspace,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )

    def _environment(self) -> dict[str, str]:
        """Ours without settings, keys and addresses. Another home hides the user's configuration directory."""
        kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        return {**kept, "HOME": str(self.folder), SESSIONS: str(self.folder / "state"), "PYTHONUTF8": "1"}


def _finished(process: subprocess.Popen[str]) -> Finished:
    """Raises TourFailed when it does not come to its end; it is killed then."""
    try:
        out, err = process.communicate(timeout=WAIT_S_MAX)
    except subprocess.TimeoutExpired:
        raise TourFailed(f"the program was still at work after {WAIT_S_MAX:g} s") from None
    finally:
        process.kill()
    return Finished(process.returncode, out, err)


def records_of(transcript: Path) -> list[JsonObject]:
    """The complete records that a transcript holds at this moment."""
    lines = transcript.read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line, type=dict[str, object]) for line in lines]


def lifecycles(records: Sequence[JsonObject], tool: str, *statuses: str) -> list[JsonObject]:
    """The `tool_lifecycle` payloads of one tool, of some statuses."""
    return [
        payload
        for record in records
        if record["event_type"] == "tool_lifecycle" and isinstance(payload := record["payload"], dict)
        if payload["tool_name"] == tool and payload["status"] in statuses
    ]


def decisions(records: Sequence[JsonObject]) -> list[JsonObject]:
    """The details of every `recovery_decided` record."""
    payloads = [record["payload"] for record in records if record["event_type"] == "state_transition"]
    found = [one for one in payloads if isinstance(one, dict) and one.get("reason") == "recovery_decided"]
    return [details for one in found if isinstance(details := one.get("details"), dict)]
