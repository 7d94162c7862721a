"""What the model is told after a crash. Never "failed" or "did not complete" where that is not known."""

from __future__ import annotations

from collections.abc import Sequence

from agent.recovery.investigate import Investigated
from agent.recovery.policies import Choice
from memory.events import JsonObject
from memory.reader import Damage
from tools.verdict import Verdict

MARK = "[Recovery]"

NOT_STARTED = (
    f"{MARK} Not run: the session was interrupted before this call started. It had no effect; ask for it again if it "
    "is still wanted."
)

_ADVICE = {
    Choice.KEEP: "The change is there: go on from it and do not make it again.",
    Choice.USE: "Take this as the result of the call, and do not run it again without need.",
    Choice.VERIFY: "Check what is really there before you do anything about it; do not simply repeat it.",
    Choice.SKIP: "It is left as it is. Do not repeat it unless the user asks for it.",
    Choice.REVERT: "The user had it taken back:",
    Choice.RESUME: "The user let it go on:",
    Choice.WAIT: "Take this as the result of the call.",
    Choice.STOP: "It was stopped. It may have done part of its work: check before you go on.",
    # Told only where the next crash came between this decision and the new attempt.
    Choice.REDO: "It was to be run again, but that did not begin. Ask for it again if it is still wanted.",
}


def told_result(verdict: Verdict, evidence_text: str, choice: Choice, result: str | None) -> str:
    """The tool message of an interrupted action: verdict, evidence, what to do, and its real result if there is one."""
    name = verdict.value.replace("_", " ")
    lines = [f"{MARK} The session was interrupted while this call was at work.", f"Verdict: {name}: {evidence_text}."]
    if verdict is Verdict.NO_EFFECT:
        lines.append("Its result is not known. Ask for it again if it is still wanted.")
    else:
        lines.append(_ADVICE[choice])
    if result is not None and choice in (Choice.REVERT, Choice.RESUME):
        lines.append(result)
    elif result is not None and choice in (Choice.USE, Choice.WAIT):
        lines.append(f"Result:\n{result}")
    return "\n".join(lines)


def told_by_record(decision: JsonObject, result: str | None) -> str:
    """The same, from a decision that a record holds: a crash came between the decision and its message."""
    evidence = decision.get("evidence")
    text = str(evidence.get("text", "")) if isinstance(evidence, dict) else ""
    return told_result(Verdict(str(decision["verdict"])), text, Choice(str(decision["choice"])), result)


def recovery_note(
    damage: Sequence[Damage],
    changed_files: Sequence[str],
    *,
    has_restarted: bool,
    without_call: Sequence[Investigated],
) -> str:
    """What the model must know besides the results, as one message; '' when there is nothing."""
    parts: list[str] = []
    if has_restarted:
        parts.append("The machine has restarted since: processes are gone, and what was not on disk is lost.")
    if damage:
        where = "; ".join(f"{one.text or one.kind} (line {one.line})" for one in damage)
        parts.append(f"The record of this conversation has a hole: {where}. Messages or results may be missing there.")
    if changed_files:
        names = ", ".join(changed_files)
        parts.append(f"These files changed while you were away, so read them again before you edit them: {names}.")
    for one in without_call:
        parts.append(
            f"An interrupted {one.action.tool_name} from before: {one.finding.verdict.value.replace('_', ' ')}: "
            f"{one.finding.text}."
        )
    return f"{MARK} " + "\n".join(parts) if parts else ""
