"""The words that stand before every conversation."""

from __future__ import annotations

from pathlib import Path

from agent.state import World

RULE_FILES = ("AGENTS.md", "CLAUDE.md")  # the first that exists; the names that other agents read too
RULES_BYTES_MAX = 32 * 1024

_SYSTEM = """\
You are MyCodeAgent, a code agent that works in a terminal on the user's own repository.

Workspace: {workspace}
{directories}Date: {date}

- Use the tools to look before you change anything. File paths are relative to the workspace.
- Read a file before you edit it. Make the smallest change that does the job, and keep the file's style.
- After a change, run the project's tests or checks where there are any.
- A tool result that begins with [Recovery] tells what became of an action that a crash cut short. Believe its
  evidence, check what it calls uncertain, and do not repeat an action that has happened.
- When the work is done, say in a few sentences what you did and what you saw. Report only what you saw.
"""

_PLAN_MODE = """
You are in plan mode: look at whatever you need, change nothing, and answer with a plan.
"""


def system_prompt(world: World) -> str:
    """The system message of a run. Depends on the recorded world alone."""
    also = ", ".join(world.directories)
    directories = f"The file tools work in these directories, too: {also}\n" if also else ""
    text = _SYSTEM.format(workspace=world.workspace, directories=directories, date=world.date)
    if world.mode == "plan":
        text += _PLAN_MODE
    if world.project_rules:
        text += f"\nRules of this project:\n\n{world.project_rules}\n"
    return text


def read_project_rules(workspace: Path) -> str:
    """The project's own rules for agents; '' when it has none that can be read."""
    for name in RULE_FILES:
        path = workspace / name
        try:
            if not path.is_file():
                continue
            with path.open("rb") as file:
                data = file.read(RULES_BYTES_MAX + 1)
        except OSError:
            continue
        text = data[:RULES_BYTES_MAX].decode("utf-8", "replace").strip()
        more = f"\n[{name} is longer: read the rest of it when you need it.]"
        return text + more if len(data) > RULES_BYTES_MAX else text
    return ""
