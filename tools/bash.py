"""The Bash tool: one shell command, in a directory that persists, under a supervisor of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import msgspec
from pydantic import Field, field_validator

from tools.background import BackgroundCommands
from tools.base import Action, CallRefused, ErrorCode, Plan, Tool, ToolParams, ToolResult
from tools.command import CommandNotStarted, CommandOutcome, CommandRunner, SupervisorLost, read_ends, read_outcome
from tools.evidence import probe_command, seal_command, stop_running, wait_for_outcome
from tools.output_text import streams_text
from tools.processes import Process, here
from tools.supervisor import STDERR, STDOUT
from tools.verdict import Finding, Json

TIMEOUT_MS_DEFAULT = 120_000
TIMEOUT_MS_MAX = 600_000
SUBJECT_CHARS_MAX = 200


class BashParams(ToolParams):
    command: str = Field(description="The command line, run by bash. It starts in the directory the last one ended in.")
    timeout: int | None = Field(
        default=None,
        ge=1,
        le=TIMEOUT_MS_MAX,
        description=f"Milliseconds after which the command is ended: {TIMEOUT_MS_DEFAULT} by default (in the "
        f"background none), at most {TIMEOUT_MS_MAX}.",
    )
    description: str | None = Field(default=None, description="What the command does, in five to ten words.")
    run_in_background: bool = Field(
        default=False,
        description="Return at once with a bash_id, and let the command run until it ends, KillBash ends it, or the "
        "session does: for servers and long jobs. Do not write & behind the command.",
    )

    @field_validator("command")
    @classmethod
    def _runnable(cls, command: str) -> str:
        if not command.strip():
            raise ValueError("the command is empty")
        if "\0" in command:
            raise ValueError("the command holds a NUL byte, which no shell can take")
        return command

    @property
    def timeout_s(self) -> float:
        """0 means none."""
        if self.timeout is None:
            return 0.0 if self.run_in_background else TIMEOUT_MS_DEFAULT / 1000
        return self.timeout / 1000


@dataclass(frozen=True)
class BashPlan(Plan):
    command: str = ""
    timeout_s: float = TIMEOUT_MS_DEFAULT / 1000  # 0 means none
    background: bool = False

    @property
    def target(self) -> str:
        return self.command  # the subject may be only its first line


class Bash(Tool[BashParams, BashPlan]):
    """`cwd` is where the next command starts; it stays inside the workspace."""

    name: ClassVar[str] = "Bash"
    description: ClassVar[str] = (
        "Runs a shell command and returns its output and exit code. The working directory persists between commands "
        "as long as it stays inside the workspace; variables and functions do not. There is no terminal and the "
        "standard input is empty: pass flags instead of answering questions (git commit -m, --yes). Long output is "
        "cut in the middle. A server or a long job runs with run_in_background. Prefer Read, Edit, Write, Glob and "
        "Grep where they do the job."
    )
    params = BashParams

    def __init__(
        self, runner: CommandRunner, background: BackgroundCommands, workspace_root: Path, cwd: Path | None = None
    ) -> None:
        self._runner = runner
        self._background = background
        self._root = workspace_root.resolve()
        self.cwd = cwd if cwd is not None and self._is_inside(cwd) else self._root

    async def plan(self, params: BashParams) -> BashPlan:
        self._require_directory()
        first, *rest = params.command.strip().splitlines()
        subject = first if len(first) <= SUBJECT_CHARS_MAX else first[: SUBJECT_CHARS_MAX - 1] + "…"
        return BashPlan(
            subject=f"{subject} …" if rest and not subject.endswith("…") else subject,
            preview=f"{params.command}\n(in the background)" if params.run_in_background else params.command,
            command=params.command,
            timeout_s=params.timeout_s,
            background=params.run_in_background,
        )

    async def intent(self, plan: BashPlan, action: Action) -> dict[str, Json]:
        del action
        self._require_directory()
        return {
            "cwd": os.fsencode(self.cwd).decode("utf-8", "replace"),
            "timeout_s": plan.timeout_s,
            "background": plan.background,
            **here()._asdict(),
        }

    async def act(self, plan: BashPlan, action: Action) -> ToolResult:
        self._require_directory()
        try:
            if plan.background:
                return await self._start(plan, action)
            outcome = await self._runner.run(plan.command, cwd=self.cwd, timeout_s=plan.timeout_s, action=action)
        except CommandNotStarted as error:
            if action.stop.is_set():
                return ToolResult("The command was stopped before it was started.", ErrorCode.INTERRUPTED)
            raise CallRefused(ErrorCode.REFUSED, f"The command was not started: {error}.") from error
        except SupervisorLost as error:
            note = f"[{error}: how far the command came is not known; check before you go on]"
            return ToolResult(f"{output_text(action.place)}\n{note}", ErrorCode.INTERNAL, cwd=str(self.cwd))
        self.cwd, moved = self._next_directory(outcome.directory, self.cwd)
        notes = [*outcome_notes(outcome, plan.timeout_s), *moved]
        left = self._background.adopt(plan.command, action, outcome)
        if left is not None:
            notes.append(
                f"BashOutput shows what is still written, KillBash ends what still runs: bash_id {left.bash_id}"
            )
        result = _result(action.place, outcome, notes, self.cwd)
        return replace(result, background={"bash_id": left.bash_id, "left_over": True}) if left else result

    async def _start(self, plan: BashPlan, action: Action) -> ToolResult:
        """Raises CommandNotStarted."""
        command = await self._background.start(plan.command, cwd=self.cwd, timeout_s=plan.timeout_s, action=action)
        end = f"after {plan.timeout_s:g} s" if plan.timeout_s else "when the session ends"
        text = (
            f"Runs in the background as {command.bash_id}, and is ended {end} if it still runs then. BashOutput shows "
            "what it writes, KillBash ends it."
        )
        return ToolResult(text, background={"bash_id": command.bash_id})

    def seal(self, intent: dict[str, Json], place: Path) -> None:
        seal_command(intent, place)

    def probe(self, intent: dict[str, Json], place: Path) -> Finding:
        return probe_command(intent, place)

    def recall(self, intent: dict[str, Json], place: Path) -> ToolResult | None:
        outcome = read_outcome(place)
        if outcome is None:
            return None
        left = tuple(one for one in outcome.left if Process(one.pid, one.start_ticks).is_alive())
        outcome = msgspec.structs.replace(outcome, left=left, left_count=len(left))
        if intent.get("background"):
            return _result(place, outcome, outcome_notes(outcome, outcome.seconds), None)
        cwd, moved = self._next_directory(outcome.directory, Path(str(intent.get("cwd", self._root))))
        return _result(place, outcome, [*outcome_notes(outcome, float(str(intent.get("timeout_s", 0)))), *moved], cwd)

    async def await_end(self, intent: dict[str, Json], place: Path, *, stop: bool) -> None:
        del intent
        await (stop_running(place) if stop else wait_for_outcome(place))

    # -- the working directory

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self._root)

    def _nearest(self, path: Path) -> Path:
        """The directory itself or its nearest parent that can be entered, inside the workspace."""
        inside = [parent for parent in (path, *path.parents) if parent.is_relative_to(self._root)]
        return next((parent for parent in inside if _can_enter(parent)), self._root)

    def _require_directory(self) -> None:
        """Raises CallRefused when the working directory is gone; the next command then starts in the named one."""
        if _can_enter(self.cwd):
            return
        gone, self.cwd = self.cwd, self._nearest(self.cwd)
        if not _can_enter(self.cwd):
            raise CallRefused(ErrorCode.REFUSED, f"The command was not run: the workspace {self._root} is gone.")
        raise CallRefused(
            ErrorCode.REFUSED,
            f"The command was not run: its working directory {gone} is gone or cannot be entered. "
            f"The working directory is now {self.cwd}; send the command again if it fits there.",
        )

    def _next_directory(self, ended_in: str | None, started_in: Path) -> tuple[Path, list[str]]:
        """Where the command ended, as far as that is allowed, and what there is to say about it."""
        target = started_in if ended_in is None else Path(ended_in)
        if not _can_enter(target):
            nearest = self._nearest(target if target.is_relative_to(self._root) else started_in)
            note = f"the working directory {target} is gone or cannot be entered; the next command starts in {nearest}"
            return nearest, [note]
        if not self._is_inside(target):
            return self._root, [f"{target} is outside the workspace; the next command starts in {self._root}"]
        return target, []


def _can_enter(path: Path) -> bool:
    return path.is_dir() and os.access(path, os.X_OK)


def _result(place: Path, outcome: CommandOutcome, notes: list[str], cwd: Path | None) -> ToolResult:
    text = "\n".join([output_text(place).removesuffix("\n"), *(f"[{note}]" for note in notes)])
    return ToolResult(text, _error_code(outcome), cwd=str(cwd) if cwd else None, exit_code=outcome.exit_code)


def _error_code(outcome: CommandOutcome) -> ErrorCode | None:
    if outcome.timed_out:
        return ErrorCode.TIMEOUT
    return None if outcome.why == "ended" else ErrorCode.INTERRUPTED


def output_text(place: Path) -> str:
    """What a command has written so far, for the model: stdout, then stderr under its name."""
    return streams_text(*(read_ends(place / name) for name in (STDOUT, STDERR)))


def outcome_notes(outcome: CommandOutcome, timeout_s: float) -> list[str]:
    """How a command ended and what it left behind, one sentence each; nothing for a plain success."""
    notes = []
    if outcome.timed_out:
        notes.append(
            f"timed out after {timeout_s:g} s and was ended with all its processes; the output is what came until "
            "then. Standard input is empty and there is no terminal: a command that waits for answers needs flags"
        )
    elif outcome.why != "ended":
        notes.append("interrupted: the command was ended with all its processes before it was done")
    elif outcome.signal is not None:
        notes.append(f"ended by signal {outcome.signal}")
    elif outcome.exit_code:
        notes.append(f"exit code {outcome.exit_code}")
    if outcome.left:
        more = f" and {outcome.left_count - len(outcome.left)} more" if outcome.left_count > len(outcome.left) else ""
        named = "; ".join(f"{one.pid} {one.command}" for one in outcome.left)
        notes.append(f"still running, until the session ends: {named}{more}")
    if outcome.stuck:
        named = "; ".join(f"{one.pid} {one.command}" for one in outcome.stuck)
        notes.append(f"could not be ended: {named}")
    if outcome.spool_error:
        lost = outcome.stdout_bytes + outcome.stderr_bytes - outcome.stdout_kept - outcome.stderr_kept
        notes.append(f"{lost} bytes of output could not be kept: {outcome.spool_error}")
    return notes
