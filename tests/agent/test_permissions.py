"""Modes, rules and tools: what passes without a question, what is refused without one, and what is asked."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ConfigError
from agent.permissions import Answer, Mode, NobodyToAsk, Permission, PermissionGate, Question, Rule
from tests.kit.in_process import Answers

TOOLS = ("Edit", "Write", "Bash", "Task", "mcp_tool")


def question(tool: str, target: str = "t") -> Question:
    return Question(tool, target, "preview", target)


def decide(gate: PermissionGate, *asked: Question) -> list[Permission]:
    async def all_of_them() -> list[Permission]:
        return [await gate.decide(one) for one in asked]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(
    ("mode", "passes", "asked", "refused"),
    [
        (Mode.ASK, {"Task"}, {"Edit", "Write", "Bash", "mcp_tool"}, set()),
        (Mode.EDITS, {"Task", "Edit", "Write"}, {"Bash", "mcp_tool"}, set()),
        (Mode.PLAN, set(), set(), {"Task", "Edit", "Write", "Bash", "mcp_tool"}),
        (Mode.AUTO, {"Task", "Edit", "Write", "Bash", "mcp_tool"}, set(), set()),
    ],
)
def test_what_each_mode_does_with_each_tool(mode: Mode, passes: set[str], asked: set[str], refused: set[str]) -> None:
    approver = Answers(Answer.DENIED)
    decisions = dict(zip(TOOLS, decide(PermissionGate(mode, approver), *map(question, TOOLS)), strict=True))
    assert {tool for tool, one in decisions.items() if one.is_granted} == passes
    assert {one.tool_name for one in approver.questions} == asked
    assert {tool for tool, one in decisions.items() if one.rule == "mode plan"} == refused


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("tool", TOOLS)
def test_a_deny_rule_wins_over_everything(mode: Mode, tool: str) -> None:
    gate = PermissionGate(mode, Answers(Answer.ALLOWED), allow=[Rule(tool)], deny=[Rule(tool)])
    gate.grant(Rule(tool))
    assert decide(gate, question(tool)) == [Permission(f"deny {tool}", Answer.DENIED)]


@pytest.mark.parametrize("tool", TOOLS)
def test_an_allow_rule_spares_the_question_but_does_not_lift_plan_mode(tool: str) -> None:
    allow = [Rule(tool)]
    assert decide(PermissionGate(Mode.ASK, NobodyToAsk(), allow=allow), question(tool)) == [
        Permission(f"allow {tool}", Answer.ALLOWED)
    ]
    assert decide(PermissionGate(Mode.PLAN, NobodyToAsk(), allow=allow), question(tool)) == [
        Permission("mode plan", Answer.DENIED)
    ]


@pytest.mark.parametrize(
    "command",
    [
        "git status; touch P",
        "git status && touch P",
        "git status | sh",
        "git status\ntouch P",
        "git status $(touch P)",
        "git status `touch P`",
        "git status > P",
        "git status & touch P",
        "git status -c core.pager=x",
        "git statusx",
        " git status",
        "FOO=1 git status",
    ],
)
def test_a_rule_compares_the_whole_command_never_a_beginning_of_it(command: str) -> None:
    """K38: an allowed command let everything through that began with it."""
    gate = PermissionGate(Mode.ASK, NobodyToAsk(), allow=[Rule.parse("Bash(git status)")])
    allowed, other = decide(gate, question("Bash", "git status"), question("Bash", command))
    assert (allowed.is_granted, other) == (True, Permission("asked", Answer.UNANSWERED))


@given(rule=st.text(min_size=1), target=st.text())
def test_a_rule_with_a_target_fits_exactly_this_target(rule: str, target: str) -> None:
    assert Rule("Bash", rule).fits("Bash", target) == (rule == target)


@given(target=st.none() | st.text(min_size=1))
def test_a_rule_reads_as_it_is_written(target: str | None) -> None:
    rule = Rule("Bash", target)
    assert Rule.parse(str(rule)) == rule


@pytest.mark.parametrize("text", ["", "Bash()", "Bash(", "Bash x", "1Bash", "(ls)", "Bash(ls) x", "*"])
def test_a_rule_that_is_not_understood_is_an_error_of_the_user(text: str) -> None:
    with pytest.raises(ConfigError, match="write Tool or Tool"):
        Rule.parse(text)


def test_always_grants_this_command_and_nothing_else() -> None:
    approver = Answers(Answer.ALWAYS)
    gate = PermissionGate(Mode.ASK, approver)
    first, again, other = decide(
        gate, question("Bash", "make"), question("Bash", "make"), question("Bash", "make install")
    )
    assert (first, again) == (Permission("Bash(make)", Answer.ALWAYS), Permission("allow Bash(make)", Answer.ALLOWED))
    assert [one.target for one in approver.questions] == ["make", "make install"]
    assert other.answer is Answer.ALWAYS
    assert gate.granted == gate.allowed == [Rule("Bash", "make"), Rule("Bash", "make install")]


@pytest.mark.parametrize("tool", ["Edit", "Write"])
def test_always_for_a_file_change_grants_the_tool(tool: str) -> None:
    approver = Answers(Answer.ALWAYS)
    gate = PermissionGate(Mode.ASK, approver)
    decisions = decide(gate, question(tool, "a"), question(tool, "b"))
    assert decisions == [Permission(tool, Answer.ALWAYS), Permission(f"allow {tool}", Answer.ALLOWED)]
    assert (len(approver.questions), gate.granted) == (1, [Rule(tool)])


@pytest.mark.parametrize("answer", [Answer.ALLOWED, Answer.DENIED, Answer.UNANSWERED])
def test_every_other_answer_counts_once(answer: Answer) -> None:
    approver = Answers(answer)
    gate = PermissionGate(Mode.ASK, approver)
    assert decide(gate, question("Bash"), question("Bash")) == [Permission("asked", answer)] * 2
    assert (len(approver.questions), gate.granted) == (2, [])
