"""Asks each interrupted action's own tool what became of it. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.recovery.policies import CHOICES, Choice
from memory.events import JsonObject
from memory.state import UncertainAction
from tools.registry import ToolRegistry
from tools.verdict import Finding, Verdict


@dataclass(frozen=True)
class Investigated:
    """An uncertain action with its verdict, its evidence, and the decision once there is one."""

    session_id: str
    action: UncertainAction
    finding: Finding
    decision: Choice | None = None
    children: tuple[Investigated, ...] = ()  # a Task's own uncertain actions

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What can be decided, the default first. Reverting needs the content from before, which may not be kept."""
        choices = CHOICES[self.finding.verdict]
        if self.finding.facts.get("revertible", True):
            return choices
        return tuple(choice for choice in choices if choice is not Choice.REVERT)

    @property
    def is_open(self) -> bool:
        """Does it wait for a decision? What has no effect does not count (exit code 5)."""
        return self.decision is None and self.finding.verdict is not Verdict.NO_EFFECT

    def decided(self, choice: Choice, finding: Finding | None = None) -> Investigated:
        return replace(self, decision=choice, finding=finding or self.finding)

    def as_json(self) -> JsonObject:
        """The action as JSON output has it."""
        return {
            "session_id": self.session_id,
            "run_id": self.action.run_id,
            "step": self.action.step,
            "tool_name": self.action.tool_name,
            "tool_call_id": self.action.tool_call_id,
            "action_id": self.action.action_id,
            "started_at": self.action.started_at,
            "arguments": _arguments(self.action.arguments),
            "replay_allowed": self.action.replay_allowed,
            "verdict": self.finding.verdict.value,
            "evidence": self.finding.evidence(),
            "choices": [choice.value for choice in self.choices],
            "decision": self.decision.value if self.decision else None,
            "children": [child.as_json() for child in self.children],
        }


class Investigator:
    """Looks at the world with the tools' probes. `place` gives the folder of an action's outputs."""

    def __init__(
        self,
        session_id: str,
        registry: ToolRegistry,
        place: Callable[[str], Path],
        children_of: Callable[[UncertainAction], Sequence[Investigated]] = lambda _action: (),
    ) -> None:
        self._session_id = session_id
        self._registry = registry
        self._place = place
        self._children_of = children_of

    def investigate(self, actions: Sequence[UncertainAction]) -> list[Investigated]:
        return [
            Investigated(self._session_id, action, self.finding(action), children=tuple(self._children_of(action)))
            for action in actions
        ]

    def finding(self, action: UncertainAction) -> Finding:
        """The verdict on one action, as the world is now."""
        tool = self._registry.get(action.tool_name)
        if tool is None:
            return Finding(Verdict.UNKNOWN, f"there is no tool {action.tool_name} here that could look")
        if not action.payload and not action.replay_allowed:
            return Finding(Verdict.UNKNOWN, "its record does not say what it was about to do")
        return tool.probe(dict(action.payload), self._place(action.action_id))

    def seal(self, actions: Sequence[UncertainAction]) -> None:
        """Make the coming verdicts final. Only under the session's lease."""
        for action in actions:
            tool = self._registry.get(action.tool_name)
            if tool is not None and action.payload:
                tool.seal(dict(action.payload), self._place(action.action_id))


def _arguments(text: str | None) -> object:
    """The arguments as an object where the model wrote one, else its text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
