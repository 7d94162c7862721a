"""What the model is told after a crash. Never "failed" or "did not complete" where that is not known."""

from __future__ import annotations

from collections.abc import Sequence

from agent.recovery.investigate import Investigated
from agent.recovery.lost import LostCommand
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
    Choice.REDO: "It was to be run again. What came of that:",
    Choice.REVERT: "It was to be taken back. What came of that:",
    Choice.RESUME: "It was to go on. What came of that:",
    Choice.WAIT: "Take this as the result of the call.",
    Choice.STOP: "It was stopped. It may have done part of its work: check before you go on.",
}

# What was decided, where the next crash came before it was carried out.
_NOT_BEGUN = {
    Choice.REDO: "It was to be run again, but that did not begin.",
    Choice.REVERT: "It was to be taken back, but that did not begin.",
    Choice.RESUME: "It was to go on, but that did not begin.",
}


def told_result(
    verdict: Verdict, evidence_text: str, choice: Choice, result: str | None, *, of_revert: bool = False
) -> str:
    """The tool message of an interrupted action: verdict, evidence, what to do, and its real result if there is one.

    `of_revert`: the action was the attempt to take the call's change back.
    """
    name = verdict.value.replace("_", " ")
    at_work = "its change was being taken back" if of_revert else "this call was at work"
    lines = [f"{MARK} The session was interrupted while {at_work}.", f"Verdict: {name}: {evidence_text}."]
    if of_revert and choice is Choice.KEEP:
        lines.append("The user did not want the change: do not make it again unless they ask for it.")
    elif verdict is Verdict.NO_EFFECT:
        lines.append("Its result is not known. Ask for it again if it is still wanted.")
    elif result is None and choice in _NOT_BEGUN:
        lines.append(_NOT_BEGUN[choice])
    else:
        lines.append(_ADVICE[choice])
    if result is not None and choice in _NOT_BEGUN:
        lines.append(result)
    elif result is not None and choice in (Choice.USE, Choice.WAIT):
        lines.append(f"Result:\n{result}")
    return "\n".join(lines)


def told_by_record(decision: JsonObject, result: str | None) -> str:
    """The same, from a decision that a record holds: a crash came between the decision and its message."""
    evidence = decision.get("evidence")
    facts = evidence if isinstance(evidence, dict) else {}
    verdict, choice = Verdict(str(decision["verdict"])), Choice(str(decision["choice"]))
    return told_result(verdict, str(facts.get("text", "")), choice, result, of_revert=bool(facts.get("reverts")))


def told_attempt(decision: JsonObject, result: str, *, failed: bool) -> str | None:
    """The tool message of a second attempt that a decision began; None when its result says all.

    The result alone would hide what the first attempt did, where the second is something else or came to nothing.
    """
    evidence = decision.get("evidence")
    if isinstance(evidence, dict) and evidence.get("reverts"):
        return told_by_record(decision, result)
    had_no_effect = str(decision["verdict"]) in (Verdict.NO_EFFECT, Verdict.NOT_STARTED, Verdict.NOT_APPLIED)
    if decision["choice"] == Choice.REDO and (not failed or had_no_effect):
        return None
    return told_by_record(decision, result)


def told_lost(lost: LostCommand) -> str:
    """What became of a background command, in one sentence: for the model and for the user."""
    title = lost.command.title
    if lost.is_of_parent:
        return f"The background command {title} is none of this session: {lost.finding.text}."
    what = f"What the command {title} left running" if lost.command.is_left_over else f"The background command {title}"
    if lost.is_over:
        return f"{what} does not run any more: {lost.finding.text}."
    return f"{what} has not ended: {lost.finding.text}."


def recovery_note(
    damage: Sequence[Damage],
    changed_files: Sequence[str],
    *,
    has_restarted: bool,
    without_call: Sequence[Investigated],
    lost: Sequence[LostCommand] = (),
    missing_directory: str | None = None,
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
    if missing_directory:
        parts.append(
            f"The directory {missing_directory}, in which commands were run, is gone: the next one starts in the "
            "workspace. Check that it fits there."
        )
    for one in without_call:
        parts.append(
            f"An interrupted {one.action.tool_name} from before: {one.finding.verdict.value.replace('_', ' ')}: "
            f"{one.finding.text}."
        )
    parts += [told_lost(one) for one in lost]
    if any(one.is_over and not one.is_of_parent for one in lost):
        parts.append("BashOutput shows what they wrote. Start again what is still needed.")
    return f"{MARK} " + "\n".join(parts) if parts else ""
