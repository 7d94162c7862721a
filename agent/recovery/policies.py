"""What can be decided about an interrupted action, and what a stated policy decides."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tools.verdict import Verdict


class Choice(StrEnum):
    """What shall become of an interrupted action; `choice` in `recovery_decided` records."""

    KEEP = "keep"  # it happened: go on from there
    USE = "use"  # take its result as if it had come in time
    VERIFY = "verify"  # the model looks before it does anything about it
    SKIP = "skip"  # leave it as it is, its result is not used
    REDO = "redo"  # run it again, as an action of its own
    REVERT = "revert"  # restore the content from before
    RESUME = "resume"  # let the interrupted child go on
    WAIT = "wait"  # until it ends, then use its result
    STOP = "stop"  # end it now
    SHOW = "show"  # look at the evidence; decides nothing


# Default first. `running` is never redone: the first copy is still at work.
CHOICES: Mapping[Verdict, tuple[Choice, ...]] = {
    Verdict.APPLIED: (Choice.KEEP, Choice.REVERT, Choice.VERIFY, Choice.SHOW),
    Verdict.NOT_APPLIED: (Choice.SKIP, Choice.REDO, Choice.SHOW),
    Verdict.NOT_STARTED: (Choice.SKIP, Choice.REDO, Choice.SHOW),
    Verdict.CHANGED_SINCE: (Choice.VERIFY, Choice.SKIP, Choice.REDO, Choice.SHOW),
    Verdict.UNKNOWN: (Choice.VERIFY, Choice.SKIP, Choice.REDO, Choice.SHOW),
    Verdict.FINISHED: (Choice.USE, Choice.REDO, Choice.SHOW),
    Verdict.KILLED: (Choice.USE, Choice.REDO, Choice.SHOW),
    Verdict.COMPLETED: (Choice.USE, Choice.REDO, Choice.SHOW),
    Verdict.RUNNING: (Choice.WAIT, Choice.STOP, Choice.SHOW),
    Verdict.INTERRUPTED: (Choice.RESUME, Choice.USE, Choice.SKIP, Choice.SHOW),
    Verdict.NO_EFFECT: (Choice.SKIP, Choice.REDO),
}


class Policy(StrEnum):
    """`--on-uncertain`: what happens to undecided actions when nobody is asked."""

    ASK = "ask"  # on a terminal; without one the same as FAIL
    VERIFY = "verify"
    SKIP = "skip"
    REDO_SAFE = "redo-safe"
    FAIL = "fail"


_REDONE = frozenset({Verdict.NO_EFFECT, Verdict.NOT_STARTED, Verdict.NOT_APPLIED})


def choice_by_policy(policy: Policy, verdict: Verdict) -> Choice | None:
    """What a policy chooses; None when it leaves the action undecided (`ask` without a user, `fail`).

    `no_effect` needs no decision of anybody: the action may be asked for again.
    """
    if policy is Policy.REDO_SAFE and verdict in _REDONE:
        return Choice.REDO
    if verdict is Verdict.NO_EFFECT:
        return Choice.SKIP
    if policy in (Policy.ASK, Policy.FAIL):
        return None
    if policy is Policy.SKIP:
        return Choice.STOP if verdict is Verdict.RUNNING else Choice.SKIP
    default = CHOICES[verdict][0]
    # A policy runs nothing again: to let a child go on is for the user to say.
    return Choice.USE if default is Choice.RESUME else default
