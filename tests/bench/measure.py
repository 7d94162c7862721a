"""How CPU time is taken: in one run, alternating with what it is compared to, and the median of several."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.kit.checkout import CHECKOUT
from tests.kit.program import Program


@dataclass(frozen=True)
class Row:
    """One line of the table. `budget` is the most that design allows, in the same unit; None where it sets none."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    note: str = ""


def cpu_of(command: Sequence[str], program: Program) -> float:
    """CPU seconds of a command from its start to its end, with the children that it waited for."""
    with (program.folder / "bench.out").open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=program.workspace,
            env=program.environment(),
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}: {(program.folder / 'bench.out').read_text()}")
    return usage.ru_utime + usage.ru_stime


def python_cpu(statement: str, program: Program) -> float:
    """CPU seconds of `python -c statement`."""
    return cpu_of([sys.executable, "-c", statement], program)


def ratio(measured: Callable[[], float], base: Callable[[], float], runs: int) -> tuple[float, float]:
    """The medians of both, taken by turns so that a busy machine slows both: (their ratio, the first in seconds)."""
    pairs = [(measured(), base()) for _ in range(runs)]
    top, bottom = (median(values) for values in zip(*pairs, strict=True))
    return top / bottom, top


class ServerProcess:
    """`tests.bench.serve` in a process of its own."""

    def __init__(self, steps: int, held: Sequence[int]) -> None:
        words = [str(number) for number in (steps, *held)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.serve", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        self.url = self._line()

    def wait_for_request(self, number: int) -> None:
        """Wait until the request with this number has come."""
        while int(self._line()) != number:
            pass

    def go_on(self) -> None:
        """Let the held request be answered."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the model server has ended")
        return line.strip()


@contextlib.contextmanager
def user_of_server(folder: Path, steps: int, held: Sequence[int]) -> Iterator[tuple[Program, ServerProcess]]:
    """A user of the program whose model is a server in a process of its own."""
    server = ServerProcess(steps, held)
    settings = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "dummy", "MYCODEAGENT_MODEL": "scripted"}
    program = Program(folder, env=settings)
    try:
        yield program, server
    finally:
        program.close()
        server.close()
