"""The agent is killed around the start of a command: the verdict after the seal is never wrong."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from tests.tools.command_kit import eventually
from tools.base import Action
from tools.command import CommandRunner
from tools.evidence import probe_command, read_claim, seal_command
from tools.processes import Process, here, marked
from tools.supervisor import read_file
from tools.verdict import Json, Verdict

ROUNDS = 60
SLOWEST_START_S = 0.05
INTENT: dict[str, Json] = {"cwd": "/", "timeout_s": 20.0, "background": False, **here()._asdict()}


def forked_agent(place: Path, command: str) -> int:
    """Start a command from a process of its own; returns its pid at once."""
    pid = os.fork()
    if pid == 0:
        try:
            runner = CommandRunner(environment=os.environ)
            action = Action(place.name, "call-1", place, asyncio.Event())
            asyncio.run(runner.run(command, cwd=place.parent, timeout_s=20, action=action))
        finally:
            os._exit(0)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_an_agent_killed_around_the_start_never_leads_to_a_wrong_verdict(tmp_path: Path) -> None:
    dice, seen = random.Random(), Counter[str]()
    for number in range(ROUNDS):
        place = tmp_path / f"act-kill-{os.getpid()}-{number}"
        effect = tmp_path / f"effect-{number}"
        pid = forked_agent(place, f"echo x >> {effect}; sleep 0.02; exit 3")
        time.sleep(dice.uniform(0, SLOWEST_START_S))
        kill(pid)
        seal_command(INTENT, place)
        verdict = probe_command(INTENT, place).verdict
        seen[verdict] += 1
        assert verdict in (Verdict.NOT_STARTED, Verdict.RUNNING, Verdict.FINISHED)
        if verdict == Verdict.NOT_STARTED:
            # Even a supervisor that was still starting up has nothing to run any more.
            assert eventually(has_no_supervisor, place)
            assert not effect.exists()
        else:
            assert eventually(is_finished, place)
            assert effect.read_text() == "x\n"
        assert marked(place.name) == []
    print(f"{ROUNDS} kills: {dict(seen)}")


def test_agent_and_supervisor_killed_together_never_lead_to_a_wrong_verdict(tmp_path: Path) -> None:
    dice, seen = random.Random(), Counter[str]()
    for number in range(ROUNDS):
        place = tmp_path / f"act-both-{os.getpid()}-{number}"
        effect = tmp_path / f"effect-{number}"
        pid = forked_agent(place, f"echo x >> {effect}; sleep 0.02; echo y >> {effect}; exit 3")
        time.sleep(dice.uniform(0, SLOWEST_START_S))
        kill(pid)
        claim = read_claim(place) if (place / "claim").exists() else None
        if claim is not None:
            Process(*claim.supervisor).send(signal.SIGKILL)
            assert eventually(is_gone, Process(*claim.supervisor))
        assert eventually(has_no_member, place)
        seal_command(INTENT, place)
        found = probe_command(INTENT, place)
        if claim is None and found.verdict == Verdict.RUNNING:  # claimed after we looked: not killed
            assert eventually(is_finished, place)
            found = probe_command(INTENT, place)
        seen[found.verdict] += 1
        text = effect.read_text() if effect.exists() else ""
        assert (found.verdict, text) in {
            (Verdict.NOT_STARTED, ""),
            (Verdict.UNKNOWN, ""),
            (Verdict.UNKNOWN, "x\n"),
            (Verdict.UNKNOWN, "x\ny\n"),
            (Verdict.FINISHED, "x\ny\n"),
        }
    print(f"{ROUNDS} double kills: {dict(seen)}")


def is_finished(place: Path) -> bool:
    return probe_command(INTENT, place).verdict == Verdict.FINISHED


def is_gone(process: Process) -> bool:
    return not process.is_alive()


def has_no_member(place: Path) -> bool:
    return not marked(place.name)


def has_no_supervisor(place: Path) -> bool:
    """No process names the place in its arguments, not even one that has not claimed it yet."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and os.fsencode(place) in read_file(f"/proc/{entry.name}/cmdline"):
            return False
    return True
