"""What a look at the world says about an action whose result was never recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class Verdict(StrEnum):
    """A closed list that records and programs rely on; each speaks about the moment of the look."""

    APPLIED = "applied"  # Edit, Write: the file has the planned content
    NOT_APPLIED = "not_applied"  # Edit, Write: the file has the content from before
    CHANGED_SINCE = "changed_since"  # Edit, Write: the file has neither content
    FINISHED = "finished"  # Bash: the command came to its own end
    KILLED = "killed"  # Bash: ended by a signal, or by its timeout
    RUNNING = "running"  # Bash, Task: still at work
    NOT_STARTED = "not_started"  # Bash, Task: certain never to have run, now or later
    COMPLETED = "completed"  # Task: the child came to its end
    INTERRUPTED = "interrupted"  # Task: the child was cut short too
    NO_EFFECT = "no_effect"  # replay-safe tools
    UNKNOWN = "unknown"  # cannot be proved either way


@dataclass(frozen=True)
class Finding:
    """A verdict with its evidence: one sentence for people, and facts for programs and for the decision."""

    verdict: Verdict
    text: str
    facts: Mapping[str, Json] = field(default_factory=dict)

    def evidence(self) -> dict[str, Json]:
        """The `evidence` object of records and JSON: `text` plus the facts."""
        return {"text": self.text, **self.facts}
