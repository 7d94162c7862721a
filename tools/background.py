"""What runs in the background of a session: background commands, and processes that finished commands left behind.

Each has a bash_id, `bash-1`, `bash-2`, … in the order of the session, never given twice, also after a resume. A
resumed session still knows those of the agent before it: their supervisors have stopped them, and their output is
on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tools.base import Action, CallRefused, ErrorCode, ToolResult
from tools.command import CommandOutcome, CommandRunner, RunningCommand, read_ends
from tools.evidence import probe_background, stop_running
from tools.output_text import Spooled, streams_text, without_half_character
from tools.processes import Process, marked
from tools.supervisor import GRACE_S, KILL_S, STDERR, STDOUT
from tools.verdict import Json, Verdict

STOP_S = GRACE_S + KILL_S + 1  # how long ending a tree can take
COMMAND_CHARS_MAX = 80  # of a command, where it only names itself


class State(NamedTuple):
    """How it stands with a background command."""

    text: str
    is_over: bool  # nothing of it runs any more


@dataclass
class BackgroundCommand:
    """One of them. `running` is None for one whose agent is gone.

    What was read of it already is known to this object alone: a resumed session begins at the start of the output.
    """

    bash_id: str
    command: str
    place: Path  # the outputs of the action that started it
    running: RunningCommand | None = None
    is_left_over: bool = False  # processes of a finished command, rather than a background command
    started_at: float = field(default_factory=time.monotonic)
    _read: dict[str, int] = field(default_factory=lambda: {STDOUT: 0, STDERR: 0})  # bytes of each stream

    @property
    def title(self) -> str:
        """Id and command in one line."""
        line = " ".join(self.command.split())
        cut = line if len(line) <= COMMAND_CHARS_MAX else line[: COMMAND_CHARS_MAX - 1] + "…"
        return f"{self.bash_id} ({cut})"

    def state(self) -> State:
        """How it stands with it now."""
        if self.running is None:
            finding = probe_background(self.place)
            return State(finding.text, is_over=finding.verdict is not Verdict.RUNNING)
        is_over = self.running.gone.done()
        if not self.running.outcome.done():
            return State(f"running for {time.monotonic() - self.started_at:.0f} s", is_over)
        if self.running.outcome.exception() is not None:
            lost = "its supervisor was killed, so its processes were ended; how far it came is not known"
            return State(lost, is_over)
        outcome = self.running.outcome.result()
        words = _how_it_ended(outcome)
        if not is_over:
            words += f"; still running: {_left_of(outcome, self.place)}"
        elif outcome.left:
            words += "; what it left behind has ended"
        return State(words, is_over)

    def skip(self, outcome: CommandOutcome) -> None:
        """The output up to this outcome has been shown."""
        self._read = {STDOUT: outcome.stdout_bytes, STDERR: outcome.stderr_bytes}

    def look(self) -> ToolResult:
        """What it has written since the last look, both ends of it when that is much, and how it stands with it.

        Once the record holds that it has ended, nobody needs to be told of its end again.
        """
        state = self.state()  # before the output: so the last of it is not missed
        out, err = (self._new(name, to_its_end=state.is_over) for name in (STDOUT, STDERR))
        text = streams_text(out, err, nothing="(no new output)").removesuffix("\n")
        ended: dict[str, Json] = {"bash_id": self.bash_id, "ended": True}
        return ToolResult(f"{text}\n[{self.bash_id}: {state.text}]", background=ended if state.is_over else None)

    def _new(self, name: str, *, to_its_end: bool) -> Spooled:
        new = read_ends(self.place / name, since=self._read[name])
        new = new if to_its_end else without_half_character(new)
        self._read[name] += new.total
        return new

    async def stop(self) -> None:
        """End all of it: TERM, 2 s, KILL."""
        if self.running is None:
            await stop_running(self.place)
            return
        self.running.stop()
        await asyncio.wait([self.running.gone], timeout=STOP_S)


class BackgroundCommands:
    """All of one session."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
        self._commands: dict[str, BackgroundCommand] = {}
        self._count = 0

    @property
    def all(self) -> list[BackgroundCommand]:
        return list(self._commands.values())

    def find(self, bash_id: str) -> BackgroundCommand:
        """Raises CallRefused: there is none of this id; the message names those there are."""
        found = self._commands.get(bash_id)
        if found is None:
            known = ", ".join(one.title for one in self.all) or "none"
            message = f"There is no background command {bash_id[:100]!r}. Known are: {known}."
            raise CallRefused(ErrorCode.NOT_FOUND, message)
        return found

    async def start(self, command: str, *, cwd: Path, timeout_s: float, action: Action) -> BackgroundCommand:
        """Start a background command. `timeout_s` 0 means none.

        Raises:
            CommandNotStarted: nothing ran.
        """
        running = await self._runner.start(command, cwd=cwd, timeout_s=timeout_s, action=action, background=True)
        return self._add(command, running)

    def adopt(self, command: str, action: Action, outcome: CommandOutcome) -> BackgroundCommand | None:
        """Give an id to what a finished command left behind; None when that has ended meanwhile."""
        guarded = (one for one in self._runner.guarded if one.action.action_id == action.action_id)
        running = next(guarded, None) if outcome.left else None
        if running is None:
            return None
        adopted = self._add(command, running)
        adopted.is_left_over = True
        adopted.skip(outcome)
        return adopted

    def _add(self, command: str, running: RunningCommand) -> BackgroundCommand:
        self._count += 1
        one = BackgroundCommand(f"bash-{self._count}", command, running.action.place, running)
        self._commands[one.bash_id] = one
        return one

    def restore(self, lost: Iterable[BackgroundCommand], count: int) -> None:
        """Take in those of an agent that is gone, and how many ids this session has given so far."""
        self._commands.update((one.bash_id, one) for one in lost)
        self._count = max(self._count, count)

    async def close(self) -> None:
        """End what agents before this one have left running. The runner ends its own."""
        for one in self.all:
            if one.running is None and not one.state().is_over:
                await one.stop()


def _how_it_ended(outcome: CommandOutcome) -> str:
    match outcome.why:
        case "timeout":
            how = f"timed out after {outcome.seconds:.3g} s and was ended with all its processes"
        case "stopped":
            how = "stopped with all its processes"
        case _ if outcome.signal is not None:
            how = f"ended by signal {outcome.signal}"
        case _:
            how = f"exit code {outcome.exit_code}"
    if outcome.stuck:
        how += f"; could not be ended: {', '.join(str(one.pid) for one in outcome.stuck)}"
    return f"{how}; its last output could not be kept: {outcome.spool_error}" if outcome.spool_error else how


def _left_of(outcome: CommandOutcome, place: Path) -> str:
    known = {(one.pid, one.start_ticks): one.command for one in outcome.left}
    alive = {*marked(place.name), *(Process(*key) for key in known if Process(*key).is_alive())}
    named = [f"{one.pid} {known.get((one.pid, one.start_ticks), '')}".rstrip() for one in sorted(alive)]
    return ", ".join(named) or "some processes"
