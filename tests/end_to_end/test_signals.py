"""SIGINT, SIGTERM, SIGHUP and a closed terminal end the program in order, whatever it is doing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Process, Program
from tests.kit.script import Reply, Script, bash, say
from tests.kit.side_by_side import side_by_side
from tests.kit.terminal import Terminal
from tests.kit.transcript import Record, breaches, end_of

# A tree that does not want to end: a child in a session of its own, and one that ignores every request.
TREE = (
    "sh -c 'sleep 77 & sleep 78' & setsid sleep 79 & (trap '' TERM INT HUP; sleep 80; sleep 81) & "
    "echo up >> effects.log; sleep 82; echo late >> effects.log"
)
TALK = Reply("Words that come one after the other. " * 60, pieces=240, pause_s=0.05)
SCRIPT: Script = {"RUN-TREE": [bash(TREE), say("never reached")], "TALK-SLOWLY": [TALK], "GO-ON": [say("gone on")]}
ENDS = {
    signal.SIGINT: (130, "interrupted"),
    signal.SIGTERM: (143, "terminated"),
    signal.SIGHUP: (129, "hangup"),
}


@dataclass(frozen=True)
class Case:
    marker: str
    on_terminal: bool
    number: signal.Signals  # SIGHUP on a terminal: its window is closed
    times: int = 1


CASES = [
    *(Case(marker, False, number) for marker in ("RUN-TREE", "TALK-SLOWLY") for number in ENDS),
    *(Case(marker, True, number) for marker in ("RUN-TREE", "TALK-SLOWLY") for number in list(ENDS)[1:]),
    Case("RUN-TREE", False, signal.SIGINT, times=3),
    Case("RUN-TREE", False, signal.SIGTERM, times=2),
]


def test_every_signal_ends_the_program_in_order(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    def one(case: Case) -> None:
        model = server(SCRIPT)
        user = program(model)
        code, reason = ENDS[case.number]
        assert (end_on_terminal if case.on_terminal else end_without_terminal)(user, case) == code
        user.assert_gone()
        assert_recorded(user.records(), case, reason)
        assert breaches(user.transcript()) == []
        if case.on_terminal or case.times > 1:
            return
        done = user.resume(user.session_id(), "GO-ON")
        assert (done.code, done.out) == (0, "gone on\n")
        assert "no recorded result" not in done.err
        request = model.last("GO-ON")
        if case.marker == "RUN-TREE":
            assert user.read("effects.log") == "up\n"
            assert len(request.results()) == 1
        else:
            assert [TALK.text.startswith(text) for text in request.texts("assistant")] == [True]

    side_by_side(one, CASES)
    battery(f"signals: {len(CASES)} cases, no process left in any")


def assert_recorded(records: list[Record], case: Case, reason: str) -> None:
    assert end_of(records) == reason
    if case.marker == "RUN-TREE":
        (failed,) = [record.payload for record in records if record.is_action("failed")]
        assert failed["error"]["code"] == "INTERRUPTED"
    else:
        (message,) = [record.payload for record in records if record.is_message("assistant")]
        assert message["metadata"] == {"interrupted": True}


def end_without_terminal(user: Program, case: Case) -> int:
    process = user.start("-p", case.marker, "--mode", "auto")
    wait_until_at_work(user, process, case)
    for _ in range(case.times):
        process.signal(case.number)
        time.sleep(0.05)
    done = process.result(timeout_s=12)
    assert user.session_id() in done.err
    assert "Traceback" not in done.err
    return done.code


def end_on_terminal(user: Program, case: Case) -> int:
    terminal = user.terminal("--mode", "auto")
    terminal.wait_for("/help helps")
    terminal.wait_for_prompt()
    terminal.enter(case.marker)
    wait_until_at_work(user, terminal, case)
    if case.number is signal.SIGHUP:
        terminal.hang_up()
    else:
        terminal.signal(case.number)
    return terminal.wait_exit(timeout_s=12)


def wait_until_at_work(user: Program, process: Process | Terminal, case: Case) -> None:
    """Wait until the command runs, or a part of the answer is in the draft."""
    end = time.monotonic() + 30
    while not (user.read("effects.log") if case.marker == "RUN-TREE" else drafted(user)):
        assert process.is_running() and time.monotonic() < end
        time.sleep(0.01)


def drafted(user: Program) -> int:
    """Bytes in the draft of the session."""
    return sum(size_of(path.with_suffix(".draft")) for path in user.transcripts())


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_sigint_ends_with_the_result_object(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    process = user.start("-p", "RUN-TREE", "--mode", "auto", "--output-format", "json")
    wait_until_at_work(user, process, CASES[0])
    process.signal(signal.SIGINT)
    value = process.result(timeout_s=12).json()
    assert (value["status"], value["terminal_reason"], value["exit_code"]) == ("interrupted", "interrupted", 130)
    assert (value["steps"], value["response"], value["uncertain_actions"]) == (1, "", [])
    user.assert_gone()


def test_ctrl_d_while_a_command_runs_ends_it(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    terminal = user.terminal("--mode", "auto")
    terminal.wait_for("/help helps")
    terminal.enter("RUN-TREE")
    wait_until_at_work(user, terminal, CASES[0])
    terminal.press("ctrl-d")
    assert terminal.wait_exit(timeout_s=12) == 0
    user.assert_gone()
    assert end_of(user.records()) == "interrupted"
    assert breaches(user.transcript()) == []


def test_ctrl_c_while_the_program_starts_ends_it_without_a_traceback(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    def one(wait_s: float) -> bool:
        user = program(server(SCRIPT))
        process = user.start("-p", "GO-ON", "--mode", "auto")
        time.sleep(wait_s)
        process.signal(signal.SIGINT)
        done = process.result(timeout_s=12)
        begun = bool(user.transcripts())
        assert not begun or breaches(user.transcript()) == []
        if done.code == -signal.SIGINT:  # Python itself was not ready yet
            assert not begun
            return False
        assert done.code in (0, 130)
        assert "Traceback" not in done.err
        return begun

    waits = [0.15 + 0.1 * number for number in range(6)]
    begun = side_by_side(one, waits)
    battery(f"Ctrl+C while it starts: {len(waits)} moments, a session had begun in {sum(begun)}")
