"""Children of the test's process: they run a function of the test, say what they did, and may be killed at any time."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.crash.kit import Tell

LIFE_S = 120  # a child that hangs is ended by its alarm, and its test fails


@dataclass(frozen=True)
class Ended:
    """How a child ended, and the lines that it told."""

    status: int  # as os.waitstatus_to_exitcode gives it: negative for a signal
    told: list[str]

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Child:
    """A forked process that runs `act` and ends with 0, or with 1 after an exception, whose traceback it tells.

    What it tells goes through a socket: so its `write` calls are those of the code under test alone.
    """

    def __init__(self, act: Callable[[Tell], None]) -> None:
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            _live(act, theirs)
        theirs.close()
        self._socket = ours

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def line(self) -> str:
        """The next line that it tells; "" when it has ended."""
        found = bytearray()
        while not found.endswith(b"\n"):
            byte = self._socket.recv(1)
            if not byte:
                break
            found += byte
        return found.decode().strip()

    def end(self) -> Ended:
        """Wait for its end."""
        parts = []
        with contextlib.suppress(ConnectionResetError):
            while part := self._socket.recv(1 << 16):
                parts.append(part)
        _, status = os.waitpid(self.pid, 0)
        self._socket.close()
        return Ended(os.waitstatus_to_exitcode(status), b"".join(parts).decode().splitlines())


def in_child(act: Callable[[Tell], None]) -> Ended:
    """Run a function in a child, to its end."""
    return Child(act).end()


def _live(act: Callable[[Tell], None], theirs: socket.socket) -> None:
    """The life of a child; never returns."""
    code = 1
    try:
        signal.alarm(LIFE_S)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        act(lambda text: theirs.sendall(text.replace("\n", " ").encode() + b"\n"))
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, a child must not go on as a second pytest
        with contextlib.suppress(OSError):
            theirs.sendall(f"traceback {traceback.format_exc()!r}\n".encode())
    finally:
        os._exit(code)
