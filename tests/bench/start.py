"""How soon the program is there: `--help`, and the prompt on a terminal."""

from __future__ import annotations

import re
import time
from pathlib import Path

from tests.bench.measure import Row, cpu_of, python_cpu, ratio
from tests.kit.processes import cpu_seconds
from tests.kit.program import Program

RUNS = 9
PROMPT = "›|❯|(^|\n)> ".encode()
# prompt_toolkit has drawn its prompt when it has switched on bracketed paste and shown the prompt after that.
FULL_PROMPT = rb"\x1b\[\?2004h[\s\S]*(" + PROMPT + rb")"
TIMEOUT_S = 30


def rows(folder: Path) -> list[Row]:
    program = Program(folder)
    help_ratio, help_s = ratio(
        lambda: cpu_of([*program.command, "--help"], program), lambda: python_cpu("pass", program), RUNS
    )
    first, first_s = ratio(lambda: _cpu_until(PROMPT, program), lambda: python_cpu("pass", program), RUNS)
    full, full_s = ratio(lambda: _cpu_until(FULL_PROMPT, program), lambda: python_cpu("pass", program), RUNS)
    unit = "x python -c pass"
    return [
        Row("--help, CPU", help_ratio, unit, 10, f"{help_s * 1000:.0f} ms"),
        Row("first sign of the prompt, CPU", first, unit, 8, f"{first_s * 1000:.0f} ms"),
        Row("full prompt, CPU", full, unit, 18, f"{full_s * 1000:.0f} ms"),
    ]


def _cpu_until(pattern: bytes, program: Program) -> float:
    """CPU seconds of the program on a terminal until its output matches."""
    terminal = program.terminal()
    end = time.monotonic() + TIMEOUT_S
    try:
        while not re.search(pattern, terminal.raw()):
            if time.monotonic() > end:
                raise RuntimeError(f"no prompt after {TIMEOUT_S} s:\n{terminal.text()}")
            time.sleep(0.0005)
        return cpu_seconds(terminal.pid)
    finally:
        terminal.close()
