"""What can be decided of an interrupted action, what each decision does, and what the model is told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.events import ToolOutput
from agent.host import CodeAgent
from agent.permissions import Mode
from agent.recovery.investigate import Investigated
from agent.recovery.policies import CHOICES, Choice, Policy, choice_by_policy
from agent.recovery.settle import DecisionNeeded, PolicyDecider
from agent.recovery.words import MARK, NOT_STARTED, recovery_note, told_result
from agent.tool_runner import UNANSWERED
from memory.events import End
from memory.reader import Damage
from tests.kit.in_process import FailingDisk, Someone, Watcher, go_on, run, until_crash
from tests.kit.request import Request
from tests.kit.script import Call, Reply, Script, call, say
from tests.kit.transcript import breaches, transitions
from tools.verdict import Verdict

# -- the table of verdicts and choices

TABLE: Mapping[Verdict, str] = {
    Verdict.APPLIED: "keep · revert · verify · show",
    Verdict.NOT_APPLIED: "skip · redo · show",
    Verdict.NOT_STARTED: "skip · redo · show",
    Verdict.CHANGED_SINCE: "verify · skip · redo · show",
    Verdict.UNKNOWN: "verify · skip · redo · show",
    Verdict.FINISHED: "use · redo · show",
    Verdict.KILLED: "use · redo · show",
    Verdict.COMPLETED: "use · redo · show",
    Verdict.RUNNING: "wait · stop · show",
    Verdict.INTERRUPTED: "resume · use · skip · show",
    Verdict.NO_EFFECT: "skip · redo",
}


def test_every_verdict_has_the_choices_of_the_table_default_first() -> None:
    assert {verdict: " · ".join(choices) for verdict, choices in CHOICES.items()} == dict(TABLE)
    assert set(TABLE) == set(Verdict)


POLICIES = "verify skip redo-safe ask"
DECIDED: Mapping[Verdict, str] = {  # by the four policies above; `-`: left undecided
    Verdict.APPLIED: "keep skip keep -",
    Verdict.NOT_APPLIED: "skip skip redo -",
    Verdict.NOT_STARTED: "skip skip redo -",
    Verdict.CHANGED_SINCE: "verify skip verify -",
    Verdict.UNKNOWN: "verify skip verify -",
    Verdict.FINISHED: "use skip use -",
    Verdict.KILLED: "use skip use -",
    Verdict.COMPLETED: "use skip use -",
    Verdict.RUNNING: "wait stop wait -",
    Verdict.INTERRUPTED: "use skip use -",
    Verdict.NO_EFFECT: "skip skip redo skip",
}


def test_what_each_policy_decides_of_each_verdict() -> None:
    policies = [Policy(word) for word in POLICIES.split()]
    decided = {
        verdict: " ".join(choice_by_policy(policy, verdict) or "-" for policy in policies) for verdict in Verdict
    }
    assert decided == dict(DECIDED)
    assert all(choice_by_policy(Policy.FAIL, v) == choice_by_policy(Policy.ASK, v) for v in Verdict)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("verdict", list(Verdict))
def test_no_policy_chooses_what_the_verdict_does_not_allow_or_runs_an_effect_again(
    policy: Policy, verdict: Verdict
) -> None:
    choice = choice_by_policy(policy, verdict)
    assert choice in (None, Choice.SKIP, *CHOICES[verdict])  # skip settles whatever it is, if that is the policy
    if choice in (Choice.REDO, Choice.REVERT, Choice.RESUME):
        assert policy is Policy.REDO_SAFE
        assert verdict in (Verdict.NO_EFFECT, Verdict.NOT_STARTED, Verdict.NOT_APPLIED)


# -- words


def test_what_the_model_is_told_holds_verdict_evidence_advice_and_the_result_where_it_is_to_be_used() -> None:
    assert told_result(Verdict.FINISHED, "exit 1 at 14:04:07", Choice.USE, "3 failed").splitlines() == [
        f"{MARK} The session was interrupted while this call was at work.",
        "Verdict: finished: exit 1 at 14:04:07.",
        "Take this as the result of the call, and do not run it again without need.",
        "Result:",
        "3 failed",
    ]
    assert "3 failed" not in told_result(Verdict.FINISHED, "exit 1", Choice.SKIP, "3 failed")
    assert "Its result is not known" in told_result(Verdict.NO_EFFECT, "it only reads", Choice.SKIP, None)


def test_there_is_no_note_when_there_is_nothing_to_say() -> None:
    assert recovery_note([], [], has_restarted=False, without_call=[]) == ""


def test_the_note_names_the_restart_the_hole_and_the_changed_files() -> None:
    hole = Damage("corrupt", 21, 900, 40, text="damaged record")
    note = recovery_note([hole], ["a.txt", "b.txt"], has_restarted=True, without_call=[])
    assert note.startswith(MARK)
    assert [word in note for word in ("restarted", "damaged record (line 21)", "a.txt, b.txt")] == [True] * 3


# -- each verdict with its choices, from a real crash

EDIT = Call("Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"})
BASH = Call("Bash", {"command": "echo once >> done.txt; echo said"})
CALLS: Mapping[str, Call] = {"Edit": EDIT, "Bash": BASH, "Glob": Call("Glob", {"pattern": "*"})}


class Case:
    """A session in which one call was cut short before, or right after, it did its work."""

    def __init__(self, folder: Path, tool: str, *, acted: bool) -> None:
        steps = [Reply(calls=(Call("Read", {"file_path": "a.txt"}),)), Reply(calls=(CALLS[tool],)), say("done")]
        script: Script = {"do it": steps, "and now": [say("went on")]}
        self.one = Someone(folder, script)
        self.one.file("a.txt", "old\n")
        twin = Someone(folder / "twin", script)
        twin.file("a.txt", "old\n")
        run(twin.start(), "do it")
        records = twin.records(twin.only_session())
        started = next(i for i, record in enumerate(records, 1) if record.is_action("started", tool))
        disk = FailingDisk(crash_at=started + 1) if acted else FailingDisk(crash_after=started)
        agent = CodeAgent.start(self.one.with_services(disk=disk).services, ())
        until_crash(agent, agent.run("do it"))
        self.one.with_services(disk=FailingDisk())
        self.session_id = agent.session_id
        self.tool = tool

    def settled(self, choice: Choice) -> tuple[Verdict, str]:
        """Resume, take this choice, go on: the verdict, and what the model was told of the call."""
        agent = self.one.resume(self.session_id)
        (item,) = agent.uncertain
        result = go_on(agent, Chosen(choice))
        assert (result.end, result.response) == (End.COMPLETED, "done")
        assert breaches(self.one.files(self.session_id).transcript) == []
        assert self.one.provider.invalid == []
        decided = transitions(self.one.records(self.session_id), "recovery_decided")
        assert [(one["action_id"], one["choice"]) for one in decided] == [(item.action.action_id, choice.value)]
        assert decided[0]["evidence"]["text"]
        return item.finding.verdict, self.newest().result_of(self.tool)

    def newest(self) -> Request:
        return self.one.provider.requests[-1]

    def effects(self) -> tuple[str, int]:
        """The file, and how often the command ran."""
        done = self.one.workspace / "done.txt"
        return (self.one.workspace / "a.txt").read_text(), done.read_text().count("once") if done.exists() else 0


class Chosen:
    """Decides every action in the same way."""

    def __init__(self, choice: Choice | None) -> None:
        self._choice = choice

    async def decide(self, _item: Investigated) -> Choice | None:
        return self._choice


@pytest.mark.parametrize(
    ("choice", "told", "text"),
    [
        (Choice.KEEP, "go on from it", "new\n"),
        (Choice.VERIFY, "Check what is really there", "new\n"),
        (Choice.REVERT, "taken back", "old\n"),
    ],
)
def test_an_applied_edit(tmp_path: Path, choice: Choice, told: str, text: str) -> None:
    case = Case(tmp_path, "Edit", acted=True)
    verdict, result = case.settled(choice)
    assert (verdict, case.effects()[0]) == (Verdict.APPLIED, text)
    assert told in result and "Verdict: applied" in result


@pytest.mark.parametrize(("choice", "text"), [(Choice.SKIP, "old\n"), (Choice.REDO, "new\n")])
def test_an_edit_that_was_not_applied(tmp_path: Path, choice: Choice, text: str) -> None:
    case = Case(tmp_path, "Edit", acted=False)
    verdict, result = case.settled(choice)
    assert (verdict, case.effects()[0]) == (Verdict.NOT_APPLIED, text)
    assert ("not applied" in result) == (choice is Choice.SKIP)


def test_an_edit_of_a_file_that_somebody_changed_since(tmp_path: Path) -> None:
    case = Case(tmp_path, "Edit", acted=True)
    case.one.file("a.txt", "theirs\n")
    verdict, result = case.settled(Choice.VERIFY)
    assert (verdict, case.effects()[0]) == (Verdict.CHANGED_SINCE, "theirs\n")
    assert "Check what is really there" in result


@pytest.mark.parametrize(("choice", "count", "told"), [(Choice.USE, 1, "said"), (Choice.REDO, 2, "said")])
def test_a_finished_command(tmp_path: Path, choice: Choice, count: int, told: str) -> None:
    case = Case(tmp_path, "Bash", acted=True)
    verdict, result = case.settled(choice)
    assert (verdict, case.effects()[1]) == (Verdict.FINISHED, count)
    assert told in result


@pytest.mark.parametrize(("choice", "count"), [(Choice.SKIP, 0), (Choice.REDO, 1)])
def test_a_command_that_was_never_started(tmp_path: Path, choice: Choice, count: int) -> None:
    case = Case(tmp_path, "Bash", acted=False)
    verdict, result = case.settled(choice)
    assert (verdict, case.effects()[1]) == (Verdict.NOT_STARTED, count)
    assert ("never started" in result) == (choice is Choice.SKIP)


def test_a_read_that_was_cut_short_has_no_effect_and_needs_no_decision(tmp_path: Path) -> None:
    case = Case(tmp_path, "Glob", acted=False)
    agent = case.one.resume(case.session_id)
    assert [(item.finding.verdict, item.is_open) for item in agent.uncertain] == [(Verdict.NO_EFFECT, False)]
    result = go_on(agent, PolicyDecider(Policy.FAIL))  # nothing to decide: it goes on
    assert result.response == "done"
    assert "Its result is not known" in case.newest().result_of("Glob")


def test_a_read_that_was_cut_short_can_be_read_again(tmp_path: Path) -> None:
    case = Case(tmp_path, "Glob", acted=False)
    assert case.settled(Choice.REDO) == (Verdict.NO_EFFECT, "a.txt")


@pytest.mark.parametrize("policy", [Policy.ASK, Policy.FAIL])
def test_an_action_with_an_effect_is_left_to_the_user_and_nothing_is_settled(tmp_path: Path, policy: Policy) -> None:
    case = Case(tmp_path, "Bash", acted=True)
    agent = case.one.resume(case.session_id)
    before = len(case.one.records(case.session_id))

    async def act() -> None:
        with pytest.raises(DecisionNeeded):
            await agent.run("and now", decider=PolicyDecider(policy))

    asyncio.run(act())
    assert len(case.one.records(case.session_id)) == before
    assert agent.owes
    run(agent)


def test_a_decision_settles_an_action_for_every_later_resume(tmp_path: Path) -> None:
    case = Case(tmp_path, "Bash", acted=True)
    case.settled(Choice.USE)
    again = case.one.resume(case.session_id)
    assert again.uncertain == []
    run(again, "and now")
    assert case.effects()[1] == 1


def test_a_redone_call_goes_through_the_permission_gate(tmp_path: Path) -> None:
    case = Case(tmp_path, "Bash", acted=False)
    case.one.with_services(mode=Mode.ASK)
    _, result = case.settled(Choice.REDO)
    assert (result, case.effects()[1]) == (UNANSWERED, 0)


@pytest.mark.parametrize("choice", [Choice.REDO, Choice.REVERT])
def test_a_crash_right_behind_a_decision_never_has_the_model_told_that_it_was_carried_out(
    tmp_path: Path, choice: Choice
) -> None:
    case = Case(tmp_path, "Edit", acted=choice is Choice.REVERT)
    agent = case.one.with_services(disk=FailingDisk(crash_after=2)).resume(case.session_id)
    until_crash(agent, agent.continue_run(decider=Chosen(choice)))
    assert transitions(case.one.records(case.session_id), "recovery_decided")[0]["choice"] == choice.value
    text = case.effects()[0]
    go_on(case.one.with_services(disk=FailingDisk()).resume(case.session_id))
    assert "did not begin" in case.newest().result_of("Edit")
    assert case.effects()[0] == text


def test_a_crash_before_a_redo_starts_leaves_the_first_attempt_what_it_was(tmp_path: Path) -> None:
    """The command had run; that its second attempt was asked for must not read as if nothing had happened."""
    case = Case(tmp_path, "Bash", acted=True)
    agent = case.one.with_services(disk=FailingDisk(crash_after=3)).resume(
        case.session_id
    )  # opened, decided, requested
    until_crash(agent, agent.continue_run(decider=Chosen(Choice.REDO)))
    go_on(case.one.with_services(disk=FailingDisk()).resume(case.session_id))
    told = case.newest().result_of("Bash")
    assert [part in told for part in ("had no effect", "Verdict: finished", "did not begin")] == [False, True, True]
    assert case.effects()[1] == 1


def test_an_interrupted_redo_is_not_run_once_more_by_the_next_prompt(tmp_path: Path) -> None:
    """The user chose redo, thought better of it, and typed on."""
    slow = "echo once >> done.txt; echo begun; sleep 60"
    script = {"do it": [Reply(calls=(Call("Bash", {"command": slow}),)), say("done")], "and now": [say("went on")]}
    one = Someone(tmp_path / "slow", script)
    agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_after=7)).services, ())
    until_crash(agent, agent.run("do it"))
    has_begun = Watcher(lambda event: isinstance(event.payload, ToolOutput), lambda: again.interrupt(End.INTERRUPTED))
    again = one.with_services(disk=FailingDisk()).resume(agent.session_id, has_begun)
    assert [item.finding.verdict for item in again.uncertain] == [Verdict.NOT_STARTED]

    async def play() -> str:
        assert (await again.run("and now", decider=Chosen(Choice.REDO))).end is End.INTERRUPTED
        result = await again.run("and now", decider=Chosen(Choice.REDO))
        await again.close("completed")
        return result.response

    assert asyncio.run(play()) == "went on"
    assert (one.workspace / "done.txt").read_text() == "once\n"
    state = one.load(agent.session_id)
    assert list(again.history_manager.messages) == list(state.history_messages)
    assert (one.provider.invalid, state.missing_results) == ([], ())


# -- a command that still runs


@pytest.mark.parametrize(
    ("choice", "verdict", "told"), [(Choice.WAIT, "finished", "said"), (Choice.STOP, "killed", "It was stopped")]
)
def test_a_command_that_still_runs_is_waited_for_or_stopped_and_never_redone(
    tmp_path: Path, choice: Choice, verdict: str, told: str
) -> None:
    go = tmp_path / "go"
    command = f"echo once >> done.txt; echo begun; until [ -e {go} ]; do sleep 0.05; done; echo said"
    script = {"do it": [Reply(calls=(Call("Bash", {"command": command}),)), say("done")]}
    one = Someone(tmp_path, script)
    session_id = killed_while_running(one, go)
    agent = one.resume(session_id)
    (item,) = agent.uncertain
    assert item.finding.verdict is Verdict.RUNNING

    async def act() -> str:
        if choice is Choice.WAIT:
            asyncio.get_running_loop().call_later(0.1, go.touch)
        result = await agent.continue_run(decider=Chosen(choice))
        await agent.close("completed")
        return result.response

    assert asyncio.run(act()) == "done"
    result = one.provider.requests[-1].result_of("Bash")
    assert f"Verdict: {verdict}" in result and told in result
    assert (one.workspace / "done.txt").read_text() == "once\n"


def killed_while_running(one: Someone, go: Path) -> str:
    """Start the session in a process of its own, which kills itself once its command has said that it runs."""
    pid = os.fork()
    if pid == 0:
        is_output = Watcher(lambda event: isinstance(event.payload, ToolOutput), lambda: os.kill(0, signal.SIGKILL))
        os.setpgid(0, 0)
        asyncio.run(one.start(is_output).run("do it"))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert not go.exists()
    return one.only_session()


# -- a draft and a hole


def test_the_part_of_an_answer_that_was_on_the_screen_is_kept_when_a_prompt_follows_and_not_when_the_run_goes_on(
    tmp_path: Path,
) -> None:
    for action in ("prompt", "continue"):
        one = Someone(
            tmp_path / action, {"do it": [Reply("half of the answer", pieces=3)], "and now": [say("went on")]}
        )
        agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_at=4)).services, ())
        until_crash(agent, agent.run("do it"))
        one.with_services(disk=FailingDisk()).provider.script = {"do it": [say("whole")], "and now": [say("went on")]}
        again = one.resume(agent.session_id)
        assert again.report is not None and again.report.draft is not None
        assert again.report.draft.text == "half of the answer"
        if action == "prompt":
            run(again, "and now")
            assert one.provider.requests[-1].texts("user", "assistant") == ["do it", "half of the answer", "and now"]
        else:
            assert go_on(again).response == "whole"
            assert one.provider.requests[-1].texts("user", "assistant") == ["do it"]
        assert one.load(agent.session_id).draft is None
        assert one.provider.invalid == []


def test_a_hole_in_the_transcript_is_told_to_the_model_once(tmp_path: Path) -> None:
    one = Someone(tmp_path, {})
    agent = one.start()
    run(agent, "first", "second")
    path = one.files(agent.session_id).transcript
    lines = path.read_bytes().split(b"\n")
    place = next(i for i, line in enumerate(lines) if b'"content":"second"' in line)
    lines[place] = lines[place][:60]
    path.write_bytes(b"\n".join(lines))
    for prompt in ("third", "fourth"):
        run(one.resume(agent.session_id), prompt)
    notes = [text for text in one.provider.requests[-1].texts("user") if "has a hole" in text]
    assert len(notes) == 1 and f"(line {place + 1})" in notes[0]
    assert one.provider.invalid == []


def test_a_call_that_never_started_may_be_asked_for_again(tmp_path: Path) -> None:
    case = Someone(tmp_path, {"do it": [call("Bash", {"command": "echo once >> done.txt"}), say("done")]})
    agent = CodeAgent.start(case.with_services(disk=FailingDisk(crash_at=7)).services, ())
    until_crash(agent, agent.run("do it"))
    again = case.with_services(disk=FailingDisk()).resume(agent.session_id)
    assert (again.uncertain, len(again.report.state.pending_tool_calls) if again.report else 0) == ([], 1)
    assert go_on(again).response == "done"
    assert case.provider.requests[-1].result_of("Bash") == NOT_STARTED
