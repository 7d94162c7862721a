"""How soon the program is there: `--help`, and the prompt on a terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.measure import Row, cpu_of, python_cpu, ratio
from tests.kit.processes import cpu_seconds
from tests.kit.program import Program

RUNS = 9
PROMPT = "›|❯|(^|\n)> ".encode()
# prompt_toolkit has drawn its prompt when it has switched on bracketed paste and shown the prompt after that.
FULL_PROMPT = rb"\x1b\[\?2004h[\s\S]*(" + PROMPT + rb")"
ARGUMENTS = ("--mode", "auto")  # without any, there is nothing to parse
UNIT = "x python -c pass"
TIMEOUT_S = 30


def rows(folder: Path) -> list[Row]:
    program = Program(folder)
    help_ratio, help_s = ratio(
        lambda: cpu_of([*program.command, "--help"], program), lambda: python_cpu("pass", program), RUNS
    )
    return [
        Row("--help, CPU", help_ratio, UNIT, 10, f"{help_s * 1000:.0f} ms"),
        _prompt_row("first sign of the prompt", PROMPT, program, 8),
        _prompt_row("full prompt", FULL_PROMPT, program, 18),
        _prompt_row("first sign of the prompt, with arguments", PROMPT, program, 8, *ARGUMENTS),
        _prompt_row("full prompt, with arguments", FULL_PROMPT, program, 18, *ARGUMENTS),
    ]


def _prompt_row(name: str, pattern: bytes, program: Program, budget: float, *args: str) -> Row:
    value, seconds = ratio(lambda: _cpu_until(pattern, program, args), lambda: python_cpu("pass", program), RUNS)
    return Row(f"{name}, CPU", value, UNIT, budget, f"{seconds * 1000:.0f} ms")


def _cpu_until(pattern: bytes, program: Program, args: Sequence[str]) -> float:
    """CPU seconds of the program on a terminal until its output matches."""
    terminal = program.terminal(*args)
    end = time.monotonic() + TIMEOUT_S
    try:
        while not re.search(pattern, terminal.raw()):
            if time.monotonic() > end:
                raise RuntimeError(f"no prompt after {TIMEOUT_S} s:\n{terminal.text()}")
            time.sleep(0.0005)
        return cpu_seconds(terminal.pid)
    finally:
        terminal.close()
