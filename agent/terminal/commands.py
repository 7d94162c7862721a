"""What a typed line means: a command, a decision on an interrupted action, or a prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.recovery.investigate import Investigated
from agent.recovery.policies import Choice

HELP = """\
Type what you want done. Enter on an empty line continues a run that was cut short.
  /resume [ID|NAME]   open another session            /new       begin a new one
  /recover            show what a crash left open      /mode M    ask, edits, plan or auto
  /name NAME          name this session                /tasks     commands in the background
  /exit               leave (or Ctrl+D)                /help      this list
Ctrl+C interrupts, clears the line, and leaves when pressed twice. Alt+Enter begins a new line.
While something runs, what you type is queued and sent afterwards."""


@dataclass(frozen=True)
class Command:
    """A line that begins with a slash."""

    name: str
    argument: str


@dataclass(frozen=True)
class Decision:
    """`2 redo`: what shall become of the second interrupted action."""

    number: int
    choice: Choice


def parse_command(line: str) -> Command | None:
    """A command, or None: a path such as /etc/hosts is no command."""
    match = re.fullmatch(r"/([a-z]+)(?:\s+(.*))?", line.strip(), re.DOTALL)
    return Command(match[1], (match[2] or "").strip()) if match else None


def parse_decision(line: str, items: list[Investigated]) -> Decision | str | None:
    """A decision, a sentence on why it cannot be taken, or None when the line is something else."""
    match = re.fullmatch(r"\[?(\d{1,3})\]?\s+([a-z]+)", line.strip())
    if match is None or not 1 <= int(match[1]) <= len(items):
        return None
    item = items[int(match[1]) - 1]
    choices = [choice.value for choice in item.choices]
    if match[2] not in choices:
        return f"[{match[1]}] can be: {' · '.join(choices)}." if match[2] in set(Choice) else None
    return Decision(int(match[1]), Choice(match[2]))
