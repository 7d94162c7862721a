"""May this effect happen? Rules that the user stated, the mode, and else a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agent.errors import ConfigError
from memory.events import JsonObject


class Mode(StrEnum):
    """What happens without a question."""

    ASK = "ask"  # only what has no effect
    EDITS = "edits"  # file changes inside the workspace too
    PLAN = "plan"  # nothing that has an effect, and no question either
    AUTO = "auto"  # everything


class Answer(StrEnum):
    """What the user, a rule or the mode said; `permission.answer` in records."""

    ALLOWED = "allowed"
    ALWAYS = "always"  # for the rest of the session
    DENIED = "denied"
    UNANSWERED = "unanswered"  # nobody could be asked


@dataclass(frozen=True)
class Question:
    """What the user is asked: the tool, its target in one line, and the command or diff.

    `target` is what rules compare: the whole path or command.
    """

    tool_name: str
    subject: str
    preview: str
    target: str


class Approver(Protocol):
    """Answers *may I?*. The terminal asks the user; without a terminal the answer is UNANSWERED."""

    async def ask(self, question: Question) -> Answer: ...


class NobodyToAsk:
    """The approver of runs without a terminal."""

    async def ask(self, question: Question) -> Answer:
        del question
        return Answer.UNANSWERED


@dataclass(frozen=True)
class Rule:
    """`Tool` or `Tool(target)`: the target must be equal as a whole, never by prefix (K38)."""

    tool_name: str
    target: str | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Raises ConfigError."""
        match = re.fullmatch(r"([A-Za-z]\w*)(?:\((.+)\))?", text.strip(), re.DOTALL)
        if match is None:
            raise ConfigError(f"The rule {text!r} is not understood: write Tool or Tool(exact command or path).")
        return cls(match[1], match[2])

    def fits(self, tool_name: str, target: str) -> bool:
        return self.tool_name == tool_name and self.target in (None, target)

    def __str__(self) -> str:
        return self.tool_name if self.target is None else f"{self.tool_name}({self.target})"


@dataclass(frozen=True)
class Permission:
    """The decision on one call, as its record holds it."""

    rule: str
    answer: Answer

    @property
    def is_granted(self) -> bool:
        return self.answer in (Answer.ALLOWED, Answer.ALWAYS)

    def as_json(self) -> JsonObject:
        return {"rule": self.rule, "answer": self.answer.value}


class PermissionGate:
    """Decides on calls with an effect. Deny rules win over everything, then plan mode, allow rules, the mode."""

    # A Task has no effect of its own: each call of its child comes through a gate.
    FREE = frozenset({"Task"})
    FILE_CHANGES = frozenset({"Edit", "Write"})

    def __init__(
        self, mode: Mode, approver: Approver, *, allow: Sequence[Rule] = (), deny: Sequence[Rule] = ()
    ) -> None:
        self.mode = mode
        self.approver = approver
        self._allow = list(allow)
        self._deny = list(deny)
        self._granted: list[Rule] = []

    @property
    def granted(self) -> list[Rule]:
        """What the user said *always* to."""
        return list(self._granted)

    @property
    def allowed(self) -> list[Rule]:
        """Every rule that lets a call pass; a subagent's gate gets the same."""
        return [*self._allow, *self._granted]

    def grant(self, rule: Rule) -> None:
        """The user said *always*, in this process or before a resume."""
        if rule not in self._granted:
            self._granted.append(rule)

    async def decide(self, question: Question) -> Permission:
        """Ask, unless a rule or the mode decides."""
        name, target = question.tool_name, question.target
        for rule in self._deny:
            if rule.fits(name, target):
                return Permission(f"deny {rule}", Answer.DENIED)
        if self.mode is Mode.PLAN:
            return Permission("mode plan", Answer.DENIED)
        for rule in self.allowed:
            if rule.fits(name, target):
                return Permission(f"allow {rule}", Answer.ALLOWED)
        if name in self.FREE:
            return Permission(name, Answer.ALLOWED)
        if self.mode is Mode.AUTO or (self.mode is Mode.EDITS and name in self.FILE_CHANGES):
            return Permission(f"mode {self.mode.value}", Answer.ALLOWED)
        answer = await self.approver.ask(question)
        if answer is not Answer.ALWAYS:
            return Permission("asked", answer)
        rule = Rule(name) if name in self.FILE_CHANGES else Rule(name, target)
        self.grant(rule)
        return Permission(str(rule), answer)
