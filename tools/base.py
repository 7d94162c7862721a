"""What a tool is: parameters, words for the model, and four short acts.

A call lives through them in this order:

    plan    looks and promises: reads only, raises `CallRefused` when the call cannot be done
    intent  looks again after the question, and says what the `started` record must hold
    act     changes the world
    probe   looks again after a crash, and changes nothing
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from tools.verdict import Finding, Json, Verdict

Keep = Callable[[bytes], str | None]  # stores a content; its name, or None when it must not be stored


class ErrorCode(StrEnum):
    """Why a call failed: a closed list that records and programs rely on."""

    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    OUTSIDE_WORKSPACE = "OUTSIDE_WORKSPACE"
    NOT_FOUND = "NOT_FOUND"
    NOT_READ = "NOT_READ"
    CHANGED_SINCE_READ = "CHANGED_SINCE_READ"
    NO_MATCH = "NO_MATCH"
    NOT_UNIQUE = "NOT_UNIQUE"
    NOT_TEXT = "NOT_TEXT"
    REFUSED = "REFUSED"
    TIMEOUT = "TIMEOUT"
    LIMIT = "LIMIT"
    NOT_RUN = "NOT_RUN"
    INTERRUPTED = "INTERRUPTED"
    TRANSCRIPT_UNAVAILABLE = "TRANSCRIPT_UNAVAILABLE"
    INTERNAL = "INTERNAL"


class CallRefused(Exception):
    """A call that cannot be done as it stands. The message tells the model what to do next.

    `file_states` are of files whose whole content the message shows: they count as read, so the `failed` record
    holds them.
    """

    def __init__(self, code: ErrorCode, message: str, file_states: tuple[FileState, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.file_states = file_states


class ToolParams(BaseModel):
    """Base of all parameter models: unknown names are an error, so that a wrong call is told so."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


@dataclass(frozen=True)
class FileState:
    """What is known of a file's content: the optimistic lock of Edit and Write.

    `path` is absolute and resolved; `sha256` is of the whole content; `size` in bytes and `mtime_ns` are the shortcut
    that tells at resume, without reading, that nothing changed.
    """

    path: str
    sha256: str
    size: int
    mtime_ns: int
    encoding: str = ""  # the name that it is known by, where a look at the content might tell another

    def as_json(self) -> dict[str, Json]:
        """As records hold it."""
        found: dict[str, Json] = {
            "path": self.path,
            "sha256": self.sha256,
            "size": self.size,
            "mtime_ns": self.mtime_ns,
        }
        return {**found, "encoding": self.encoding} if self.encoding else found


@dataclass(frozen=True)
class Image:
    """A picture that the model is to see: `blob` names its kept content, `name` is what people call it."""

    name: str
    media_type: str
    blob: str
    bytes: int


@dataclass(frozen=True)
class ToolResult:
    """What came of a call. `text` is what the model gets; with an `error_code` the call counts as failed."""

    text: str
    error_code: ErrorCode | None = None
    file_states: tuple[FileState, ...] = ()
    images: tuple[Image, ...] = ()  # shown to the model besides the text
    cwd: str | None = None  # Bash: where the next command starts
    exit_code: int | None = None  # Bash
    background: dict[str, Json] | None = None  # {bash_id}: what it set going or, with `ended`, found ended


@dataclass(frozen=True)
class Plan:
    """What a call would do. Tools subclass it with what their `act` needs.

    `subject` is one line that names the target (a path, a command): permission rules and screens use it.
    `preview` is what the permission question shows: the command, or a unified diff.
    `nothing_to_do` is the result of a call that changes nothing: it completes without being started.
    """

    subject: str
    preview: str = ""
    nothing_to_do: ToolResult | None = None

    @property
    def target(self) -> str:
        """What permission rules compare, whole: the subject, unless that is only a part of it."""
        return self.subject


@dataclass(frozen=True)
class Action:
    """One attempt at one call: its identity, its place on disk, and its lines to the outside."""

    action_id: str
    tool_call_id: str
    place: Path  # outputs/<session>/<action_id>: not made until the tool needs it
    stop: asyncio.Event  # set when the user interrupts: end soon and return what there is
    progress: Callable[[str], None] = lambda _text: None  # live output, for the screen alone


ParamsT = TypeVar("ParamsT", bound=ToolParams)
PlanT = TypeVar("PlanT", bound=Plan)


class Tool(ABC, Generic[ParamsT, PlanT]):
    """One tool. Instances hold what they need from elsewhere (workspace, read cache, supervisor client)."""

    name: ClassVar[str]
    description: ClassVar[str]
    replay_safe: ClassVar[bool] = False  # running it again changes nothing: True only when that is certain
    params: type[ParamsT]

    @abstractmethod
    async def plan(self, params: ParamsT) -> PlanT:
        """Look at the world and promise. Reads only.

        Raises:
            CallRefused: the call cannot be done; the message says what to do next.
        """

    async def intent(self, plan: PlanT, action: Action) -> dict[str, Json]:
        """Check the plan again and say what the `started` record must hold for `probe` to judge later.

        Raises:
            CallRefused: the world changed since `plan`.
        """
        del plan, action
        return {}

    @abstractmethod
    async def act(self, plan: PlanT, action: Action) -> ToolResult:
        """Do it. Never abandoned: an interruption sets `action.stop` and waits for the result.

        Raises:
            CallRefused: a precondition failed right before the change; nothing was changed.
        """

    def seal(self, intent: dict[str, Json], place: Path) -> None:
        """Make the coming verdict final. Called once when the session is opened again, under its lease.

        Bash links its void claim here, Edit and Write remove the temp file that the intent names.
        """
        del intent, place

    def probe(self, intent: dict[str, Json], place: Path) -> Finding:
        """Say what became of an action that was started and has no recorded outcome. Changes nothing."""
        del intent, place
        if self.replay_safe:
            return Finding(Verdict.NO_EFFECT, "it only reads; running it again changes nothing")
        return Finding(Verdict.UNKNOWN, "nothing on disk tells what became of it")

    async def plan_revert(self, intent: dict[str, Json], old: bytes | None) -> PlanT:
        """Plan to take an applied action back. `old` is the kept content from before, None when there is none.

        Raises:
            CallRefused: it cannot be taken back; the message says why.
        """
        del intent, old
        raise CallRefused(ErrorCode.REFUSED, f"A {self.name} cannot be taken back.")

    async def plan_resume(self, intent: dict[str, Json]) -> PlanT:
        """Plan to let interrupted work go on where it was. Raises CallRefused when that cannot be done."""
        del intent
        raise CallRefused(ErrorCode.REFUSED, f"A {self.name} cannot go on where it was.")

    def recall(self, intent: dict[str, Json], place: Path) -> ToolResult | None:
        """The result that `act` would have returned, as far as the disk still tells it; None when it does not."""
        del intent, place
        return None

    async def await_end(self, intent: dict[str, Json], place: Path, *, stop: bool) -> None:
        """Wait until a `running` action has ended; with `stop`, end it. Bounded by the action's own timeout."""
        del intent, place, stop
