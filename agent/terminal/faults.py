"""The top of the program: every error becomes one sentence on stderr and the right exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:  # asyncio is imported by those who have a loop
    from asyncio import AbstractEventLoop


def leave(program: Callable[[], object], *, debug: bool) -> NoReturn:
    """Run the program, say what went wrong, and leave the process."""
    code = 0
    _open_missing_streams()
    leave_at(signal.SIGINT)
    try:
        program()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else 1
    except BrokenPipeError:
        code = 0
    except Exception as error:
        if debug:
            raise
        code = say(error)
    _close_output()
    sys.exit(code)


def _open_missing_streams() -> None:
    """The number of a closed standard stream would go to the next file that is opened: to the transcript, at worst."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one


def leave_at(*numbers: signal.Signals) -> None:
    """Let these signals end the program at once, in the way of an error, until a loop takes them."""
    for number in numbers:
        signal.signal(number, _leave_at_once)


def _leave_at_once(number: int, _frame: object) -> NoReturn:
    """Ctrl+C before anything was begun."""
    raise SystemExit(128 + number)


def end_signals(loop: AbstractEventLoop) -> None:
    """All is done and recorded: a late signal must not change the exit code any more."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # between the two calls Python's own handlers stand there
    for number in numbers:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def say(error: Exception) -> int:
    """Print the sentence of an error; the exit code that it calls for."""
    code, sentence = explain(error)
    write_error(sentence)
    return code


def explain(error: Exception) -> tuple[int, str]:
    """Exit code and sentence of an error."""
    from agent.errors import AgentError
    from memory.errors import SessionBusy, TranscriptUnavailable

    if isinstance(error, AgentError):
        return error.exit_code, error.message
    if isinstance(error, SessionBusy):
        return 6, f"{error} Wait for it, or begin a new session with its history: add --fork."
    if isinstance(error, TranscriptUnavailable):
        return 7, str(error)
    if isinstance(error, OSError):
        return 1, f"{error.filename or 'A file'}: {error.strerror or error}."
    return 1, f"Internal error ({type(error).__name__}: {error}). Run again with --debug to see where it arose."


def write_error(text: str) -> None:
    """A line on stderr, which may be closed."""
    if sys.stderr is None:  # print would take stdout instead
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return


def _close_output() -> None:
    """Flush what is left; a reader that has gone away is no error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            # Python would try again at exit and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
