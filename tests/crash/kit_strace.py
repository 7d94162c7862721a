"""Faults at system calls, by `strace --inject` attached to a child that waits for it. Linux only.

The child is forked from the test's process with everything imported, so its calls are those of the code under test.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.crash.kit import Tell
from tests.crash.kit_children import Child, Ended

CALLS = ("open", "read", "write", "fdatasync", "fsync", "ftruncate", "rename", "mkdir", "unlink", "flock")
_ALLOW_TRACER = 0x59616D61  # PR_SET_PTRACER: where only ancestors may trace, strace is a sibling
_ANYBODY = ctypes.c_ulong(-1)


def why_not() -> str:
    """Why system calls cannot be tampered with here; "" when they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    try:
        traced(lambda tell: tell("alive"), Path(os.devnull))
    except PermissionError as error:
        return str(error)
    return ""


def traced(act: Callable[[Tell], None], log: Path, *, call: str = "", fault: str = "") -> Ended:
    """Run a function in a child under strace. Its calls are logged; a fault as `--inject` describes it meets `call`.

    Raises:
        PermissionError: this system lets nobody trace.
    """
    gate, theirs = socket.socketpair()

    def wait_and_act(tell: Tell) -> None:
        ctypes.CDLL(None).prctl(_ALLOW_TRACER, _ANYBODY, 0, 0, 0)
        tell("waiting")
        theirs.recv(1)  # not one of the calls that are traced
        act(tell)

    child = Child(wait_and_act)
    assert child.line() == "waiting"
    faults = ["-e", f"inject={_forms(call)}:{fault}"] if call else []
    command = ["strace", "-o", str(log), "-p", str(child.pid), "-e", f"trace={','.join(map(_forms, CALLS))}", *faults]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        gate.send(b"x")
        ended = child.end()
        tracer.stderr.read()
    gate.close()
    theirs.close()
    if "attached" not in said:
        raise PermissionError(f"strace may not attach here: {said.strip()}")
    return ended


def calls_in(log: Path) -> list[str]:
    """The names of the logged calls, in order, whatever form of them this machine has."""
    found = [re.match(r"([a-z]+?)(at2?)?\(", line) for line in log.read_text("utf-8", "replace").splitlines()]
    return [match[1] for match in found if match]


def _forms(call: str) -> str:
    """The names under which machines have a call; those that this one does not know are passed over."""
    return f"?{call},?{call}at,?{call}at2"
