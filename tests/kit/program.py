"""The real program as a process: fresh folders, a clean environment, and every way to start and end it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.kit.checkout import CHECKOUT
from tests.kit.json_object import JsonObject, parse_object
from tests.kit.model_server import ModelServer
from tests.kit.processes import RunningProcess, kill_marked, marked_with
from tests.kit.terminal import Terminal
from tests.kit.transcript import Predicate, Record, parse_record, read_records

COMMAND = (sys.executable, str(CHECKOUT / "main.py"))
AUTO = ("--mode", "auto")  # effects pass without a question
TOKEN = "MYCODEAGENT_TEST_TOKEN"  # marks every process of one Program
POLL_S = 0.001
POLL_AT_START_S = 0.005  # until the first record is there, which takes a while


@dataclass(frozen=True)
class Result:
    """How a process ended. `code` is negative when a signal ended it (-9: SIGKILL)."""

    code: int
    out: str
    err: str

    def json(self) -> JsonObject:
        """stdout as a whole, which must be one JSON object."""
        return parse_object(self.out)

    def json_lines(self) -> list[JsonObject]:
        """stdout, each line of which must be a JSON object."""
        return [parse_object(line) for line in self.out.splitlines()]


class Program:
    """A user with a workspace, a home and a state directory of their own, all below `folder`.

    `command` starts the program (default: this checkout's main.py); `env` adds to the environment or, with None, takes
    away; `memory_dir` is where sessions are kept, when not below the state directory. Without a server the environment
    names no model, so the demo model answers. Close it when done.
    """

    def __init__(
        self,
        folder: Path,
        server: ModelServer | None = None,
        *,
        env: Mapping[str, str | None] | None = None,
        memory_dir: Path | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.state = folder / "state"  # MYCODEAGENT_HOME: made by the program
        self.home = folder / "home"
        self.server = server
        self.memory_dir = memory_dir
        self.command = tuple(command)
        self.token = secrets.token_hex(8)
        self.key = f"dummy-{secrets.token_hex(12)}"
        self._env = dict(env or {})
        self._processes: list[Process] = []
        self._terminals: list[Terminal] = []
        for place in (self.workspace, self.home, folder / "tmp", folder / "output"):
            place.mkdir(parents=True, exist_ok=True)

    def copy(self, folder: Path) -> Program:
        """Another user in the same workspace, with a copy of the state as it is now."""
        other = Program(folder, self.server, env=self._env, command=self.command)
        other.workspace = self.workspace
        other.key = self.key
        if self.state.exists():
            shutil.copytree(self.state, other.state, symlinks=True)
        return other

    def environment(self) -> dict[str, str]:
        env: dict[str, str | None] = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "MYCODEAGENT_HOME": str(self.state),
            TOKEN: self.token,
        }
        if self.server is not None:
            env["OPENAI_BASE_URL"] = self.server.url
            env["OPENAI_API_KEY"] = self.key
            env["MYCODEAGENT_MODEL"] = "scripted"
        if self.memory_dir is not None:
            env["MYCODEAGENT_MEMORY_DIR"] = str(self.memory_dir)
        env.update(self._env)
        return {name: value for name, value in env.items() if value is not None}

    # -- running

    def start(self, *args: str, stdin: str | bytes | None = None, cwd: Path | None = None) -> Process:
        """Start the program without a terminal; without `stdin` its input is empty."""
        process = Process(self, args, stdin.encode() if isinstance(stdin, str) else stdin, cwd or self.workspace)
        self._processes.append(process)
        return process

    def run(
        self, *args: str, stdin: str | bytes | None = None, cwd: Path | None = None, timeout_s: float = 60
    ) -> Result:
        """Run the program to its end."""
        return self.start(*args, stdin=stdin, cwd=cwd).result(timeout_s)

    def ask(self, prompt: str, *args: str) -> Result:
        """One shot in a new session, effects allowed."""
        return self.run("-p", prompt, *AUTO, *args)

    def resume(self, session_id: str, prompt: str, *args: str) -> Result:
        """One shot that goes on with a session."""
        return self.run("-p", prompt, "-r", session_id, *AUTO, *args)

    def go_on(self, session_id: str, *args: str) -> Result:
        """`continue`: go on with the interrupted run of a session."""
        return self.run("-p", "-r", session_id, *AUTO, *args)

    def recover(self, session_id: str) -> JsonObject:
        """What `recover --json` says of a session."""
        return self.run("recover", session_id, "--json").json()

    def terminal(self, *args: str, columns: int = 100, rows: int = 30) -> Terminal:
        """Start the program on a terminal."""
        terminal = Terminal([*self.command, *args], self.workspace, self.environment(), columns=columns, rows=rows)
        self._terminals.append(terminal)
        return terminal

    # -- looking

    def write(self, name: str, content: str | bytes) -> Path:
        """Put a file into the workspace, with its folders."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, name: str) -> str:
        """A file of the workspace, line ends as they are; "" when it does not exist."""
        path = self.workspace / name
        return path.read_bytes().decode() if path.exists() else ""

    def transcripts(self) -> list[Path]:
        """The transcripts of all sessions, subagents included, the newest last."""
        found = list(self.state.glob("projects/*/memory/transcripts/transcript-*.jsonl"))
        if self.memory_dir is not None:
            found += self.memory_dir.glob("transcripts/transcript-*.jsonl")
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def transcript(self, session_id: str = "") -> Path:
        """The transcript of a session, or the one that stands alone, subagents left out.

        Raises:
            AssertionError: there is not exactly one.
        """
        wanted = f"transcript-{session_id}.jsonl" if session_id else "transcript-session-*.jsonl"
        found = [path for path in self.transcripts() if path.match(wanted)]
        assert len(found) == 1, f"{len(found)} transcripts fit {wanted}: {found}"
        return found[0]

    def session_id(self) -> str:
        """The id of the session that stands alone."""
        return self.transcript().name.removeprefix("transcript-").removesuffix(".jsonl")

    def records(self, session_id: str = "") -> list[Record]:
        """The records of a session, or of the one that stands alone."""
        return read_records(self.transcript(session_id))

    def places(self) -> dict[str, str]:
        """The texts that are this run's alone, with stable names: for the comparison with golden files."""
        named = {
            str(self.workspace): "<workspace>",
            str(self.state): "<state>",
            str(self.home): "<home>",
            str(self.folder): "<folder>",
            str(CHECKOUT): "<checkout>",
            sys.executable: "<python>",
        }
        return named if self.server is None else {**named, self.server.url: "<server>"}

    def survivors(self) -> list[RunningProcess]:
        """What is alive of everything that was started here, except the agents that have not been waited for."""
        agents = {process.pid for process in self._processes if process.is_running()}
        agents |= {terminal.pid for terminal in self._terminals if terminal.is_running()}
        return [process for process in marked_with(self.token) if process.pid not in agents]

    def assert_gone(self, timeout_s: float = 5) -> None:
        """Wait until no process is left.

        Raises:
            AssertionError: some are still alive; it names them.
        """
        end = time.monotonic() + timeout_s
        while (left := self.survivors()) and time.monotonic() < end:
            time.sleep(0.01)
        assert not left, f"still alive after {timeout_s} s: {left}"

    def close(self) -> None:
        """Kill what is left of everything that was started here."""
        for terminal in self._terminals:
            terminal.close()
        for process in self._processes:
            process.kill()
        kill_marked(self.token)


class Process:
    """The program as one process in a session of its own; its output goes to files and can be read while it runs."""

    def __init__(self, program: Program, args: Sequence[str], stdin: bytes | None, cwd: Path) -> None:
        self._program = program
        place = program.folder / "output" / secrets.token_hex(4)
        self._out, self._err = place.with_suffix(".out"), place.with_suffix(".err")
        source = Path(os.devnull)
        if stdin is not None:
            source = place.with_suffix(".in")
            source.write_bytes(stdin)
        with source.open("rb") as input_, self._out.open("wb") as out, self._err.open("wb") as err:
            self._popen = subprocess.Popen(
                [*program.command, *args],
                stdin=input_,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=program.environment(),
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def out(self) -> str:
        """What it has written to stdout so far."""
        return self._out.read_bytes().decode("utf-8", "replace")

    def err(self) -> str:
        """What it has written to stderr so far."""
        return self._err.read_bytes().decode("utf-8", "replace")

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Signal the agent alone; nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def kill(self) -> None:
        """SIGKILL the agent alone, and wait for it."""
        self.signal(signal.SIGKILL)
        self._popen.wait(10)

    def result(self, timeout_s: float = 60) -> Result:
        """Wait for the end.

        Raises:
            AssertionError: it does not come to an end; it is killed.
        """
        try:
            code = self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            said = f"out: {self.out()[-1000:]!r}\nerr: {self.err()[-1000:]!r}"
            raise AssertionError(f"still running after {timeout_s} s\n{said}") from None
        return Result(code, self.out(), self.err())

    def wait_until(self, predicate: Predicate, timeout_s: float = 30) -> list[Record]:
        """Wait until the predicate holds for the records of all transcripts so far, and return these.

        Raises:
            AssertionError: the process ended first, or the time is over.
        """
        end = time.monotonic() + timeout_s
        with _Tail(self._program) as tail:
            while time.monotonic() < end:
                ended = not self.is_running()  # looked at before the files: what it wrote last still counts
                if tail.grew() and predicate(tail.records):
                    return tail.records
                if ended:
                    break
                time.sleep(POLL_S if tail.records else POLL_AT_START_S)
        what = f"{len(tail.records)} records, the last {tail.records[-1:]}"
        raise AssertionError(f"not seen in {what}\nout: {self.out()[-500:]!r}\nerr: {self.err()[-1000:]!r}")

    def kill_when(self, predicate: Predicate, timeout_s: float = 30) -> list[Record]:
        """SIGKILL the agent alone as soon as the predicate holds; the records seen until then.

        Raises:
            AssertionError: the predicate never held, or the agent ended by itself before the signal came.
        """
        seen = self.wait_until(predicate, timeout_s)
        self.kill()
        assert self._popen.returncode == -signal.SIGKILL, f"it ended by itself with {self._popen.returncode}"
        return seen


class _Tail:
    """The complete records of all transcripts of a program, read as they come: looking must cost the program little."""

    def __init__(self, program: Program) -> None:
        self.records: list[Record] = []
        self._program = program
        self._files: dict[Path, BinaryIO] = {}
        self._rest: dict[Path, bytes] = {}  # bytes behind the last newline
        self._folders: dict[Path, int] = {}  # time of the last change of each folder with transcripts

    def __enter__(self) -> _Tail:
        return self

    def __exit__(self, *_error: object) -> None:
        for file in self._files.values():
            file.close()

    def grew(self) -> bool:
        """Read what is new; False when nothing is."""
        before = len(self.records)
        self._open_new_files()
        for path, file in self._files.items():
            data = file.read()
            if not data:
                continue
            *lines, self._rest[path] = (self._rest.get(path, b"") + data).split(b"\n")
            parsed = [parse_record(line, path.name) for line in lines]
            self.records += [record for record in parsed if record is not None]
        return len(self.records) > before

    def _open_new_files(self) -> None:
        """Look for transcripts where there was none yet, or where a file has come or gone."""
        if self._folders and all(path.stat().st_mtime_ns == changed for path, changed in self._folders.items()):
            return
        found = self._program.transcripts()
        self._folders = {folder: folder.stat().st_mtime_ns for folder in {path.parent for path in found}}
        for path in found:
            if path not in self._files:
                self._files[path] = path.open("rb")
