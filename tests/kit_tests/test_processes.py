"""What the kit knows of running processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.kit.processes import cpu_seconds, kill_marked, marked_with, resident_bytes, tree_cpu_seconds

BURNS = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True); input()"


def test_the_cpu_time_of_a_process_is_that_of_its_own_clock() -> None:
    before = time.process_time()
    measured = cpu_seconds(os.getpid())
    assert before <= measured <= time.process_time()


def test_the_cpu_time_of_a_tree_holds_that_of_its_children() -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURNS!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert tree_cpu_seconds(process.pid) >= 0.2 > cpu_seconds(process.pid)
        assert resident_bytes(process.pid) > 1_000_000


def test_processes_are_found_and_killed_by_a_mark_in_their_environment() -> None:
    mark = f"KIT_TEST_MARK=mark-{os.getpid()}"
    name, _, value = mark.partition("=")
    with subprocess.Popen(["sleep", "60"], env={**os.environ, name: value}) as process:
        assert [(found.pid, found.command) for found in marked_with(mark)] == [(process.pid, "sleep 60")]
        kill_marked(mark)
        assert (process.wait(), marked_with(mark)) == (-9, [])
