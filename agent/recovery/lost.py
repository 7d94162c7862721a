"""Background commands of an agent that is gone: what became of each, so that user and model are told once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from memory.events import JsonObject
from memory.state import RuntimeFacts
from tools.background import BackgroundCommand
from tools.evidence import probe_background, wait_until_stopped
from tools.verdict import Finding, Verdict

OF_PARENT = "of_parent"  # in the facts of a fork: it belongs to the session that was forked


@dataclass(frozen=True)
class LostCommand:
    """A background command, or what a finished one had left running, with what became of it."""

    command: BackgroundCommand
    finding: Finding
    is_of_parent: bool = False

    @property
    def is_over(self) -> bool:
        """Told once; what still runs is told again at the next resume."""
        return self.finding.verdict is not Verdict.RUNNING

    async def settled(self) -> LostCommand:
        """The same a few seconds later at most, when its supervisor has ended it."""
        if self.is_over:
            return self
        await wait_until_stopped(self.command.place)
        return replace(self, finding=probe_background(self.command.place))

    def as_json(self) -> JsonObject:
        return {
            "bash_id": self.command.bash_id,
            "command": self.command.command,
            "verdict": self.finding.verdict.value,
            "evidence": self.finding.evidence(),
        }


def find_lost(facts: RuntimeFacts, place: Callable[[str], Path]) -> tuple[LostCommand, ...]:
    """Those whose end nobody has been told. `place` gives the folder of an action's outputs. Changes nothing."""
    return tuple(_found(one, place) for one in facts.background.values())


def _found(facts: JsonObject, place: Callable[[str], Path]) -> LostCommand:
    command = BackgroundCommand(
        str(facts.get("bash_id")),
        str(facts.get("command")),
        place(str(facts.get("action_id"))),
        is_left_over=facts.get("left_over") is True,
    )
    if facts.get(OF_PARENT):
        text = "it belongs to the session that this one was forked from"
        return LostCommand(command, Finding(Verdict.UNKNOWN, text), is_of_parent=True)
    return LostCommand(command, probe_background(command.place))
