"""BashOutput: what a background command has written since the last look, and how it stands with it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from tools.background import BackgroundCommand, BackgroundCommands
from tools.base import Action, Plan, Tool, ToolParams, ToolResult


class BashOutputParams(ToolParams):
    bash_id: str = Field(description="The id that Bash gave, such as bash-1.")


@dataclass(frozen=True, kw_only=True)
class BashOutputPlan(Plan):
    command: BackgroundCommand


class BashOutput(Tool[BashOutputParams, BashOutputPlan]):
    name = "BashOutput"
    description = (
        "Returns what a background command has written since the last call, and whether it still runs. It never "
        "waits: when there is nothing new yet, do something else first. Works for left-over processes of finished "
        "commands too."
    )
    replay_safe = True
    params = BashOutputParams

    def __init__(self, background: BackgroundCommands) -> None:
        self._background = background

    async def plan(self, params: BashOutputParams) -> BashOutputPlan:
        return BashOutputPlan(params.bash_id, command=self._background.find(params.bash_id))

    async def act(self, plan: BashOutputPlan, action: Action) -> ToolResult:
        del action
        return plan.command.look()
