"""Interactive or one shot: what the command line and the three standard streams ask for.

The sign of the prompt is shown here. What is imported at the top delays it.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
from dataclasses import replace

from agent.errors import ConfigError
from agent.terminal.faults import leave_at
from agent.terminal.instant_prompt import InstantPrompt
from agent.terminal.options import Options, OutputFormat

PIPE_WAIT_S = 2.0  # for the first byte, when there is a prompt already: a pipe that nobody closes must not hang the run


def run(options: Options) -> int:
    """Run what the options ask for; the exit code."""
    on_terminal = _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
    if options.print_ or not on_terminal:
        return _run_once(options)
    if options.output_format is not OutputFormat.TEXT:
        raise ConfigError("--output-format goes with -p.")
    with InstantPrompt() as sign:
        if options.resume is None and not options.continue_:  # else the recovery screen comes first
            leave_at(signal.SIGTERM, signal.SIGHUP)
            sign.show()
        return _run_interactive(options, sign)


def _run_once(options: Options) -> int:
    import asyncio

    _set_up_logging(options)
    from agent.terminal.headless import run_headless

    return asyncio.run(run_headless(_one_shot(options)))


def _run_interactive(options: Options, sign: InstantPrompt) -> int:
    import asyncio

    _set_up_logging(options)
    from agent.terminal.interactive import run_interactive

    return asyncio.run(run_interactive(options, sign))


def _set_up_logging(options: Options) -> None:
    import logging

    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.CRITICAL, format="%(levelname)s %(name)s: %(message)s"
    )
    logging.raiseExceptions = False  # a closed stderr must not make a message about a message


def _one_shot(options: Options) -> Options:
    """Join the prompt with what is piped in."""
    piped = _piped(has_prompt=options.prompt is not None)
    prompt = "\n\n".join(part for part in (options.prompt, piped) if part)
    resumes = options.resume is not None or options.continue_
    if not prompt and not (options.print_ and resumes):
        raise ConfigError(
            'There is nothing to do: give a prompt (mycodeagent -p "…"), pipe one in, or start it on a terminal.'
        )
    return replace(options, prompt=prompt or None, print_=True)


def _piped(*, has_prompt: bool) -> str:
    if sys.stdin is None or _is_terminal(sys.stdin):
        return ""
    try:
        fd = sys.stdin.fileno()
        waits = stat.S_ISFIFO(os.fstat(fd).st_mode) or stat.S_ISSOCK(os.fstat(fd).st_mode)
        if has_prompt and waits and not select.select([fd], [], [], PIPE_WAIT_S)[0]:
            return ""
        return sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""  # closed: nothing is piped in


def _is_terminal(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)
    try:
        return bool(isatty and isatty())
    except ValueError:  # closed
        return False
