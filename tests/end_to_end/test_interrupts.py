"""Ctrl+C again and again, at random moments: nothing that happened is without its record.

MYCODEAGENT_INTERRUPT_ROUNDS says how often; MYCODEAGENT_INTERRUPT_SEED repeats the rounds of an earlier run.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from collections.abc import Callable

from tests.conftest import NewProgram, NewServer
from tests.kit.model_server import ModelServer
from tests.kit.program import Program
from tests.kit.script import Call, Reply, Script, bash, call, say
from tests.kit.side_by_side import side_by_side
from tests.kit.terminal import Terminal
from tests.kit.transcript import arguments, breaches, outcomes, reached, read_records, results

ROUNDS = int(os.environ.get("MYCODEAGENT_INTERRUPT_ROUNDS", "9"))
SEED = os.environ.get("MYCODEAGENT_INTERRUPT_SEED", "") or secrets.token_hex(4)
BUSY_S = 2.2  # about what the work takes


def effect(name: str) -> str:
    return f"echo {name} >> effects.log; sleep 0.2; echo {name}-end >> effects.log"


SCRIPT: Script = {
    "BUSY-WORK": [
        Reply("First a file. " * 5, calls=(Call("Write", {"file_path": "a.txt", "content": "alpha\n"}),), pause_s=0.02),
        bash(effect("one")),
        Reply(calls=(Call("Read", {"file_path": "a.txt"}), Call("Grep", {"pattern": "alpha"}))),
        Reply(
            calls=(
                Call("Edit", {"file_path": "a.txt", "old_string": "alpha", "new_string": "beta"}),
                Call("Bash", {"command": effect("two"), "description": "two"}),
            )
        ),
        call("Task", {"description": "child", "prompt": "CHILD-WORK"}),
        bash(effect("three")),
        Reply("A long answer comes at the end. " * 10, pieces=20, pause_s=0.03),
    ],
    "CHILD-WORK": [bash(effect("child")), say("the child is done")],
    "NEXT-PROMPT": [say("went on")],
}


def test_ctrl_c_twice_and_three_times_at_random_moments_loses_nothing(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    ends: dict[str, int] = {}

    def one(number: int) -> None:
        dice = random.Random(f"{SEED}/{number}")
        model = server(SCRIPT)
        user = program(model)
        how = on_terminal if number % 2 else without_terminal
        ended = how(user, dice, presses=2 + number // 2 % 2)
        ends[ended] = ends.get(ended, 0) + 1
        assert_nothing_lost(user, model)

    side_by_side(one, range(ROUNDS))
    battery(f"Ctrl+C two and three times: {ROUNDS} rounds with MYCODEAGENT_INTERRUPT_SEED={SEED}, {ends}")


def without_terminal(user: Program, dice: random.Random, presses: int) -> str:
    process = user.start("-p", "BUSY-WORK", "--mode", "auto")
    process.wait_until(reached(3))
    time.sleep(dice.uniform(0, BUSY_S))
    for _ in range(presses):
        process.signal(signal.SIGINT)
        time.sleep(dice.choice((0, 0.001, 0.02, 0.1)))
    done = process.result(timeout_s=15)
    assert "Traceback" not in done.err
    assert done.code in (0, 130)
    user.assert_gone()
    assert user.resume(user.session_id(), "NEXT-PROMPT").out == "went on\n"
    return f"exit {done.code}"


def on_terminal(user: Program, dice: random.Random, presses: int) -> str:
    terminal = user.terminal("--mode", "auto")
    terminal.wait_for("/help helps")
    terminal.wait_for_prompt()
    terminal.enter("BUSY-WORK")
    end = time.monotonic() + 10
    while len(user.records()) < 3:
        assert time.monotonic() < end
        time.sleep(0.005)
    time.sleep(dice.uniform(0, BUSY_S))
    for _ in range(presses):
        if terminal.is_running():
            terminal.press("ctrl-c")
        time.sleep(dice.choice((0, 0.001, 0.02, 0.1)))
    return go_on(user, terminal)


def go_on(user: Program, terminal: Terminal) -> str:
    """Send the next prompt, in the same process where it is still there: pressed often enough, Ctrl+C leaves."""
    try:
        terminal.wait_for(r"interrupted|Ctrl\+C again", timeout_s=10)
        terminal.enter("NEXT-PROMPT")
        terminal.wait_for("went on")
        terminal.press("ctrl-d")
        assert terminal.wait_exit(10) == 0
        ended = "went on at the prompt"
    except (AssertionError, OSError):
        if terminal.is_running():
            raise
        assert terminal.wait_exit() == 130
        assert user.resume(user.session_id(), "NEXT-PROMPT").out == "went on\n"
        ended = "left"
    user.assert_gone()
    return ended


def assert_nothing_lost(user: Program, model: ModelServer) -> None:
    """Every action that started has its outcome, every effect its action, and the next request all of it."""
    finished: list[str] = []
    for path in user.transcripts():
        assert breaches(path) == []
        records = read_records(path)
        assert set(outcomes(records).values()) <= {1}
        texts = arguments(records)
        finished += [texts[ident] for ident in results(records)]
    effects = user.read("effects.log").split()
    assert len(effects) == len(set(effects))
    for line in effects:
        assert sum(f"echo {line} " in text for text in finished) == 1
    assert user.read("a.txt") in ("", "alpha\n", "beta\n")
    request = model.last("NEXT-PROMPT")
    assert [call.id for call in request.calls()] == list(arguments(user.records()))
    assert request.results() == {ident: text or "(no output)" for ident, text in results(user.records()).items()}
