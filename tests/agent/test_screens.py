"""Typed lines, what a resume shows, and the result objects: everything of the terminal that needs no terminal."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent.permissions import Answer, Question
from agent.recovery.investigate import Investigated
from agent.recovery.policies import Choice
from agent.state import RunResult, Usage
from agent.terminal.approve import TerminalApprover
from agent.terminal.clock import clock_time
from agent.terminal.commands import Command, Decision, parse_command, parse_decision
from agent.terminal.faults import explain
from agent.terminal.paint import Paint
from agent.terminal.recovery_screen import (
    action_lines,
    damage_lines,
    decision_lines,
    draft_lines,
    evidence_lines,
    subject_of,
    summary_lines,
)
from agent.terminal.result import fault_object, result_object
from memory.errors import SessionBusy
from memory.events import End, JsonObject
from memory.layout import MemoryFolder
from memory.lease import Owner
from memory.reader import Damage
from memory.state import ResumeState, UncertainAction
from tests.kit.in_process import Someone, run
from tests.kit.script import call, say
from tools.verdict import Finding, Verdict

STARTED = "2026-01-31T14:03:22.000Z"
AT = clock_time(STARTED)  # in the zone of whoever runs the tests


def item(
    tool: str, arguments: str | None, verdict: Verdict, text: str, children: Sequence[Investigated] = ()
) -> Investigated:
    action = UncertainAction(tool, "c1", f"act-{tool}", "run-1", 3, STARTED, {}, arguments, False)
    return Investigated("session-1", action, Finding(verdict, text, {"pids": [7]}), children=tuple(children))


EDIT = item("Edit", '{"file_path": "src/a.py", "old_string": "x"}', Verdict.APPLIED, "the file has the planned content")
BASH = item("Bash", '{"command": "pytest -q"}', Verdict.FINISHED, "exit 1 at 14:04:07")
LOOK = item("Glob", '{"pattern": "*"}', Verdict.NO_EFFECT, "it only reads")


# -- typed lines


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/help", Command("help", "")),
        ("  /resume  abc def ", Command("resume", "abc def")),
        ("/name my\nsession", Command("name", "my\nsession")),
        ("/etc/hosts is wrong", None),
        ("/Help", None),
        ("/", None),
        ("say /help", None),
        ("", None),
    ],
)
def test_a_line_that_begins_with_a_slash_and_a_word_is_a_command(line: str, command: Command | None) -> None:
    assert parse_command(line) == command


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("2 redo", Decision(2, Choice.REDO)),
        ("[1] verify", Decision(1, Choice.VERIFY)),
        ("1  show", Decision(1, Choice.SHOW)),
        ("2 keep", "[2] can be: use · redo · show."),
        ("2 files are missing", None),  # a prompt that begins with a number
        ("2 tests", None),
        ("3 redo", None),  # there is no third
        ("0 redo", None),
        ("redo", None),
        ("", None),
    ],
)
def test_a_number_and_a_choice_are_a_decision(line: str, decision: Decision | str | None) -> None:
    assert parse_decision(line, [EDIT, BASH]) == decision


# -- what a resume shows


def test_every_uncertain_action_is_listed_by_name_arguments_time_verdict_and_choices() -> None:
    assert action_lines([EDIT, BASH, LOOK]) == [
        "3 actions have no recorded result. Nothing was repeated.",
        "[1] Edit  src/a.py",
        "      APPLIED: the file has the planned content",
        f"      started {AT}; keep (default) · revert · verify · show",
        "[2] Bash  pytest -q",
        "      FINISHED: exit 1 at 14:04:07",
        f"      started {AT}; use (default) · redo · show",
        "[3] Glob  *",
        "      NO EFFECT: it only reads",
        f"      started {AT}, may be asked for again",
    ]
    assert action_lines([]) == []


def test_a_task_shows_what_is_open_beneath_it() -> None:
    task = item("Task", None, Verdict.RUNNING, "the subagent is at work", [BASH])
    assert action_lines([task]) == [
        "1 action has no recorded result. Nothing was repeated.",
        "[1] Task  (arguments not recorded)",
        "      RUNNING: the subagent is at work",
        f"      started {AT}; wait (default) · stop · show",
        "    · Bash  pytest -q",
        "          FINISHED: exit 1 at 14:04:07",
        f"          started {AT}; use (default) · redo · show",
    ]


def test_what_was_decided_and_all_that_is_known() -> None:
    assert decision_lines([EDIT, BASH.decided(Choice.USE)]) == ["[2] Bash: finished, decided: use"]
    assert evidence_lines(BASH) == [
        'Bash {"command": "pytest -q"}',
        f"started {STARTED}",
        "text: exit 1 at 14:04:07",
        "pids: [7]",
    ]


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (None, "(arguments not recorded)"),
        ('{"file_path": "a.py", "content": "x"}', "a.py"),
        ('{"command": "first\\n  second"}', "first second"),
        ('{"todos": []}', '{"todos": []}'),
        ('{"command": "cut', '{"command": "cut'),
        ("[1]", "[1]"),
        (f'{{"command": "{"x" * 400}"}}', "x" * 299 + "…"),
    ],
)
def test_the_subject_of_a_call_is_one_line(arguments: str | None, subject: str) -> None:
    assert subject_of(arguments) == subject


def test_nothing_in_a_question_is_hidden() -> None:
    """A carriage return, a turn of direction or a space without width could make one command look like another."""
    shown: list[str] = []
    approver = TerminalApprover(Paint(lambda: 80, color=False), shown.append)

    async def ask() -> None:
        question = Question("Bash", "rm -rf x\rsafe", "rm -rf x\rsafe\n\u202etxt.exe\u200b \x1b[1A\tend", target="x")
        asked = asyncio.ensure_future(approver.ask(question))
        await asyncio.sleep(0)
        assert approver.take("n")
        assert await asked is Answer.DENIED

    asyncio.run(ask())
    assert shown == ["Bash rm -rf x\\rsafe\n  rm -rf x\\rsafe\n  \\u202etxt.exe\\u200b \\x1b[1A\tend\n"]


def test_a_draft_is_shown_from_its_end() -> None:
    assert draft_lines("one\ntwo") == ["The answer that was cut off had come to here:", "  one", "  two"]
    (_, line) = draft_lines("x" * 3000)
    assert line == "  …" + "x" * 2000


def test_a_time_that_cannot_be_read_is_shown_as_it_stands() -> None:
    assert [clock_time("yesterday"), clock_time(None), clock_time("")] == [
        "yesterday",
        "at an unknown time",
        "at an unknown time",
    ]


def test_damage_is_named_with_its_place() -> None:
    (line,) = damage_lines([Damage("torn", 9, 812, 212, "x.torn-1", "unfinished record set aside")])
    assert line.startswith("Transcript ") and line.endswith(".")
    for part in ("212", "x.torn-1"):
        assert part in line


def loaded(tmp_path: Path) -> ResumeState:
    one = Someone(tmp_path, [call("Write", {"file_path": "a", "content": "x"}), say("done")])
    agent = one.start(name="mine")
    run(agent, "write it")
    return one.load(agent.session_id)


def test_the_summary_says_which_session_it_is_where_it_stopped_and_who_held_it(tmp_path: Path) -> None:
    state = loaded(tmp_path)
    owner = Owner(123, 1, "boot", "ns", "host")
    last = clock_time(state.last_timestamp)
    begin = f"Session {state.session_id} (mine): last record {last}, "
    assert summary_lines(state, owner) == [f"{begin}last run ended: completed. 2 steps, 1 file changed."]
    assert state.run is not None
    cut = replace(state, run=replace(state.run, ended=None))
    assert summary_lines(cut, owner) == [
        f"{begin}the last run has no end record. 2 steps, 1 file changed.",
        "Owner was pid 123, not running.",
    ]
    assert summary_lines(cut, owner, is_live=True)[1] == "It is live: process 123 is working in it."
    assert summary_lines(replace(state, run=None, steps=1), None) == [f"{begin}no run yet. 1 step, 1 file changed."]


# -- result objects

KEYS = [
    "type", "status", "terminal_reason", "exit_code", "response", "session_id", "run_id", "steps", "usage",
    "permission_denials", "uncertain_actions", "damage", "transcript_path", "resume_command", "error",
]  # fmt: skip


def result_of(tmp_path: Path, **changes: object) -> tuple[JsonObject, Someone]:
    one = Someone(tmp_path, [say("done")]).with_services(**changes)
    agent = one.start()
    (result,) = run(agent, "x")
    return result_object(agent, result, result.exit_code), one


def test_the_result_object_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    found, one = result_of(tmp_path)
    session_id = one.only_session()
    assert list(found) == KEYS
    assert found == {
        **fault_object(0, "", ""),
        "status": "completed",
        "terminal_reason": "completed",
        "response": "done",
        "session_id": session_id,
        "run_id": "run-1",
        "steps": 1,
        "usage": {"input_tokens": len(one.provider.requests[0].raw) // 4, "cached_tokens": 0, "output_tokens": 10},
        "transcript_path": str(one.files(session_id).transcript),
        "resume_command": shlex.join(["mycodeagent", "-r", session_id, "--memory-dir", str(one.memory.path)]),
        "error": None,
    }


def test_an_end_before_any_session_has_the_same_keys() -> None:
    found = fault_object(6, "SessionBusy", "in use")
    assert (list(found), found["exit_code"], found["error"]) == (KEYS, 6, {"code": "SessionBusy", "message": "in use"})


def test_a_session_that_is_not_recorded_cannot_be_resumed(tmp_path: Path) -> None:
    found, _ = result_of(tmp_path, folder=None)
    assert (found["transcript_path"], found["resume_command"]) == (None, None)


def test_the_resume_line_of_a_session_in_its_usual_place_needs_no_folder(tmp_path: Path) -> None:
    found, _ = result_of(tmp_path, folder=MemoryFolder(tmp_path / "home" / "projects" / "p-1" / "memory"))
    assert found["resume_command"] == f"mycodeagent -r {found['session_id']}"


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (End.COMPLETED, "completed", 0),
        (End.INTERRUPTED, "interrupted", 130),
        (End.TERMINATED, "interrupted", 143),
        (End.HANGUP, "interrupted", 129),
        (End.MAX_STEPS, "failed", 3),
        (End.TOKEN_BUDGET, "failed", 3),
        (End.MODEL_ERROR, "failed", 1),
        (End.PERMISSION_NEEDED, "failed", 4),
        (End.DECISION_NEEDED, "failed", 5),
        (End.TRANSCRIPT_ERROR, "failed", 7),
        (End.INTERNAL_ERROR, "failed", 1),
    ],
)
def test_status_and_exit_code_of_each_end(end: End, status: str, code: int) -> None:
    result = RunResult("run-1", end, "", 0, Usage())
    assert (result.status, result.exit_code) == (status, code)


def test_output_that_was_closed_is_a_success_when_the_turn_was_complete() -> None:
    closed = [RunResult("r", End.OUTPUT_CLOSED, "", 0, Usage(), details={"complete": done}) for done in (True, False)]
    assert [(one.status, one.exit_code) for one in closed] == [("completed", 0), ("failed", 1)]
    assert RunResult("r", End.COMPLETED, "x", 1, Usage(), unanswered=True).exit_code == 4


def test_an_error_is_one_sentence_and_its_exit_code() -> None:
    assert explain(SessionBusy("session-1", 42)) == (
        6,
        "Session session-1 is in use by process 42. Wait for it, or begin a new session with its history: add --fork.",
    )
    assert explain(FileNotFoundError(2, "No such file", "x.txt")) == (1, "x.txt: No such file.")
    code, sentence = explain(KeyError("k"))
    assert (code, "--debug" in sentence) == (1, True)
