"""KillBash: ends a background command, or what a finished one left behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from tools.background import BackgroundCommand, BackgroundCommands
from tools.base import Action, Plan, Tool, ToolParams, ToolResult
from tools.evidence import probe_background, stop_running, wait_until_stopped
from tools.verdict import Finding, Json


class KillBashParams(ToolParams):
    bash_id: str = Field(description="The id that Bash gave, such as bash-1.")


@dataclass(frozen=True, kw_only=True)
class KillBashPlan(Plan):
    command: BackgroundCommand

    @property
    def target(self) -> str:
        return self.command.bash_id


class KillBash(Tool[KillBashParams, KillBashPlan]):
    name = "KillBash"
    description = (
        "Ends a background command with all its processes (TERM, and after two seconds KILL) and returns the last of "
        "its output. Works for left-over processes of finished commands too."
    )
    params = KillBashParams

    def __init__(self, background: BackgroundCommands) -> None:
        self._background = background

    async def plan(self, params: KillBashParams) -> KillBashPlan:
        command = self._background.find(params.bash_id)
        nothing_to_do = command.look() if command.state().is_over else None
        return KillBashPlan(
            command.title, preview=f"end {command.command}", nothing_to_do=nothing_to_do, command=command
        )

    async def intent(self, plan: KillBashPlan, action: Action) -> dict[str, Json]:
        del action
        return {"bash_id": plan.command.bash_id, "command_action_id": plan.command.place.name}

    async def act(self, plan: KillBashPlan, action: Action) -> ToolResult:
        del action
        await plan.command.stop()
        return plan.command.look()

    # After a crash the command itself tells: its supervisor ends it when the agent dies, if not before.

    def probe(self, intent: dict[str, Json], place: Path) -> Finding:
        finding = probe_background(_place_of(intent, place))
        return replace(finding, text=f"the command that it was to end: {finding.text}")

    def recall(self, intent: dict[str, Json], place: Path) -> ToolResult | None:
        return BackgroundCommand(str(intent.get("bash_id", "")), "", _place_of(intent, place)).look()

    async def await_end(self, intent: dict[str, Json], place: Path, *, stop: bool) -> None:
        await (stop_running if stop else wait_until_stopped)(_place_of(intent, place))


def _place_of(intent: dict[str, Json], place: Path) -> Path:
    """Where the command that was to be ended keeps its files: beside those of the action that was to end it."""
    return place.parent / Path(str(intent.get("command_action_id", ""))).name
