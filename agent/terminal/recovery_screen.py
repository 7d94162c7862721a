"""What a resume found, in plain lines: for the terminal, for stderr and for `recover`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agent.recovery.investigate import Investigated
from agent.recovery.policies import Choice
from agent.terminal.clock import clock_time
from agent.terminal.printable import printable
from memory.lease import Owner
from memory.reader import Damage, describe
from memory.state import ResumeState
from tools.verdict import Verdict

SUBJECT_CHARACTERS_MAX = 300
DRAFT_CHARACTERS_MAX = 2000


def summary_lines(state: ResumeState, owner: Owner | None, *, is_live: bool = False) -> list[str]:
    """What session this is, where it stopped, and who held it."""
    name = f" ({state.name})" if state.name else ""
    run = state.run
    end = (
        "no run yet"
        if run is None
        else f"last run ended: {run.ended}"
        if run.ended
        else "the last run has no end record"
    )
    last = f"last record {clock_time(state.last_timestamp)}, " if state.last_timestamp else ""
    lines = [f"Session {state.session_id}{name}: {last}{end}. {_counts(state)}."]
    if owner is not None and is_live:
        lines.append(f"It is live: process {owner.pid} is working in it.")
    elif owner is not None and (run is None or run.ended is None):
        lines.append(f"Owner was pid {owner.pid}, not running.")
    return lines


def damage_lines(damage: Sequence[Damage]) -> list[str]:
    """One line for each finding: what and where."""
    return [f"Transcript {describe(one)}." for one in damage]


def action_lines(items: Sequence[Investigated]) -> list[str]:
    """Every uncertain action by name, arguments and time, with verdict and evidence."""
    if not items:
        return []
    one = len(items) == 1
    lines = [
        f"{len(items)} action{'' if one else 's'} {'has' if one else 'have'} no recorded result. Nothing was repeated."
    ]
    for number, item in enumerate(items, 1):
        lines.extend(_item_lines(f"[{number}]", item))
    return lines


def decision_lines(items: Sequence[Investigated]) -> list[str]:
    """What was decided about them."""
    return [
        f"[{number}] {item.action.tool_name}: {item.finding.verdict.value}, decided: {item.decision.value}"
        for number, item in enumerate(items, 1)
        if item.decision is not None
    ]


def evidence_lines(item: Investigated) -> list[str]:
    """Everything that is known of one action, for `show`."""
    lines = [printable(f"{item.action.tool_name} {item.action.arguments or ''}"), f"started {item.action.started_at}"]
    lines += [printable(f"{key}: {value}") for key, value in item.finding.evidence().items()]
    return lines


def draft_lines(text: str) -> list[str]:
    """The part of an answer that had come before the crash."""
    text = printable(text)
    shown = text if len(text) <= DRAFT_CHARACTERS_MAX else "…" + text[-DRAFT_CHARACTERS_MAX:]
    return ["The answer that was cut off had come to here:", *(f"  {line}" for line in shown.splitlines())]


def subject_of(arguments: str | None) -> str:
    """The arguments in one line: the text of the first, or all of them as they are."""
    if arguments is None:
        return "(arguments not recorded)"
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        found = None
    texts = [value for value in found.values() if isinstance(value, str)] if isinstance(found, dict) else []
    line = " ".join(printable(texts[0] if texts else arguments).split())
    return line if len(line) <= SUBJECT_CHARACTERS_MAX else line[: SUBJECT_CHARACTERS_MAX - 1] + "…"


def _item_lines(mark: str, item: Investigated) -> list[str]:
    verdict = item.finding.verdict.value.replace("_", " ").upper()
    lines = [
        f"{mark} {item.action.tool_name}  {subject_of(item.action.arguments)}",
        f"      {verdict}: {printable(item.finding.text)}",
        f"      started {clock_time(item.action.started_at)}{_choices(item)}",
    ]
    for child in item.children:
        lines.extend(f"    {line}" for line in _item_lines("·", child))
    return lines


def _choices(item: Investigated) -> str:
    if item.finding.verdict is Verdict.NO_EFFECT:
        return ", may be asked for again"
    first, *others = [choice.value for choice in item.choices if choice is not Choice.SHOW]
    return f"; {first} (default) · {' · '.join([*others, Choice.SHOW.value])}"


def _counts(state: ResumeState) -> str:
    steps, files = state.steps, len(state.files_changed)
    return f"{steps} step{'' if steps == 1 else 's'}, {files} file{'' if files == 1 else 's'} changed"
