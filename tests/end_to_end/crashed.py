"""Sessions that a crash cut short at an exact place, and what a person decides about them.

A run is driven to its end, and then its transcript is cut behind one record: files and command outputs are those of a
process that was killed right there, after its work and before the next record. The demo model answers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.kit.json_object import JsonObject
from tests.kit.program import Program
from tests.kit.terminal import Terminal
from tests.kit.transcript import Predicate, Record, outcomes, sealed, statuses, transitions

OLD = "first line\nthe old text\nlast line\n"
NEW = OLD.replace("old", "new")
EDIT = 'replace "old" by "new" in a.txt'
COMMAND = "echo begun >> effects.log; echo the output; exit 3"
NEXT = "list files"
ANSWER = "Files here:"  # what the demo model answers to NEXT

Fits = Callable[[Record], bool]


def begun(tool: str) -> Fits:
    """The record that such an action begins."""
    return lambda record: record.is_action("started", tool)


def cut_behind(user: Program, fits: Fits, session_id: str = "") -> None:
    """Cut the transcript behind the last record that fits."""
    path = user.transcript(session_id)
    records = user.records(session_id)
    last = max(index for index, record in enumerate(records) if fits(record))
    path.write_bytes(b"".join(record.line + b"\n" for record in records[: last + 1]))


def rewrite(user: Program, fits: Fits, change: Callable[[JsonObject], None]) -> None:
    """Change the payloads of the records that fit, as if they had been written so."""
    lines = []
    for record in user.records():
        if fits(record):
            change(record.payload)
            lines.append(sealed(record.fields))
        else:
            lines.append(record.line)
    user.transcript().write_bytes(b"".join(line + b"\n" for line in lines))


def edited(user: Program) -> str:
    """Killed between the rename of an Edit and its outcome record; the session's id."""
    user.write("a.txt", OLD).chmod(0o751)
    return cut_after(user, EDIT, "Edit")


def cut_after(user: Program, prompt: str, tool: str) -> str:
    """Killed when the action had done its work and its outcome was not recorded; the session's id."""
    done = user.ask(prompt)
    assert done.code == 0, done.err
    cut_behind(user, begun(tool))
    return user.session_id()


def not_edited(user: Program) -> str:
    """Killed between the record that an Edit begins and its rename; the session's id."""
    session_id = edited(user)
    user.write("a.txt", OLD)
    return session_id


# -- a person at the terminal


def resumed(user: Program, session_id: str, *args: str) -> Terminal:
    terminal = user.terminal("-r", session_id, *args)
    terminal.wait_for("/help helps")
    terminal.wait_for_prompt()
    return terminal


def decide(user: Program, session_id: str, *decisions: str, args: Sequence[str] = ("--mode", "auto")) -> str:
    """Resume on a terminal, type the decisions, go on with NEXT, leave; what stood on the screen."""
    terminal = resumed(user, session_id, *args)
    for decision in decisions:
        terminal.enter(decision)
        terminal.wait_for(r"as soon as you go on|can be: |started \d{4}-")
    terminal.enter(NEXT)
    terminal.wait_for(ANSWER)
    return left(terminal)


def left(terminal: Terminal) -> str:
    """Leave; what stood on the screen."""
    terminal.wait_for_prompt()
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0
    return terminal.text()


# -- what the transcript says afterwards


def decided(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Verdict and choice of every decision."""
    return [(details["verdict"], details["choice"]) for details in transitions(records, "recovery_decided")]


def told(records: Sequence[Record]) -> str:
    """The one tool message that answers the first interrupted call."""
    (first, *_) = [record.payload for record in records if record.is_message("tool") if _is_recovered(record)]
    if first.get("content") is not None:
        return str(first["content"])
    (result,) = [r.payload["result"] for r in records if r.payload.get("action_id") == first["action_id"] and _ended(r)]
    return str(result)


def _is_recovered(record: Record) -> bool:
    return bool((record.payload.get("metadata") or {}).get("recovered"))


def _ended(record: Record) -> bool:
    return record.is_action("completed") or record.is_action("failed")


def assert_settled_once(records: Sequence[Record]) -> None:
    """Each call has one tool message, each action at most one outcome or decision, and never both."""
    answered = [record.payload["tool_call_id"] for record in records if record.is_message("tool")]
    asked = [
        call["id"]
        for record in records
        if record.is_message("assistant")
        for call in record.payload.get("tool_calls") or ()
    ]
    assert answered == asked
    choices = [details["action_id"] for details in transitions(records, "recovery_decided")]
    assert len(choices) == len(set(choices))
    finished = outcomes(records)
    ends = {action_id: finished[action_id] + choices.count(action_id) for action_id in statuses(records)}
    assert set(ends.values()) <= {1}, ends


# -- the same crash again and again


class Snapshot:
    """Workspace and state of a user as they are now, to be put back in place."""

    def __init__(self, user: Program) -> None:
        self.records = len(user.records())
        self._places = {folder: user.folder / f"{folder.name}-before" for folder in (user.workspace, user.state)}
        for folder, copy in self._places.items():
            shutil.copytree(folder, copy, symlinks=True)

    def restore(self) -> None:
        for folder, copy in self._places.items():
            shutil.rmtree(folder)
            shutil.copytree(copy, folder, symlinks=True)


def holding(folder: Path, text: str) -> list[Path]:
    """The files below a folder that hold the text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def shown_choices(screen: str) -> list[str]:
    """The choices that a recovery screen offers, the default first; of the first action."""
    found = re.search(r"started \S+; (\w+) \(default\) · (.*)", screen)
    return [found[1], *found[2].split(" · ")] if found else []


def more(user: Program, count: int) -> Predicate:
    """A predicate: so many records more than now are there."""
    wanted = sum(len(path.read_bytes().splitlines()) for path in user.transcripts()) + count
    return lambda records: len(records) >= wanted
