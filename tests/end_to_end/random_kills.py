"""What the batteries of random kills run, and the judge of the verdicts: he knows what the harness saw, nothing else.

Every command writes a line when it begins and one when it ends; every file has one content before and one after, and a
change made twice would give a third.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.json_object import JsonObject
from tests.kit.program import Program
from tests.kit.script import Call, Reply, Step, say
from tests.kit.transcript import OUTCOMES, Record, arguments, read_records, transitions

LOG = "effects.log"
CHILD_ANSWER = "the child is done"
FILE_LINES = 30_000  # half a megabyte: an Edit of it takes long enough to be hit
FILE_SPAN_S = 0.02  # from the record that a change of a file begins to the one that it ended, about


@dataclass(frozen=True)
class Command:
    """A command with an end that is known beforehand."""

    name: str
    seconds: float
    exit_code: int
    background: bool = False

    @property
    def output(self) -> str:
        return f"output of {self.name}\n"

    def call(self) -> Call:
        text = (
            f"echo {self.name} begun >> {LOG}; sleep {self.seconds}; echo {self.name} ended >> {LOG}; "
            f"echo output of {self.name}; exit {self.exit_code}"
        )
        more = {"run_in_background": True} if self.background else {}
        return Call("Bash", {"command": text, "description": self.name, **more})


@dataclass(frozen=True)
class Change:
    """An Edit of `name`, or a Write of a new file."""

    name: str
    before: str | None
    after: str

    def calls(self) -> tuple[Call, ...]:
        if self.before is None:
            return (Call("Write", {"file_path": self.name, "content": self.after}),)
        return (
            Call("Read", {"file_path": self.name, "limit": 3}),
            Call("Edit", {"file_path": self.name, "old_string": "the end", "new_string": "one more\nthe end"}),
        )


def edit_of(name: str) -> Change:
    """An Edit that would show if it were made twice."""
    before = "".join(f"line {number} of {name}\n" for number in range(FILE_LINES)) + "the end\n"
    return Change(name, before, before.replace("the end", "one more\nthe end"))


def write_of(name: str) -> Change:
    return Change(name, None, f"all of {name}\n")  # short, since it stands in the model's context


SPAWNED = Command("spawned", 0.4, 6)  # long enough for its supervisor to be seen on a busy machine
COMMANDS = {
    one.name: one
    for one in (
        Command("short", 0.05, 5),
        Command("slow", 0.9, 3),
        Command("slower", 1.0, 7),
        Command("watcher", 30, 0, background=True),
        Command("of-the-child", 0.6, 4),
        SPAWNED,
    )
}
CHANGES = {one.name: one for one in (edit_of("a.txt"), edit_of("b.txt"), write_of("new.txt"), write_of("child.txt"))}

# How long after the record that begins an action its work goes on, about: what is left of it can be hit.
START_SPAN_S = 0.04
_SPANS_S = {
    **{one.name: START_SPAN_S + (0 if one.background else one.seconds) for one in COMMANDS.values()},
    **dict.fromkeys(CHANGES, FILE_SPAN_S),
}
_AIMS = (*CHANGES, "short", "watcher", *("slow", "slower", "of-the-child") * 3)


@dataclass(frozen=True)
class Session:
    """The scripted session of one case, and the moment of the kill.

    The kill comes `delay_s` after the record that the action named `aim` begins; without one, after the first record.
    """

    number: int
    steps: Sequence[Step]
    child_steps: Sequence[Step]
    aim: str
    delay_s: float
    looks_at_once: bool  # or after everything that goes on has come to its end

    @property
    def prompt(self) -> str:
        return f"JOB-{self.number:04}"

    @property
    def child_prompt(self) -> str:
        return f"CHILD-{self.number:04}"


def make_session(number: int, dice: random.Random, whole_s: float) -> Session:
    """Some of the work, shuffled. Two of three kills are aimed at an action, mostly at a slow command or a file."""
    aim = dice.choice(_AIMS) if number % 3 else ""
    child_calls: dict[str, tuple[Call, ...]] = {
        "child.txt": CHANGES["child.txt"].calls(),
        "b.txt": CHANGES["b.txt"].calls(),
        "of-the-child": (COMMANDS["of-the-child"].call(),),
    }
    child = _some(child_calls, 2, aim, dice)
    calls: dict[str, tuple[Call, ...]] = {
        **{name: (COMMANDS[name].call(),) for name in ("short", "slow", "slower", "watcher")},
        **{name: CHANGES[name].calls() for name in ("a.txt", "new.txt")},
        "task": (Call("Task", {"description": "task", "prompt": f"CHILD-{number:04}"}),),
    }
    own = _some(calls, 4, "task" if aim in child_calls else aim, dice)
    return Session(
        number,
        [*(Reply(calls=calls[name]) for name in own), say("all done")],
        [*(Reply(calls=child_calls[name]) for name in child), say(CHILD_ANSWER)],
        aim,
        dice.uniform(0, _SPANS_S[aim] if aim else whole_s),
        looks_at_once=dice.random() < 0.5,
    )


def _some(names: Iterable[str], count: int, with_name: str, dice: random.Random) -> list[str]:
    """So many of the names in a random order, the given one among them if it is one of them."""
    wanted = [name for name in names if name == with_name]
    found = wanted + dice.sample([name for name in names if name != with_name], count - len(wanted))
    return dice.sample(found, count)


# -- what the harness sees


def prepare(user: Program) -> None:
    for change in CHANGES.values():
        if change.before is not None:
            user.write(change.name, change.before)


def logged(user: Program) -> Counter[str]:
    """How many times each line stands in the log."""
    return Counter(user.read(LOG).splitlines())


def wait_for_ends(user: Program, timeout_s: float = 20) -> None:
    """Wait until every command that has begun, apart from one in the background, has ended."""
    end = time.monotonic() + timeout_s
    while any(_goes_on(name, logged(user)) for name, command in COMMANDS.items() if not command.background):
        assert time.monotonic() < end, user.read(LOG)
        time.sleep(0.02)


def _goes_on(name: str, log: Counter[str]) -> bool:
    return log[f"{name} begun"] > log[f"{name} ended"]


def all_records(user: Program) -> list[Record]:
    """The records of the session and of its subagents."""
    return [record for path in user.transcripts() for record in read_records(path)]


def open_actions(records: Sequence[Record]) -> set[str]:
    """The actions that were started and have no outcome."""
    started = {str(record.payload["action_id"]) for record in records if record.is_action("started")}
    return started - {
        str(record.payload["action_id"]) for record in records if record.payload.get("status") in OUTCOMES
    }


def commands_of(records: Sequence[Record]) -> dict[str, str]:
    """The name of each command that was started, by its action."""
    texts = arguments(records)
    started = [record.payload for record in records if record.is_action("started", "Bash")]
    return {one["action_id"]: json.loads(texts[one["tool_call_id"]])["description"] for one in started}


@dataclass(frozen=True)
class World:
    """How things stood when a verdict was given."""

    log: Counter[str]
    files: dict[str, str]
    child_exists: bool
    child_answered: bool
    at_work: frozenset[str]  # names of the commands that may have been running
    is_opened: bool  # has the session been opened again, which makes certain what was never begun?


def look(user: Program, at_work: frozenset[str], *, is_opened: bool) -> World:
    """The world as it is now; `at_work` was found before the verdict was asked for."""
    children = [path for path in user.transcripts() if path.match("transcript-subagent-*")]
    answers = [record.payload.get("content") for path in children for record in read_records(path)]
    files = {name: user.read(name) for name in CHANGES if (user.workspace / name).exists()}
    return World(logged(user), files, bool(children), CHILD_ANSWER in answers, at_work, is_opened)


def working(user: Program, commands: dict[str, str]) -> frozenset[str]:
    """The names of those commands whose supervisor is there; all of them while one is just being spawned."""
    lines = [process.command for process in user.survivors()]
    is_forking = any("main.py" in line for line in lines)
    return frozenset(name for action, name in commands.items() if is_forking or any(action in line for line in lines))


# -- the judge

RIGHT, UNDECIDED, WRONG = "right", "undecided", "wrong"


def judge(found: JsonObject, world: World) -> str:
    """Is the verdict on an action, in the form of `recover --json`, what happened?"""
    tool, verdict, evidence = found["tool_name"], found["verdict"], found["evidence"]
    if tool in ("Edit", "Write"):
        return RIGHT if verdict == _verdict_on_change(CHANGES[found["arguments"]["file_path"]], world) else WRONG
    if tool == "Task":
        true = "completed" if world.child_answered else "interrupted" if world.child_exists else "not_started"
        return RIGHT if verdict == true else WRONG
    if tool == "Bash":
        return _judge_command(COMMANDS[found["arguments"]["description"]], verdict, evidence, world)
    return RIGHT if verdict == "no_effect" else WRONG


def _verdict_on_change(change: Change, world: World) -> str:
    now = world.files.get(change.name)
    return "applied" if now == change.after else "not_applied" if now == change.before else "changed_since"


def _judge_command(command: Command, verdict: str, evidence: JsonObject, world: World) -> str:
    begun, ended = (world.log[f"{command.name} {what}"] for what in ("begun", "ended"))
    match verdict:
        case "not_started":
            is_true = not begun
        case "running":
            is_true = command.name in world.at_work
        case "finished":
            facts = (command.exit_code, len(command.output))
            is_true = bool(ended) and (evidence.get("exit_code"), evidence.get("stdout_bytes")) == facts
        case "killed":
            is_true = command.background and not ended and evidence.get("why") == "agent_died"
        case "unknown":
            return UNDECIDED if begun or world.is_opened else RIGHT
        case _:
            is_true = False
    return RIGHT if is_true else WRONG


def with_children(found: Sequence[JsonObject]) -> Iterator[JsonObject]:
    for one in found:
        yield one
        yield from with_children(one["children"])


def settled(records: Sequence[Record]) -> list[JsonObject]:
    """The verdicts that the decisions of a session rest on, in the form in which `recover --json` gives them."""
    texts = arguments(records)
    started = {record.payload["action_id"]: record.payload for record in records if record.is_action("started")}
    return [
        {
            "tool_name": started[details["action_id"]]["tool_name"],
            "action_id": details["action_id"],
            "arguments": json.loads(texts[started[details["action_id"]]["tool_call_id"]]),
            "verdict": details["verdict"],
            "evidence": details["evidence"],
            "children": [],
        }
        for details in transitions(records, "recovery_decided")
    ]


def strays(workspace: Path) -> list[str]:
    """What lies in the workspace that nobody asked for."""
    return sorted(path.name for path in workspace.iterdir() if path.name not in {LOG, *CHANGES})
