"""Runs commands through their supervisors, and reads what these left on disk.

The agent's side of `tools/supervisor.py`: one `CommandRunner` per session starts a supervisor for each command, hears
from it how things go, and remembers those that still guard processes, so that `close` leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tools import supervisor
from tools.base import Action
from tools.output_text import Spooled, live_text
from tools.processes import marked
from tools.supervisor import GRACE_S, HEAD_BYTES, KILL_S, OUTCOME, STDERR, STDOUT, TAIL_BYTES, encode_order

log = logging.getLogger(__name__)

ENDS_BYTES_MAX = 256 * 1024  # of each end of a stream: what is read to show about 30,000 characters
LIVE_BYTES_MAX = 64 * 1024  # of news for the screen at once; what is behind is skipped

# Nobody sits at a terminal: what would wait for one ends at once, with an error that says so. An editor that "succeeds"
# (`true`) would commit with whatever text it was given, hence `false`.
NO_TERMINAL = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",  # outranks core.pager
    "MANPAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",  # outranks core.editor
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",  # else ssh asks in a window that nobody expects
    "DEBIAN_FRONTEND": "noninteractive",
}


class CommandNotStarted(Exception):
    """Nothing ran and nothing will: the place, the directory or the supervisor could not be had."""


class SupervisorLost(Exception):
    """The supervisor was killed. How far the command came cannot be known; what was left of it has been ended."""


class LeftProcess(msgspec.Struct, frozen=True, array_like=True):
    """A process that outlived its shell."""

    pid: int
    start_ticks: int
    command: str


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The `outcome` file. Times are seconds since the epoch."""

    exit_code: int | None  # None: ended by `signal`, or nothing ended it
    signal: int | None
    timed_out: bool
    why: str  # what ended it: "ended" (by itself), "timeout", "stopped", "agent_died"
    started: float
    ended: float
    seconds: float
    stdout_bytes: int
    stderr_bytes: int
    stdout_kept: int
    stderr_kept: int
    directory: str | None  # the shell's last one; None when it is not known
    left: tuple[LeftProcess, ...] = ()  # the first ones of `left_count`
    left_count: int = 0
    stuck: tuple[LeftProcess, ...] = ()  # could not be ended
    spool_error: str | None = None  # why output is missing on disk


def read_outcome(place: Path) -> CommandOutcome | None:
    """The outcome of a command; None when there is none, or none that can be read."""
    try:
        return msgspec.json.decode((place / OUTCOME).read_bytes(), type=CommandOutcome)
    except (OSError, msgspec.MsgspecError):
        return None


def read_ends(path: Path, bytes_max: int = ENDS_BYTES_MAX, *, since: int = 0) -> Spooled:
    """Both ends of what a stream got after its first `since` bytes, each of at most `bytes_max`.

    In order also when the last part of the spool is a ring; the beginning is empty where that ring has gone over it.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return Spooled(b"", b"", 0)
    with file:
        fd = file.fileno()
        size = os.fstat(fd).st_size
        total = size
        if size > HEAD_BYTES + TAIL_BYTES:
            total = int(os.pread(fd, supervisor.FOOTER_BYTES, HEAD_BYTES + TAIL_BYTES).split(b"[")[1].split()[0])
        new = max(0, total - since)
        head = _read_spool(fd, since, min(bytes_max, new), total)
        tail_bytes = min(bytes_max, TAIL_BYTES, new - len(head))
        return Spooled(head, _read_spool(fd, total - tail_bytes, tail_bytes, total), new)


def _read_spool(fd: int, start: int, count: int, total: int) -> bytes:
    """Bytes of the stream from `start` on, as far as they are kept without a hole."""
    if total <= HEAD_BYTES + TAIL_BYTES:
        return os.pread(fd, count, start)
    if start < HEAD_BYTES:
        return os.pread(fd, min(count, HEAD_BYTES - start), start)
    if start < total - TAIL_BYTES:
        return b""
    offset = (start - HEAD_BYTES) % TAIL_BYTES
    first = os.pread(fd, min(count, TAIL_BYTES - offset), HEAD_BYTES + offset)
    return first + os.pread(fd, count - len(first), HEAD_BYTES) if len(first) < count else first


def private_directory(path: Path) -> None:
    """Make a directory and its missing parents, 0700 from creation, each durable in its parent. Raises OSError."""
    if path.is_dir():
        return
    private_directory(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def command_environment(
    environment: Mapping[str, str], secret_names: Sequence[str], secrets: Sequence[str]
) -> dict[str, str]:
    """What a command gets to see: no secret, by name or by value, and nothing that would wait for a terminal."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in secret_names and not any(secret in value for secret in secrets if secret)
    }
    kept.pop("OLDPWD", None)
    return {**kept, **NO_TERMINAL}


async def end_marked(action_id: str) -> None:
    """End what carries the mark of an action whose supervisor is gone: TERM, then KILL until nothing is left."""
    loop = asyncio.get_running_loop()
    kill_at = loop.time() + GRACE_S
    for process in marked(action_id):
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
    while (found := marked(action_id)) and loop.time() < kill_at + KILL_S:
        for process in found if loop.time() >= kill_at else ():
            process.send(signal.SIGKILL)
        await asyncio.sleep(0.02)


class RunningCommand:
    """A command under its supervisor. `outcome` is set when the shell has ended, `gone` when nothing is left of it.

    `is_shown`: its output goes to the action's `progress` while the shell runs.
    """

    def __init__(self, process: asyncio.subprocess.Process, action: Action, *, is_shown: bool) -> None:
        loop = asyncio.get_running_loop()
        self.action = action
        self.started: asyncio.Future[int] = loop.create_future()  # the shell's pid, or CommandNotStarted
        self.outcome: asyncio.Future[CommandOutcome] = loop.create_future()  # or SupervisorLost
        self._process = process
        self._live = [_Live(action.place / name) for name in (STDOUT, STDERR)] if is_shown else []
        self.gone = loop.create_task(self._listen())

    def stop(self) -> None:
        """Ask the supervisor to end the tree: TERM, 2 s, KILL. Also when only left-over processes remain."""
        self._say(b"s")

    def _say(self, data: bytes) -> None:
        if self._process.stdin is not None:
            with suppress(OSError, RuntimeError):  # it is gone, or on its way
                self._process.stdin.write(data)

    async def order(self, order: bytes) -> None:
        """Send what is to be run and wait until it runs.

        Raises:
            CommandNotStarted: it was refused.
        """
        self._say(order)
        try:
            await asyncio.shield(self.started)
        except asyncio.CancelledError:
            self.stop()
            raise

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            word, _, rest = line.strip().partition(b" ")
            if word == b"out" and not self.outcome.done():
                self._show()
            elif word == b"started":
                self.started.set_result(int(rest))
            elif word == b"refused":
                self.started.set_exception(CommandNotStarted(rest.decode("utf-8", "replace")))
            elif word == b"end":
                self._show()
                self.outcome.set_result(msgspec.json.decode(rest, type=CommandOutcome))
        await self._process.wait()
        await self._settle()

    async def _settle(self) -> None:
        """The supervisor is gone: what it has not said is looked up, or can never be known."""
        if not self.started.done():
            self.started.set_exception(CommandNotStarted("its supervisor ended before it could start the command"))
        if self.started.exception() is not None:
            self.outcome.cancel()
            return
        if self._process.returncode:  # it was killed: nobody guards what is left of the command
            await end_marked(self.action.action_id)
        if self.outcome.done():
            return
        outcome = read_outcome(self.action.place)
        if outcome is not None:
            self.outcome.set_result(outcome)
        else:
            self.outcome.set_exception(SupervisorLost("its supervisor was killed"))
            self.outcome.exception()  # heard, should nobody wait for it

    def _show(self) -> None:
        for live in self._live:
            text = live_text(live.news())
            if not text:
                continue
            try:
                self.action.progress(text)
            except Exception:  # a screen that fails must not lose the command
                log.exception("live output could not be shown")


class _Live:
    """Follows a spool for the screen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def news(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                size = min(os.fstat(file.fileno()).st_size, HEAD_BYTES + TAIL_BYTES)
                start = max(self._offset, size - LIVE_BYTES_MAX)
                self._offset = size
                return os.pread(file.fileno(), size - start, start) if size > start else b""
        except OSError:
            return b""  # nothing came yet


class CommandRunner:
    """Starts commands and remembers what is left of them until `close`.

    `environment` is the agent's own; the variables in `secret_names` and those that hold one of `secrets` are kept from
    the commands, and `secrets` are replaced in their output.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        secret_names: Sequence[str] = ("OPENAI_API_KEY",),
        secrets: Sequence[str] = (),
        python: str = sys.executable,
        shell: str | None = None,
    ) -> None:
        self._environment = command_environment(environment, secret_names, secrets)
        self._secrets = [secret for secret in secrets if secret]
        self._python = python
        self._script = supervisor_script(python)
        self._shell = shell or shutil.which("bash", path=environment.get("PATH")) or "/bin/sh"
        self._running: dict[str, RunningCommand] = {}

    async def start(
        self, command: str, *, cwd: Path, timeout_s: float, action: Action, background: bool = False
    ) -> RunningCommand:
        """Start a command; it runs when this returns. `timeout_s` 0 means none.

        Raises:
            CommandNotStarted: nothing ran; the text says why.
        """
        try:
            private_directory(action.place)
            process = await asyncio.create_subprocess_exec(
                *(self._python, "-I", "-S", self._script, str(action.place)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={**self._environment, "PWD": str(cwd)},
                cwd="/",
                start_new_session=True,  # Ctrl+C in the terminal is the agent's to handle
            )
        except OSError as error:
            raise CommandNotStarted(f"{error.strerror}: {error.filename}") from error
        running = RunningCommand(process, action, is_shown=not background)
        self._running[action.action_id] = running
        running.gone.add_done_callback(lambda _task: self._running.pop(action.action_id, None))
        await running.order(
            encode_order(
                background=background,
                timeout_s=timeout_s,
                shell=self._shell,
                cwd=str(cwd),
                command=command,
                secrets=self._secrets,
            )
        )
        return running

    async def run(
        self, command: str, *, cwd: Path, timeout_s: float, action: Action, background: bool = False
    ) -> CommandOutcome:
        """Run a command to its end, its timeout, or until `action.stop` is set.

        Raises:
            CommandNotStarted: nothing ran.
            SupervisorLost: what became of it cannot be known.
        """
        running = await self.start(command, cwd=cwd, timeout_s=timeout_s, action=action, background=background)
        stop = asyncio.ensure_future(action.stop.wait())
        stop.add_done_callback(lambda waited: None if waited.cancelled() else running.stop())
        try:
            return await asyncio.shield(running.outcome)
        except asyncio.CancelledError:
            running.stop()
            raise
        finally:
            stop.cancel()

    @property
    def guarded(self) -> list[RunningCommand]:
        """Commands that run, or whose left-over processes do."""
        return list(self._running.values())

    async def close(self) -> None:
        """End all that still runs, left-over processes included. Takes at most a few seconds."""
        running = self.guarded
        for one in running:
            one.stop()
        if running:
            await asyncio.wait([one.gone for one in running], timeout=GRACE_S + KILL_S + 1)


def supervisor_script(python: str) -> str:
    """What to hand to the interpreter: the byte-compiled supervisor where there is a current one, which saves 5 ms."""
    source = Path(supervisor.__file__)
    with suppress(OSError, NotImplementedError):
        cached = Path(importlib.util.cache_from_source(str(source)))
        about = source.stat()
        header = importlib.util.MAGIC_NUMBER + b"".join(
            (number & 0xFFFFFFFF).to_bytes(4, "little") for number in (0, int(about.st_mtime), about.st_size)
        )
        with cached.open("rb") as file:
            if python == sys.executable and file.read(len(header)) == header:
                return str(cached)
    return str(source)
