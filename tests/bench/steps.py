"""From launch to the first model request, and what a step costs while the history grows."""

from __future__ import annotations

import time
from pathlib import Path

from tests.bench.measure import Row, ServerProcess, python_cpu, ratio, user_of_server
from tests.bench.serve import FILE
from tests.kit.processes import resident_bytes, tree_cpu_seconds
from tests.kit.program import AUTO, Process, Program

RUNS = 5
STEPS = 2000
WINDOW = 8  # steps on either side of the one that is looked at: a single one is too short to time
PLACES = (10, 200, 1000)
MEGABYTE = 1_000_000
QUIET_S = 0.05


def rows(folder: Path) -> list[Row]:
    found = [*_first_request_rows("a fresh session", folder / "fresh", None)]
    steps, long_user = _step_rows(folder / "steps")
    return [*found, *steps, *_first_request_rows(f"a session of {STEPS:,} turns", folder / "resumed", long_user)]


def _first_request_rows(what: str, folder: Path, like: Program | None) -> list[Row]:
    """CPU from launch until the server has the first request, and memory at that moment."""
    memory: list[int] = []
    with user_of_server(folder, 0, range(RUNS)) as (program, server):
        if like is not None:
            program = _with_state_of(like, program)
        args = ["-r", like.session_id()] if like is not None else []
        numbers = iter(range(RUNS))

        def launch() -> float:
            process = program.start("-p", "go on", *args, *AUTO)
            server.wait_for_request(next(numbers))
            cpu_s = tree_cpu_seconds(process.pid)
            memory.append(resident_bytes(process.pid))
            server.go_on()
            process.result()
            return cpu_s

        times, cpu_s = ratio(launch, lambda: python_cpu("import openai", program), RUNS)
    return [
        Row(
            f"launch to first request, {what}, CPU", times, "x python -c 'import openai'", 1.4, f"{cpu_s * 1000:.0f} ms"
        ),
        Row(f"memory at the first request, {what}", max(memory) / MEGABYTE, "MB", 100),
    ]


def _with_state_of(like: Program, program: Program) -> Program:
    """The user of the new server, with workspace and sessions of another."""
    program.workspace, program.state = like.workspace, like.state
    return program


def _step_rows(folder: Path) -> tuple[list[Row], Program]:
    """CPU of one step (a model turn with a trivial Read) of the whole process tree, at several ages of a run."""
    marks = sorted({number for place in PLACES for number in (place - WINDOW, place + WINDOW)})
    with user_of_server(folder, STEPS, marks) as (program, server):
        program.write(FILE, "one line\n")
        process = program.start("-p", "read it again and again", *AUTO, "--max-steps", str(STEPS + 1))
        cpu_s = {number: _cpu_at(number, process, server) for number in marks}
        result = process.result(600)
        if result.code != 0:
            raise RuntimeError(f"the run of {STEPS} steps ended with {result.code}: {result.err[-1000:]}")
    costs_ms = {place: (cpu_s[place + WINDOW] - cpu_s[place - WINDOW]) / (2 * WINDOW) * 1000 for place in PLACES}
    first, *later = PLACES
    found = [Row(f"one step at step {first}, CPU", costs_ms[first], "ms")]
    for place in later:
        found.append(Row(f"one step at step {place:,}, CPU", costs_ms[place], "ms", 8))
        found.append(Row(f"step {place:,} compared with step {first}", costs_ms[place] / costs_ms[first], "x", 1.2))
    return found, program


def _cpu_at(number: int, process: Process, server: ServerProcess) -> float:
    """CPU seconds of the tree so far, when the request of this number waits for its answer and all is quiet."""
    server.wait_for_request(number)
    time.sleep(QUIET_S)  # what the program does after sending belongs to the step before
    cpu_s = tree_cpu_seconds(process.pid)
    server.go_on()
    return cpu_s
