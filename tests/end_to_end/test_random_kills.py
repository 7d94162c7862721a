"""kill -9 at random moments of a session with every kind of effect: verdicts say what happened, nothing happens twice.

MYCODEAGENT_RANDOM_KILLS and MYCODEAGENT_SPAWN_ROUNDS say how many kills are tried, MYCODEAGENT_SEED repeats them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.conftest import NewProgram, NewServer
from tests.end_to_end.crashed import begun, cut_behind
from tests.end_to_end.random_kills import (
    CHANGES,
    COMMANDS,
    LOG,
    RIGHT,
    SPAWNED,
    UNDECIDED,
    WRONG,
    Session,
    World,
    all_records,
    commands_of,
    judge,
    logged,
    look,
    make_session,
    open_actions,
    prepare,
    settled,
    strays,
    wait_for_ends,
    with_children,
    working,
)
from tests.kit.json_object import JsonObject
from tests.kit.model_server import ModelServer
from tests.kit.processes import marked_with
from tests.kit.program import Process, Program
from tests.kit.script import Reply, Script, bash, call, say
from tests.kit.side_by_side import side_by_side
from tests.kit.transcript import Predicate, breaches, end_of, outcomes, read_records, saw, transitions
from tools.verdict import Verdict

KILLS = int(os.environ.get("MYCODEAGENT_RANDOM_KILLS", "10"))
ROUNDS = int(os.environ.get("MYCODEAGENT_SPAWN_ROUNDS", "4"))
SEED = int(os.environ.get("MYCODEAGENT_SEED", random.randrange(1 << 32)))
WHOLE_S = 2.0  # about as long as the session takes from its first record on
SLOWEST_START_S = 0.08  # of a supervisor, until its command runs
HITS_PER_UNDECIDED = 150  # so many kills that hit a running command may leave one verdict undecided


# -- random moments


def test_every_verdict_after_a_kill_at_a_random_moment_is_what_happened(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    dice = random.Random(SEED)
    sessions = [make_session(number, dice, WHOLE_S) for number in range(KILLS)]
    script: Script = {
        "GO-ON": [say("gone on")],
        **{session.prompt: session.steps for session in sessions},
        **{session.child_prompt: session.child_steps for session in sessions},
    }
    model = server(script)
    counts = Counter[str]()

    def one(number: int) -> None:
        user = program(model)
        prepare(user)
        counts.update(killed_and_resumed(user, sessions[number]))
        shutil.rmtree(user.folder)  # hundreds of them would fill the disk

    try:
        side_by_side(one, range(KILLS))
    finally:
        counted = ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))
        print(f"seed {SEED}: {counted}")
        battery(f"kill -9 at random moments: {KILLS} kills with seed {SEED}: {counted}")
    assert counts[UNDECIDED] * HITS_PER_UNDECIDED <= max(counts["hit a running command"], HITS_PER_UNDECIDED)


def killed_and_resumed(user: Program, session: Session) -> Counter[str]:
    """Run, kill, look, resume with a prompt; what was counted."""
    counts = Counter({RIGHT: 0, UNDECIDED: 0, WRONG: 0})
    process = user.start("-p", session.prompt, "--mode", "auto")
    process.wait_until(begins(session.aim) if session.aim else lambda records: len(records) > 0)
    time.sleep(session.delay_s)
    process.kill()
    dead = all_records(user)
    actions, commands = open_actions(dead), commands_of(dead)
    log = logged(user)
    hit = [name for action, name in commands.items() if action in actions and log[f"{name} begun"]]
    counts["hit a running command"] += len(hit)
    counts["hit a background command"] += log["watcher begun"]
    had_ended = bool(end_of(user.records()))
    counts["came when all was done"] += had_ended
    if not session.looks_at_once:
        wait_for_ends(user)
        user.assert_gone()
    at_work = working(user, commands)
    shown = user.recover(user.session_id())
    found = list(with_children(shown["uncertain_actions"]))
    assert {one["action_id"] for one in found} == actions
    count_verdicts(counts, "shown", found, look(user, at_work, is_opened=False))
    assert_background_told(shown["background"], at_work, had_ended=had_ended)

    done = user.resume(user.session_id(), "GO-ON")
    assert (done.code, done.out) == (0, "gone on\n"), done
    user.assert_gone()
    decisions = settled(read_records(user.transcript()))
    assert {one["action_id"] for one in decisions} == {one["action_id"] for one in shown["uncertain_actions"]}
    count_verdicts(counts, "settled", decisions, look(user, frozenset(), is_opened=True))
    assert_nothing_twice(user, commands)
    assert all(user.read(name) in (change.before or "", change.after) for name, change in CHANGES.items())
    return counts


def begins(aim: str) -> Predicate:
    """The record that the action begins is there."""
    tool = "Bash" if aim in COMMANDS else "Edit" if CHANGES[aim].before is not None else "Write"
    return saw("started", tool, f'"{aim}"')


def count_verdicts(counts: Counter[str], when: str, found: Sequence[JsonObject], world: World) -> None:
    """Judge each verdict.

    Raises:
        AssertionError: one is wrong.
    """
    for one in found:
        opinion = judge(one, world)
        counts[opinion] += 1
        counts[f"{when} {one['tool_name']} {one['verdict']}"] += 1
        assert opinion != WRONG, (one, world.log, world.at_work)


def assert_background_told(found: Sequence[JsonObject], at_work: frozenset[str], *, had_ended: bool) -> None:
    """A background command runs until its supervisor has noticed the agent's death, or the agent has ended it."""
    for one in found:
        if one["verdict"] == "running":
            assert "watcher" in at_work
        else:
            why = one["evidence"].get("why")
            assert (one["verdict"], why == "agent_died" or (had_ended and why == "stopped")) == ("killed", True), one


def assert_nothing_twice(user: Program, commands: dict[str, str]) -> None:
    log = logged(user)
    assert max(log.values(), default=0) <= 1
    assert {line.rpartition(" ")[0] for line in log} <= set(commands.values())
    for path in user.transcripts():
        records = read_records(path)
        assert breaches(path) == []
        for action, name in commands_of(records).items():
            if outcomes(records)[action] and not COMMANDS[name].background:
                assert log[f"{name} ended"] == 1
    assert strays(user.workspace) == []


def test_what_a_subagents_edit_left_is_removed_with_its_parents_session(server: NewServer, program: NewProgram) -> None:
    steps = [Reply(calls=CHANGES["b.txt"].calls()), say("edited")]
    task = call("Task", {"description": "edit", "prompt": "CHILD edits"})
    user = program(server({"PARENT": [task, say("done")], "CHILD": steps, "GO-ON": [say("gone on")]}))
    prepare(user)
    assert user.ask("PARENT").out == "done\n"
    (child,) = [path for path in user.transcripts() if path.match("transcript-subagent-*")]
    cut_behind(user, begun("Edit"), child.name.removeprefix("transcript-").removesuffix(".jsonl"))
    cut_behind(user, begun("Task"))
    prepare(user)
    intent = read_records(child)[-1].payload["intent"]
    user.write(intent["temp"], "half of it")
    before = child.read_bytes()
    (found,) = user.recover(user.session_id())["uncertain_actions"]
    assert [one["verdict"] for one in found["children"]] == ["not_applied"]
    assert strays(user.workspace) == [intent["temp"]]  # to look changes nothing
    assert user.resume(user.session_id(), "GO-ON").out == "gone on\n"
    assert strays(user.workspace) == []
    assert child.read_bytes() == before


# -- the judge is no yes-man


def world(**log: int) -> World:
    """A world with one edit made, one not made, one new file torn, and a subagent without an answer."""
    lines = Counter({line.replace("_", " "): count for line, count in log.items()})
    files = {"a.txt": CHANGES["a.txt"].after, "b.txt": str(CHANGES["b.txt"].before), "new.txt": "torn"}
    return World(lines, files, child_exists=True, child_answered=False, at_work=frozenset(), is_opened=True)


SLOW, WATCHER = {"description": "slow"}, {"description": "watcher"}
SLOW_END: JsonObject = {"exit_code": 3, "stdout_bytes": len(COMMANDS["slow"].output), "why": "ended"}
DEATH: JsonObject = {"exit_code": None, "stdout_bytes": 0, "why": "agent_died"}
TRUTHS: tuple[tuple[str, JsonObject, JsonObject, World, Verdict], ...] = (
    ("Edit", {"file_path": "a.txt"}, {}, world(), Verdict.APPLIED),
    ("Edit", {"file_path": "b.txt"}, {}, world(), Verdict.NOT_APPLIED),
    ("Write", {"file_path": "new.txt"}, {}, world(), Verdict.CHANGED_SINCE),
    ("Write", {"file_path": "child.txt"}, {}, world(), Verdict.NOT_APPLIED),
    ("Task", {}, {}, world(), Verdict.INTERRUPTED),
    ("Task", {}, {}, replace(world(), child_answered=True), Verdict.COMPLETED),
    ("Task", {}, {}, replace(world(), child_exists=False), Verdict.NOT_STARTED),
    ("Bash", SLOW, SLOW_END, world(), Verdict.NOT_STARTED),
    ("Bash", SLOW, SLOW_END, world(slow_begun=1, slow_ended=1), Verdict.FINISHED),
    ("Bash", SLOW, SLOW_END, replace(world(slow_begun=1), at_work=frozenset({"slow"})), Verdict.RUNNING),
    ("Bash", WATCHER, DEATH, world(watcher_begun=1), Verdict.KILLED),
    ("Read", {}, {}, world(), Verdict.NO_EFFECT),
)


@pytest.mark.parametrize(("tool", "arguments", "evidence", "seen", "truth"), TRUTHS)
def test_the_judge_objects_to_every_falsified_verdict(
    tool: str, arguments: JsonObject, evidence: JsonObject, seen: World, truth: Verdict
) -> None:
    def opinion(verdict: Verdict, facts: JsonObject) -> str:
        return judge({"tool_name": tool, "arguments": arguments, "verdict": verdict, "evidence": facts}, seen)

    wanted = {verdict: RIGHT if verdict is truth else WRONG for verdict in Verdict}
    wanted[Verdict.UNKNOWN] = UNDECIDED if tool == "Bash" else WRONG
    assert {verdict: opinion(verdict, evidence) for verdict in Verdict} == wanted
    if truth is Verdict.FINISHED:
        assert opinion(truth, {**evidence, "exit_code": 0}) == WRONG
        assert opinion(truth, {**evidence, "stdout_bytes": 0}) == WRONG


# -- around the start of the supervisor


@dataclass(frozen=True)
class Round:
    """Seconds after the moment at which the supervisor appears; `halt_s`: when the supervisor is held up."""

    number: int
    kill_s: float
    halt_s: float | None
    go_on_s: float  # after the resume has begun


def make_round(number: int, dice: random.Random) -> Round:
    """Every third kill comes at once; in every third round the supervisor is as slow as on the busiest machine."""
    kill_s = 0.0 if number % 3 == 0 else dice.uniform(0, SLOWEST_START_S)
    return Round(number, kill_s, dice.uniform(0, SLOWEST_START_S) if number % 3 == 2 else None, dice.uniform(0, 0.8))


def test_a_command_whose_supervisor_was_just_spawned_is_never_called_not_started_when_it_runs(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    dice = random.Random(SEED)
    model = server({"SPAWN-IT": [Reply(calls=(SPAWNED.call(),))], "GO-ON": [say("gone on")]})
    counts = Counter[str]()

    def one(case: Round) -> None:
        user = program(model)
        supervisor = spawned_and_killed(user, case)
        process = user.start("-p", "GO-ON", "-r", user.session_id(), "--mode", "auto")
        if case.halt_s is not None:
            time.sleep(case.go_on_s)
            send(supervisor, signal.SIGCONT)
        done = process.result()
        assert (done.code, done.out) == (0, "gone on\n"), done
        decisions = settled(user.records())
        told = logged(user)
        user.assert_gone()
        after = look(user, frozenset(), is_opened=True)
        assert [judge(one, after) for one in decisions] == [RIGHT] * len(decisions), (decisions, after)
        assert told == after.log  # nothing ran once the model had been told
        assert_nothing_twice(user, commands_of(user.records()))
        counts.update([one["verdict"] for one in decisions] or ["recorded"])
        shutil.rmtree(user.folder)

    try:
        side_by_side(one, [make_round(number, dice) for number in range(ROUNDS)])
    finally:
        print(f"seed {SEED}: {dict(counts)}")
        battery(f"kill -9 right after the supervisor was spawned: {ROUNDS} rounds with seed {SEED}: {dict(counts)}")


def spawned_and_killed(user: Program, case: Round) -> int:
    """The pid of the supervisor whose agent was killed."""
    process = user.start("-p", "SPAWN-IT", "--mode", "auto")
    supervisor = spawned_supervisor(process)
    appeared = time.monotonic()
    acts = [(case.kill_s, process.kill)]
    if case.halt_s is not None:
        acts.append((case.halt_s, lambda: send(supervisor, signal.SIGSTOP)))
    for at_s, act in sorted(acts, key=lambda timed: timed[0]):
        time.sleep(max(0.0, appeared + at_s - time.monotonic()))
        act()
    return supervisor


def spawned_supervisor(process: Process) -> int:
    """Wait until the agent has a supervisor, and return its pid."""
    tasks = Path(f"/proc/{process.pid}/task")
    while True:
        assert process.is_running(), process.err()
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):
                for child in (task / "children").read_text().split():
                    if b"supervisor" in Path(f"/proc/{child}/cmdline").read_bytes():
                        return int(child)
        time.sleep(0.0005)


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


# -- the supervisor killed too

HOLD = f"echo begun >> {LOG}; sleep 30"
ESCAPE = f"setsid sh -c 'echo begun >> {LOG}; exec sleep 30' & wait"


def held(model: ModelServer, program: NewProgram, prompt: str) -> tuple[Program, Process, int, int]:
    """A user whose command is at work; the agent, the pids of its supervisor and of its shell."""
    user = program(model)
    process = user.start("-p", prompt, "--mode", "auto")
    while not user.read(LOG):
        assert process.is_running(), process.err()
        time.sleep(0.002)
    (claim,) = user.state.glob("projects/*/memory/outputs/*/*/claim")
    pids = json.loads(claim.read_text())
    return user, process, pids["supervisor"][0], pids["command"][0]


def test_an_agent_whose_supervisor_is_killed_ends_what_is_left_and_says_what_it_does_not_know(
    server: NewServer, program: NewProgram
) -> None:
    model = server({"ESCAPE": [bash(ESCAPE), say("told")]})
    user, process, supervisor, _ = held(model, program, "ESCAPE")
    os.kill(supervisor, signal.SIGKILL)
    done = process.result()
    assert (done.code, done.out) == (0, "told\n"), done
    user.assert_gone(0)
    said = model.last("ESCAPE").result_of("Bash")
    assert "supervisor was killed" in said
    assert user.read(LOG) == "begun\n"
    assert user.recover(user.session_id())["uncertain_actions"] == []


KILLED_TOGETHER = {
    "agent and supervisor": (HOLD, False, "running"),
    "agent and supervisor, a member in a session of its own": (ESCAPE, False, "running"),
    "all process groups": (HOLD, True, "unknown"),
    "all process groups, a member in a session of its own": (ESCAPE, True, "running"),
}


@pytest.mark.parametrize("case", KILLED_TOGETHER)
def test_what_survives_agent_and_supervisor_is_found_by_its_mark_and_stopped(
    server: NewServer, program: NewProgram, case: str
) -> None:
    command, whole_groups, verdict = KILLED_TOGETHER[case]
    model = server({"HOLD": [bash(command), say("never")], "GO-ON": [say("gone on")]})
    user, process, supervisor, shell = held(model, program, "HOLD")
    process.kill()
    if whole_groups:
        for group in (supervisor, shell):
            os.killpg(group, signal.SIGKILL)
    else:
        os.kill(supervisor, signal.SIGKILL)
    while any("supervisor" in one.command or one.pid == shell for one in user.survivors()):
        time.sleep(0.002)  # the shell follows its supervisor
    (found,) = user.recover(user.session_id())["uncertain_actions"]
    assert found["verdict"] == verdict
    pids = sorted(one.pid for one in marked_with(found["action_id"]))
    assert found["evidence"].get("pids", []) == pids == sorted(one.pid for one in user.survivors())
    assert bool(pids) is (verdict == "running")
    done = user.resume(user.session_id(), "GO-ON", "--on-uncertain", "skip")
    assert (done.code, done.out) == (0, "gone on\n"), done
    user.assert_gone(0)
    assert user.read(LOG) == "begun\n"
    (decision,) = transitions(user.records(), "recovery_decided")
    assert (decision["verdict"], decision["choice"]) == ("unknown", "stop" if pids else "skip")
