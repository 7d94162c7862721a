"""What a resumed session found, as the recovery screen and the JSON objects show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.recovery.investigate import Investigated
from agent.recovery.lost import LostCommand
from memory.draft import Draft
from memory.events import JsonObject
from memory.lease import Owner
from memory.reader import Damage
from memory.state import ResumeState
from tools.verdict import Verdict


@dataclass(frozen=True)
class RecoveryReport:
    """Facts of one opening; what was decided since is not among them."""

    state: ResumeState
    damage: tuple[Damage, ...]
    changed_files: tuple[str, ...]
    has_restarted: bool  # the machine, since the user acted last
    missing_directory: str | None  # where commands would have gone on; it is gone
    owner: Owner | None
    background: tuple[LostCommand, ...] = ()

    @property
    def draft(self) -> Draft | None:
        return self.state.draft


def touched(items: Sequence[Investigated]) -> set[str]:
    """Files that an uncertain action may have changed: told with that action, not as somebody else's change."""
    return {str(item.action.payload.get("path")) for item in items if item.finding.verdict is not Verdict.NO_EFFECT}


def as_it_was(items: Sequence[Investigated], state: ResumeState) -> list[JsonObject]:
    """What was read of files that a change was not applied to: they hold it still, and the change can be redone."""
    known = state.runtime_state.read_cache
    paths = [str(item.action.payload.get("path")) for item in items if item.finding.verdict is Verdict.NOT_APPLIED]
    return [known[path] for path in paths if path in known]
