"""`CodeAgent` from start to close, and what a resumed one knows."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.host import CodeAgent
from agent.permissions import Answer, Mode, NobodyToAsk, Rule
from agent.recovery.settle import DecisionNeeded
from memory.errors import SessionBusy, TranscriptUnavailable
from memory.events import End
from memory.text import SECRET_REMOVED, TextCleaner
from tests.kit.in_process import Answers, FailingDisk, Someone, go_on, is_record, run, until_crash
from tests.kit.script import Call, Reply, Script, call, say
from tests.kit.transcript import Record, sealed, transitions

READ = call("Read", {"file_path": "a.txt"})
EDIT = call("Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"})
EDIT_AGAIN = call("Edit", {"file_path": "a.txt", "old_string": "new", "new_string": "newer"})
TODOS = [{"content": "ship it", "status": "in_progress", "activeForm": "Shipping it"}]


def someone(folder: Path, script: Script) -> Someone:
    one = Someone(folder, script)
    one.file("a.txt", "old\n")
    return one


def knowledge(agent: CodeAgent) -> dict[str, object]:
    """Everything that a resume must bring back."""
    facts = agent.checkpoint_facts()
    return {
        "history": list(agent.history_manager.messages),
        "before": agent.history_manager.messages_before,
        "checkpoint": agent.context_engine.compact_store.active,
        "read cache": agent.tool_registry.export_read_cache(),
        "memory": agent._memory.memory,
        "memory in view": agent.session_memory(),
        "runtime": facts.runtime_state,
        "grants": agent.gate.granted,
    }


# -- start, talk, close, resume


def test_a_resumed_session_knows_what_the_live_one_knew(tmp_path: Path) -> None:
    script: Script = {
        "first": [
            READ,
            EDIT,
            call("TodoWrite", {"todos": TODOS}),
            call("Bash", {"command": "mkdir -p sub && cd sub && false"}),
            call("Edit", {"file_path": "none.txt", "old_string": "x", "new_string": "y"}),
            say("done"),
        ],
        "second": [say("yes")],
    }
    one = someone(tmp_path, script).with_services(mode=Mode.ASK, approver=Answers(Answer.ALWAYS))
    agent = one.start(name="mine")
    run(agent, "first", "second")
    again = one.resume(agent.session_id)
    live, resumed = knowledge(agent), knowledge(again)
    for name in live:
        assert resumed[name] == live[name], name
    assert (again.name, again.can_continue, again.owes, again.uncertain) == ("mine", False, True, [])
    assert again.report is not None
    assert (again.report.damage, again.report.changed_files, again.report.missing_directory) == ((), (), None)
    run(again)


def test_each_resume_adds_its_opening_and_its_closing_and_nothing_else(tmp_path: Path) -> None:
    """K10: each resume stored one more copy of the tool results."""
    one = someone(tmp_path, {"first": [READ, EDIT, say("done")], "second": [say("yes")]})
    agent = one.start()
    run(agent, "first")
    before = one.records(agent.session_id)
    for _ in range(4):
        run(one.resume(agent.session_id))
    added = one.records(agent.session_id)[len(before) :]
    assert [record.payload["reason"] for record in added] == ["session_opened", "session_closed"] * 4
    twin = someone(tmp_path / "twin", {"first": [READ, EDIT, say("done")], "second": [say("yes")]})
    run(twin.start(), "first", "second")
    run(one.resume(agent.session_id), "second")
    assert [len(request.messages) for request in one.provider.requests] == [
        len(request.messages) for request in twin.provider.requests
    ]


def test_runs_are_numbered_through_the_life_of_a_session(tmp_path: Path) -> None:
    one = someone(tmp_path, [])
    agent = one.start()
    assert [result.run_id for result in run(agent, "a", "b")] == ["run-1", "run-2"]
    assert [result.run_id for result in run(one.resume(agent.session_id), "c")] == ["run-3"]


def test_a_session_has_one_owner_and_is_free_once_it_is_closed(tmp_path: Path) -> None:
    one = someone(tmp_path, [])
    agent = one.start()
    with pytest.raises(SessionBusy, match=str(os.getpid())):
        one.resume(agent.session_id)
    run(agent)
    run(one.resume(agent.session_id))


def test_a_session_that_could_not_be_opened_is_not_held(tmp_path: Path) -> None:
    one = someone(tmp_path, [])
    agent = one.start()
    run(agent)
    one.with_services(disk=FailingDisk(is_refused=is_record))
    try:
        one.resume(agent.session_id)
    except TranscriptUnavailable as error:
        kept = error  # with its traceback, as a screen that shows it keeps it
    one.with_services(disk=FailingDisk())
    run(one.resume(agent.session_id))
    assert kept.recoverable


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    one = someone(tmp_path, [])
    agent = one.start()
    run(agent)
    asyncio.run(agent.close("left"))
    assert [record.payload["reason"] for record in one.records(agent.session_id)] == [
        "session_opened",
        "session_closed",
    ]


def test_a_session_that_is_not_recorded_works_and_leaves_no_file(tmp_path: Path) -> None:
    one = someone(tmp_path, {"first": [READ, EDIT, call("Bash", {"command": "echo hi"}), say("done")]})
    agent = one.with_services(folder=None).start()
    (result,) = run(agent, "first")
    assert (result.end, result.response, one.provider.invalid) == (End.COMPLETED, "done", [])
    assert one.provider.requests[-1].result_of("echo hi") == "hi"
    assert not one.memory.path.exists()


def test_denials_belong_to_the_run_that_they_happened_in(tmp_path: Path) -> None:
    bash = call("Bash", {"command": "echo hi"})
    one = someone(tmp_path, {"first": [bash, say("done")], "second": [say("yes")]})
    one.with_services(mode=Mode.ASK, approver=NobodyToAsk())
    first, second = run(one.start(), "first", "second")
    assert ([one["subject"] for one in first.permission_denials], first.unanswered, first.exit_code) == (
        ["echo hi"],
        True,
        4,
    )
    assert (second.permission_denials, second.unanswered, second.exit_code) == ((), False, 0)


def test_the_key_is_in_no_file_that_we_write(tmp_path: Path) -> None:
    key = "sk-0123456789-secret"
    spelled = '{"command": "echo sk-0123456789\\u002dsecret"}'  # the model's escape hides it from a plain search
    one = someone(tmp_path, {"first": [Reply(f"it is {key}", calls=(Call("Bash", spelled),)), say(key)]})
    one.with_services(cleaner=TextCleaner([key]), secrets=[key], mode=Mode.ASK, approver=Answers(Answer.ALWAYS))
    agent = one.start()
    (result,) = run(agent, f"first {key}")
    assert result.response == SECRET_REMOVED
    holding = [str(path) for path in one.memory.path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert holding == []


# -- what a request takes from the world


class Days:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_continued_run_asks_with_the_rules_and_the_date_of_its_start_and_the_next_run_with_those_of_now(
    tmp_path: Path,
) -> None:
    clock = Days()
    one = someone(tmp_path, {"first": [READ, say("done")], "second": [say("yes")]}).with_services(clock=clock)
    one.file("AGENTS.md", "Use tabs.")
    twin = someone(tmp_path / "twin", one.provider.script).with_services(clock=clock, workspace=one.workspace)
    run(twin.start(), "first")
    records = twin.records(twin.only_session())
    answered = next(i for i, record in enumerate(records, 1) if record.is_transition("tools_executed"))

    agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_after=answered)).services, ())
    until_crash(agent, agent.run("first"))
    one.with_services(disk=FailingDisk())
    clock.now = datetime(2026, 2, 7, 12, tzinfo=UTC)
    one.file("AGENTS.md", "Use spaces.")
    again = one.resume(agent.session_id)
    assert asyncio.run(again.continue_run()).response == "done"
    assert one.provider.requests[-1].messages == twin.provider.requests[-1].messages
    system = str(one.provider.requests[-1].messages[0]["content"])
    assert ("Use tabs." in system, "2026-01-31" in system) == (True, True)
    run(again, "second")
    system = str(one.provider.requests[-1].messages[0]["content"])
    assert ("Use spaces." in system, "2026-02-07" in system) == (True, True)


# -- what was read before


def resumed_edit(one: Someone, change: object = None) -> tuple[CodeAgent, str]:
    """Read a file, leave, let `change` happen, resume and edit: the agent and what the model was told of the edit."""
    agent = one.start()
    run(agent, "first")
    if callable(change):
        change()
    again = one.resume(agent.session_id)
    run(again, "second")
    return again, one.provider.requests[-1].result_of("Edit")


READ_THEN_EDIT: Script = {"first": [READ, say("read it")], "second": [EDIT, say("done")]}


def test_a_file_that_was_read_before_can_be_edited_after_a_resume(tmp_path: Path) -> None:
    """K08: after a restart every edit failed with "modified since read"."""
    one = someone(tmp_path, READ_THEN_EDIT)
    resumed_edit(one)
    assert (one.workspace / "a.txt").read_text() == "new\n"


def test_a_touched_file_is_not_a_changed_one(tmp_path: Path) -> None:
    one = someone(tmp_path, READ_THEN_EDIT)
    agent, _ = resumed_edit(one, lambda: os.utime(one.workspace / "a.txt", (1, 1)))
    assert agent.report is not None and agent.report.changed_files == ()
    assert (one.workspace / "a.txt").read_text() == "new\n"


def test_a_file_that_somebody_changed_is_named_to_the_model_once_and_not_edited(tmp_path: Path) -> None:
    one = someone(tmp_path, READ_THEN_EDIT)
    agent, told = resumed_edit(one, lambda: one.file("a.txt", "old, and theirs\n"))
    assert agent.report is not None and agent.report.changed_files == ("a.txt",)
    assert (one.workspace / "a.txt").read_text() == "old, and theirs\n"
    assert told.startswith("a.txt changed since it was read. Nothing was changed by this call.")
    for _ in range(2):
        run(one.resume(agent.session_id), "and now?")
    notes = [text for text in one.provider.requests[-1].texts("user") if "changed while you were away" in text]
    assert len(notes) == 1 and "a.txt" in notes[0]


def test_a_change_of_the_same_size_in_the_same_second_is_a_change(tmp_path: Path) -> None:
    one = someone(tmp_path, READ_THEN_EDIT)
    path = one.workspace / "a.txt"
    before = path.stat()

    def change() -> None:
        path.write_text("odd\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    agent, _ = resumed_edit(one, change)
    assert agent.report is not None and agent.report.changed_files == ("a.txt",)
    assert path.read_text() == "odd\n"


def test_a_file_that_a_refusal_showed_can_be_edited_after_a_resume(tmp_path: Path) -> None:
    one = someone(tmp_path, {"first": [READ, say("r")], "second": [EDIT, say("s")], "third": [EDIT, say("t")]})
    agent = one.start()
    run(agent, "first")
    again = one.resume(agent.session_id)
    one.file("a.txt", "old, and theirs\n")  # behind the resume's look: the refusal shows it whole
    run(again, "second")
    assert "old, and theirs" in one.provider.requests[-1].result_of("Edit")
    run(one.resume(agent.session_id), "third")
    assert (one.workspace / "a.txt").read_text() == "new, and theirs\n"


def test_the_working_directory_comes_back_and_a_missing_one_is_told(tmp_path: Path) -> None:
    go_in = call("Bash", {"command": "mkdir -p sub && cd sub"})
    where = call("Bash", {"command": "basename $(pwd)"})
    one = someone(tmp_path, {"first": [go_in, say("in")], "second": [where, say("there")]})
    agent = one.start()
    run(agent, "first")
    run(one.resume(agent.session_id), "second")
    assert one.provider.requests[-1].result_of("basename") == "sub"
    (one.workspace / "sub").rmdir()
    again = one.resume(agent.session_id)
    assert again.report is not None and again.report.missing_directory == str(one.workspace / "sub")
    run(again, "second")
    assert one.provider.requests[-1].result_of("basename") == "workspace"


# -- what the user granted


def test_what_the_user_always_allowed_is_not_asked_again_after_a_resume(tmp_path: Path) -> None:
    bash = call("Bash", {"command": "echo hi"})
    approver = Answers(Answer.ALWAYS)
    one = someone(tmp_path, {"first": [bash, say("1")], "second": [bash, say("2")]})
    one.with_services(mode=Mode.ASK, approver=approver)
    agent = one.start()
    run(agent, "first")
    again = one.resume(agent.session_id)
    assert again.gate.granted == [Rule("Bash", "echo hi")]
    run(again, "second")
    assert len(approver.questions) == 1


def test_a_grant_that_this_version_does_not_understand_is_forgotten_and_the_session_opens(tmp_path: Path) -> None:
    bash = call("Bash", {"command": "echo hi"})
    one = someone(tmp_path, {"first": [bash, say("1")]})
    one.with_services(mode=Mode.ASK, approver=Answers(Answer.ALWAYS))
    agent = one.start()
    run(agent, "first")
    path = one.files(agent.session_id).transcript
    path.write_bytes(
        b"".join(with_rule(record, "** of a newer version **") + b"\n" for record in one.records(agent.session_id))
    )
    again = one.resume(agent.session_id)
    assert (again.gate.granted, again.report and again.report.damage) == ([], ())
    run(again)


def with_rule(record: Record, rule: str) -> bytes:
    if record.payload.get("permission"):
        record.payload["permission"]["rule"] = rule
        return sealed(record.fields)
    return record.line


# -- input that waits, names, undecided actions


def test_queued_input_is_recorded_at_once_and_gone_once_it_was_sent(tmp_path: Path) -> None:
    one = someone(tmp_path, [])
    agent = one.start()
    queue_id = agent.queue_input("later")
    assert transitions(one.records(agent.session_id), "input_queued") == [{"queue_id": queue_id, "text": "later"}]
    assert one.load(agent.session_id).queued_inputs == {queue_id: "later"}

    async def send() -> None:
        await agent.run("later", metadata={"queue_id": queue_id})
        await agent.close("completed")

    asyncio.run(send())
    assert one.load(agent.session_id).queued_inputs == {}


def test_the_newest_name_stays(tmp_path: Path) -> None:
    one = someone(tmp_path, [])
    agent = one.start(name="first")
    agent.rename("second")
    run(agent)
    again = CodeAgent.resume(one.services, one.files(agent.session_id), (), name="third")
    run(again)
    assert one.load(agent.session_id).name == "third"


def test_without_a_decider_an_undecided_action_stops_everything_and_nothing_is_written(tmp_path: Path) -> None:
    one = someone(tmp_path, {"first": [READ, EDIT, say("done")]})
    twin = someone(tmp_path / "twin", one.provider.script)
    run(twin.start(), "first")
    edited = next(i for i, r in enumerate(twin.records(twin.only_session()), 1) if r.is_action("completed", "Edit"))
    agent = CodeAgent.start(one.with_services(disk=FailingDisk(crash_at=edited)).services, ())
    until_crash(agent, agent.run("first"))
    again = one.with_services(disk=FailingDisk()).resume(agent.session_id)
    before = len(one.records(agent.session_id))
    assert (again.owes, [item.is_open for item in again.uncertain]) == (True, [True])

    async def act() -> None:
        with pytest.raises(DecisionNeeded):
            await again.run("now")
        with pytest.raises(DecisionNeeded):
            await again.continue_run()

    asyncio.run(act())
    assert (len(one.records(agent.session_id)), len(one.provider.requests)) == (before, 2)
    assert go_on(again).response == "done"
    assert again.owes is False
