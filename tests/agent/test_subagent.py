"""A subagent: what its parent is told, what it may do, and how it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.errors import FailureKind
from agent.events import RuntimeEvent
from agent.host import CodeAgent
from agent.permissions import Answer, Mode, NobodyToAsk, Rule
from agent.recovery.policies import Policy
from agent.recovery.settle import PolicyDecider
from agent.state import Limits, RunResult
from memory.events import End, LifecyclePayload, Reason, ToolStatus, TransitionPayload
from tests.kit.in_process import Answers, FailingDisk, Someone, Watcher, failing, go_on, run, until_crash
from tests.kit.script import Call, Reply, Script, Step, call, say
from tests.kit.transcript import Record, breaches, transitions
from tools.verdict import Verdict

TASK = Call("Task", {"description": "a part", "prompt": "CHILD: do the part"})
BASH = call("Bash", {"command": "echo from the child > child.txt"})
WRITE = call("Write", {"file_path": "child.txt", "content": "from the child"})


def with_child(folder: Path, *child: Step, task: Call = TASK) -> Someone:
    script: Script = {"PARENT": [Reply(calls=(task,)), say("done")], "CHILD": list(child), "and now": [say("went on")]}
    return Someone(folder, script)


def told(one: Someone) -> str:
    """What the parent was told of the Task."""
    return one.provider.requests[-1].result_of("Task")


def outcome(one: Someone) -> Record:
    (found,) = [
        r for r in one.records(one.only_session()) if r.is_action("completed", "Task") or r.is_action("failed", "Task")
    ]
    return found


def child_of(one: Someone) -> str:
    (child,) = [session for session in one.memory.transcripts() if session.startswith("subagent-")]
    return child


def test_a_subagent_has_a_session_of_its_own_and_both_name_each_other(tmp_path: Path) -> None:
    one = with_child(tmp_path, WRITE, say("the part is done"))
    (result,) = run(one.start(), "PARENT")
    child = child_of(one)
    (opened,) = transitions(one.records(child), "session_opened")
    (started,) = [r for r in one.records(one.only_session()) if r.is_action("started", "Task")]
    assert (opened["parent_session"], opened["parent_call"], opened["parent_action"]) == (
        one.only_session(),
        started.payload["tool_call_id"],
        started.payload["action_id"],
    )
    assert started.payload["intent"]["child_session_id"] == child
    assert (result.response, told(one)) == ("done", "the part is done")
    assert breaches(one.files(child).transcript) == [] == one.provider.invalid


def test_a_subagent_has_no_subagents_and_an_exploring_one_changes_nothing(tmp_path: Path) -> None:
    """K35: children inherited the task tool."""
    explore = Call("Task", {"description": "d", "prompt": "CHILD", "subagent_type": "explore"})
    for task, tools in ((TASK, None), (explore, {"Read", "Glob", "Grep"})):
        one = with_child(tmp_path / str(tools), Reply(calls=(TASK,)), WRITE, say("tried"), task=task)
        run(one.start(), "PARENT")
        parent, child, *_ = one.provider.requests
        assert set(child.tool_names) == (tools or set(parent.tool_names) - {"Task"})
        asked = next(
            request for request in one.provider.requests if request.has("CHILD", "user") and len(request.messages) == 4
        )
        assert "There is no tool 'Task'" in asked.result_of("Task")
        assert (one.workspace / "child.txt").exists() == (tools is None)


@pytest.mark.parametrize(
    ("child", "limits", "code", "says"),
    [
        ([WRITE, say("the part is done")], Limits(), None, "the part is done"),
        ([WRITE, say("")], Limits(), None, "The subagent ended without an answer."),
        ([WRITE, failing(FailureKind.AUTHENTICATION, "Wrong key.")], Limits(), "REFUSED", "failed: Wrong key."),
        ([WRITE, Reply("so far so", pieces=3, cut_after_chunks=3)], Limits(), "REFUSED", "failed: the scripted"),
        ([WRITE] * 3, Limits(tokens_max=1), "LIMIT", "failed: token_budget"),
    ],
)  # fmt: skip
def test_what_the_parent_is_told_of_each_end_of_a_child(
    tmp_path: Path, child: list[Step], limits: Limits, code: str | None, says: str
) -> None:
    """K34: a child that failed was reported as done, with its work lost."""
    one = with_child(tmp_path, *child).with_services(limits=limits)
    run(one.start(), "PARENT")
    found = outcome(one).payload
    assert ((found.get("error") or {}).get("code"), says in found["result"]) == (code, True)
    if code is not None:
        assert f"Files that it changed: {one.workspace / 'child.txt'}." in found["result"]
        assert child_of(one) in found["result"]


def is_child_bash(event: RuntimeEvent) -> bool:
    payload = event.payload
    is_started = isinstance(payload, LifecyclePayload) and payload.status == ToolStatus.STARTED
    return is_started and event.session_id.startswith("subagent-")


@pytest.mark.parametrize("times", [1, 2])
def test_an_interruption_of_the_parent_ends_the_child_in_order_and_both_are_recorded(
    tmp_path: Path, times: int
) -> None:
    one = with_child(tmp_path, call("Bash", {"command": "sleep 60"}), say("never"))

    async def play() -> tuple[RunResult, RunResult]:
        loop = asyncio.get_running_loop()

        def interrupt() -> None:
            for _ in range(times):
                loop.call_soon(agent.interrupt, End.INTERRUPTED)

        agent = one.start(Watcher(is_child_bash, interrupt))
        first, second = await agent.run("PARENT"), await agent.run("and now")
        await agent.close("completed")
        return first, second

    first, second = asyncio.run(play())
    assert (first.end, second.response) == (End.INTERRUPTED, "went on")
    assert (outcome(one).payload["error"]["code"], told(one)[:27]) == ("INTERRUPTED", "The subagent was interrupte")
    ends = [r.payload["reason"] for r in one.records(child_of(one)) if r.event_type == "terminal"]
    assert (ends, one.records(child_of(one))[-1].is_transition("session_closed")) == (["interrupted"], True)
    assert one.provider.invalid == []


def test_what_was_denied_to_a_child_is_among_the_denials_of_the_run(tmp_path: Path) -> None:
    one = with_child(tmp_path, BASH, say("could not")).with_services(mode=Mode.ASK, approver=NobodyToAsk())
    (result,) = run(one.start(), "PARENT")
    assert [(denied["tool_name"], denied["answer"]) for denied in result.permission_denials] == [("Bash", "unanswered")]
    assert (result.unanswered, result.exit_code, result.response) == (True, 4, "done")


def test_a_child_has_the_mode_and_the_grants_that_its_parent_has_now(tmp_path: Path) -> None:
    one = with_child(tmp_path, BASH, say("could not")).with_services(mode=Mode.AUTO, approver=NobodyToAsk())
    agent = one.start()
    agent.gate.mode = Mode.ASK  # as `/mode ask` does
    (result,) = run(agent, "PARENT")
    assert [denied["tool_name"] for denied in result.permission_denials] == ["Bash"]

    approver = Answers(Answer.DENIED)
    other = with_child(tmp_path / "other", BASH, say("done")).with_services(mode=Mode.ASK, approver=approver)
    agent = other.start()
    agent.gate.grant(Rule("Bash", "echo from the child > child.txt"))
    run(agent, "PARENT")
    assert (approver.questions, (other.workspace / "child.txt").exists()) == ([], True)


# -- after a crash


def started_task(folder: Path, *child: Step) -> tuple[int, list[Record]]:
    """In an undisturbed run: the number of the record that starts the Task, and the child's records behind it."""
    twin = with_child(folder, *child)
    run(twin.start(), "PARENT")
    parents = twin.records(twin.only_session())
    started = next(i for i, record in enumerate(parents, 1) if record.is_action("started", "Task"))
    return started, twin.records(child_of(twin))


def crashed_behind_the_childs(folder: Path, tool: str) -> Someone:
    """Parent and child die right behind the record that starts a tool of the child."""
    task, records = started_task(folder / "twin", *CHILD)
    number = task + next(i for i, record in enumerate(records, 1) if record.is_action("started", tool))
    one = with_child(folder, *CHILD)
    agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_after=number)).services, ())
    until_crash(agent, agent.run("PARENT"))
    return one.with_services(disk=FailingDisk())


CHILD = (WRITE, Reply("half of it", calls=BASH.calls), say("the part is done"))


def test_a_child_that_a_crash_cut_short_is_shown_with_what_it_had_done_and_is_not_run_again(tmp_path: Path) -> None:
    one = crashed_behind_the_childs(tmp_path, "Bash")
    agent = one.resume(one.only_session())
    (item,) = agent.uncertain
    assert (item.action.tool_name, item.finding.verdict, item.finding.facts["steps"]) == (
        "Task",
        Verdict.INTERRUPTED,
        2,
    )
    assert item.finding.facts["files_changed"] == [str(one.workspace / "child.txt")]
    assert [(child.action.tool_name, child.session_id) for child in item.children] == [("Bash", child_of(one))]
    assert go_on(agent).response == "done"
    assert "Verdict: interrupted" in told(one)
    assert (one.workspace / "child.txt").read_text() == "from the child"  # the command did not run, then or now
    assert one.provider.invalid == []


def test_a_child_whose_answer_the_parent_did_not_record_is_taken_as_it_was(tmp_path: Path) -> None:
    ended = with_child(tmp_path, *CHILD)
    disk = FailingDisk()
    agent = CodeAgent.start(ended.with_services(disk=disk).services, (dying_with(disk),))
    until_crash(agent, agent.run("PARENT"))
    again = ended.with_services(disk=FailingDisk()).resume(agent.session_id)
    assert [item.finding.verdict for item in again.uncertain] == [Verdict.COMPLETED]
    assert go_on(again).response == "done"
    assert "the part is done" in told(ended)


def dying_with(disk: FailingDisk) -> Watcher:
    """Lets the process die at the first record behind the child's last one."""

    def closes_a_child(event: RuntimeEvent) -> bool:
        payload = event.payload
        is_closing = isinstance(payload, TransitionPayload) and payload.reason == Reason.SESSION_CLOSED
        return is_closing and event.session_id.startswith("subagent-")

    def die() -> None:
        disk.is_dead = True

    return Watcher(closes_a_child, die)


def test_a_task_whose_child_was_never_opened_was_not_started(tmp_path: Path) -> None:
    one = with_child(tmp_path, *CHILD)
    started, _ = started_task(tmp_path / "twin", *CHILD)
    agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_at=started + 1)).services, ())
    until_crash(agent, agent.run("PARENT"))
    for transcript in (one.memory.path / "transcripts").glob("transcript-subagent-*"):
        transcript.unlink()
    again = one.with_services(disk=FailingDisk()).resume(agent.session_id)
    assert [item.finding.verdict for item in again.uncertain] == [Verdict.NOT_STARTED]
    assert go_on(again, PolicyDecider(Policy.REDO_SAFE)).response == "done"
    assert told(one) == "the part is done"
