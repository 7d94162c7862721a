"""Small values that the loop, the host and the terminal share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from memory.events import End, JsonObject, list_in


class LoopState(StrEnum):
    """Where a run is; `state_transition` records name two of these."""

    IDLE = "idle"
    ASKING_MODEL = "asking_model"
    RUNNING_TOOLS = "running_tools"
    RECOVERING = "recovering"
    ENDED = "ended"


@dataclass(frozen=True)
class Limits:
    """What one run may use. None: no limit."""

    steps_max: int | None = None
    tokens_max: int | None = None  # input and output tokens of the run, as the service counts them


@dataclass
class Usage:
    """Tokens of a run, summed over its requests."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def as_json(self) -> JsonObject:
        return {
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
        }


@dataclass(frozen=True)
class World:
    """What a request takes from outside: recorded at `run_started` and used from there, so that a resume asks alike."""

    workspace: str
    model: str
    provider: str
    mode: str
    date: str
    project_rules: str
    tools: tuple[str, ...]
    directories: tuple[str, ...] = ()  # where the file tools may work besides the workspace
    sees_images: bool = False  # the model

    def as_json(self) -> JsonObject:
        found: JsonObject = {
            "workspace": self.workspace,
            "model": self.model,
            "provider": self.provider,
            "mode": self.mode,
            "date": self.date,
            "project_rules": self.project_rules,
            "tools": list(self.tools),
        }
        if self.directories:
            found["directories"] = list(self.directories)
        if self.sees_images:
            found["sees_images"] = True
        return found

    def carried_on_in(self, here: World) -> World:
        """The world of a run that another process goes on with: some of it is that process's own."""
        return replace(
            self,
            model=here.model,
            provider=here.provider,
            mode=here.mode,
            directories=here.directories,
            sees_images=here.sees_images,
        )

    @classmethod
    def from_json(cls, details: JsonObject, default: World) -> World:
        """The recorded world; what an old or damaged record lacks comes from `default`."""
        tools = details.get("tools")
        names = [str(name) for name in tools] if isinstance(tools, list) else list(default.tools)
        return cls(
            workspace=str(details.get("workspace") or default.workspace),
            model=str(details.get("model") or default.model),
            provider=str(details.get("provider") or default.provider),
            mode=str(details.get("mode") or default.mode),
            date=str(details.get("date") or default.date),
            project_rules=str(details.get("project_rules", default.project_rules)),
            tools=tuple(names),
            directories=tuple(str(one) for one in list_in(details, "directories")),
            sees_images=details.get("sees_images") is True,
        )


@dataclass(frozen=True)
class RunResult:
    """How a run ended, for the terminal, for JSON and for a parent agent."""

    run_id: str
    end: End
    response: str
    steps: int
    usage: Usage
    permission_denials: tuple[JsonObject, ...] = ()
    unanswered: bool = False  # a call was refused because nobody could be asked
    error_code: str | None = None
    error_message: str | None = None
    details: JsonObject = field(default_factory=dict)

    @property
    def status(self) -> str:
        match self.end:
            case End.COMPLETED:
                return "completed"
            case End.OUTPUT_CLOSED if self.details.get("complete"):
                return "completed"
            case End.INTERRUPTED | End.TERMINATED | End.HANGUP:
                return "interrupted"
            case _:
                return "failed"

    @property
    def exit_code(self) -> int:
        """The process's exit code after this run (the README lists them)."""
        codes = {
            End.COMPLETED: 4 if self.unanswered else 0,
            End.OUTPUT_CLOSED: 0 if self.details.get("complete") else 1,
            End.INTERRUPTED: 130,
            End.TERMINATED: 143,
            End.HANGUP: 129,
            End.MAX_STEPS: 3,
            End.TOKEN_BUDGET: 3,
            End.PERMISSION_NEEDED: 4,
            End.DECISION_NEEDED: 5,
            End.TRANSCRIPT_ERROR: 7,
        }
        return codes.get(self.end, 1)
