"""Interactive or one shot: what the command line and the three standard streams ask for."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import stat
import sys
from dataclasses import replace

from agent.errors import ConfigError
from agent.terminal.options import Options, OutputFormat

PIPE_WAIT_S = 2.0  # for the first byte, when there is a prompt already: a pipe that nobody closes must not hang the run


def run(options: Options) -> int:
    """Run what the options ask for; the exit code."""
    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.CRITICAL, format="%(levelname)s %(name)s: %(message)s"
    )
    logging.raiseExceptions = False  # a closed stderr must not make a message about a message
    on_terminal = _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
    if options.print_ or not on_terminal:
        from agent.terminal.headless import run_headless

        return asyncio.run(run_headless(_one_shot(options)))
    if options.output_format is not OutputFormat.TEXT:
        raise ConfigError("--output-format goes with -p.")
    from agent.terminal.repl import run_repl

    return asyncio.run(run_repl(options))


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
