"""The way in, of a checkout and of an installed copy alike."""

from __future__ import annotations

import sys
from typing import NoReturn

from agent.terminal.faults import leave


def main() -> NoReturn:
    """Run the program and leave with its exit code. An error is one sentence; --debug shows where it arose."""
    leave(_program, debug="--debug" in sys.argv)


def _program() -> None:
    if len(sys.argv) == 1:  # nothing is there to be parsed: typer would double the time to the first sign of the prompt
        from agent.terminal.options import Options
        from agent.terminal.start import run

        raise SystemExit(run(Options()))
    from agent.terminal.app import PROGRAM, app

    app(prog_name=PROGRAM)
