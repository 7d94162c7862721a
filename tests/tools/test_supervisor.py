"""The supervisor: trees, limits, secrets, and what stays known when somebody is killed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tools.command_kit import ROOT, Bench, eventually, eventually_in_loop, in_loop
from tools import supervisor
from tools.base import ErrorCode
from tools.command import CommandNotStarted, SupervisorLost, read_ends, read_outcome
from tools.evidence import probe_command, read_claim, seal_command, stop_running, wait_for_outcome
from tools.processes import Process, here, marked
from tools.supervisor import HEAD_BYTES, TAIL_BYTES, start_time
from tools.verdict import Json, Verdict

INTENT: dict[str, Json] = {"cwd": "/", "timeout_s": 20.0, "background": False, **here()._asdict()}


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


# -- trees and limits


@pytest.mark.parametrize(
    "command",
    [
        "sleep 300 | cat",
        "for i in 1 2 3; do (while :; do :; done) & done; sleep 300",
        "(trap '' TERM; sleep 300; sleep 300) & sleep 300",
        "setsid sh -c \"trap '' TERM; while :; do sleep 300; done\" & sleep 300",
        "(setsid setsid sleep 300 &) ; sleep 300",
        "kill -STOP $$",
        "trap 'sleep 300 & setsid sleep 300' TERM; while :; do sleep 0.05; done",
    ],
)
@in_loop
async def test_k22_a_timeout_ends_the_whole_tree(tmp_path: Path, command: str) -> None:
    async with Bench(tmp_path) as bench:
        result = await bench.run(f"echo begun; {command}", timeout_ms=300)
        assert marked(bench.last.action_id) == []
        assert result.error_code == ErrorCode.TIMEOUT and result.text.startswith("begun\n")
        assert "[timed out after 0.3 s " in result.text
        outcome = read_outcome(bench.last.place)
        assert outcome is not None and (outcome.timed_out, outcome.why, outcome.stuck) == (True, "timeout", ())


@in_loop
async def test_k22_ended_programs_may_clean_up_first(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await bench.run("trap 'echo cleaned > note; exit 7' TERM; sleep 300 & wait", timeout_ms=300)
        assert (bench.workspace / "note").read_text() == "cleaned\n"


@pytest.mark.parametrize(
    ("command", "timeout_ms"),
    [
        ("yes | head -c 300000000", 60_000),
        ("head -c 200000000 /dev/zero | tr '\\0' a; echo END", 60_000),
        ("cat /dev/zero", 1000),
        ("yes >&2", 1000),
    ],
)
@in_loop
async def test_k23_output_without_end_takes_constant_memory_and_disk(
    tmp_path: Path, command: str, timeout_ms: int
) -> None:
    async with Bench(tmp_path, secrets=["sk-yes-zero"]) as bench:
        # A process left behind keeps the supervisor, so that its peak can be read after the work.
        await bench.run(f"sleep 300 > /dev/null & {command}", timeout_ms=timeout_ms)
        outcome = read_outcome(bench.last.place)
        assert outcome is not None
        if not outcome.timed_out:
            assert peak_kb(supervisor_of(bench.last.place)) < 18_000
        assert outcome.stdout_bytes + outcome.stderr_bytes > HEAD_BYTES + TAIL_BYTES
        assert outcome.stdout_kept + outcome.stderr_kept == HEAD_BYTES + TAIL_BYTES
        assert sum(path.stat().st_size for path in bench.last.place.iterdir()) < HEAD_BYTES + TAIL_BYTES + 4096


def peak_kb(process: Process) -> int:
    status = supervisor.read_file(f"/proc/{process.pid}/status").decode()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def seq(last: int) -> bytes:
    return subprocess.run(["seq", str(last)], capture_output=True, check=True).stdout


@in_loop
async def test_the_ring_gives_the_last_bytes_in_order(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await bench.run("seq 1 11000000", timeout_ms=60_000)  # 86,888,896 bytes
        whole = seq(11_000_000)
        ends = read_ends(bench.last.place / "stdout", 1_000_000)
        assert (ends.total, ends.head, ends.tail) == (len(whole), whole[:1_000_000], whole[-1_000_000:])
        ends = read_ends(bench.last.place / "stdout", HEAD_BYTES)
        assert (ends.head, ends.tail) == (whole[:HEAD_BYTES], whole[-TAIL_BYTES:])


@in_loop
async def test_survivors_may_go_on_writing(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        result = await bench.run("yes & echo done >&2")
        assert result.exit_code == 0 and "still running" in result.text
        before = read_ends(bench.last.place / "stdout", 0).total
        assert await eventually_in_loop(lambda: read_ends(bench.last.place / "stdout", 0).total > before + 100_000_000)
        await bench.runner.close()
        assert marked(bench.last.action_id) == []


@in_loop
async def test_a_full_disk_loses_output_but_not_the_outcome(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        # A file size limit stands in for the disk: it hits the spool only, as the outcome's block is there before.
        action = bench.action()
        running = await bench.runner.start(
            "until [ -e go ]; do sleep 0.01; done; seq 1 100000; exit 5",
            cwd=bench.workspace,
            timeout_s=20,
            action=action,
        )
        claim = read_claim(action.place)
        assert claim is not None
        resource.prlimit(claim.supervisor[0], resource.RLIMIT_FSIZE, (100_000, 100_000))
        (bench.workspace / "go").touch()
        outcome = await running.outcome
        assert (outcome.exit_code, outcome.stdout_bytes, outcome.stdout_kept) == (5, 588_895, 100_000)
        assert outcome.spool_error == os.strerror(27)
        assert read_outcome(action.place) == outcome


@in_loop
async def test_a_place_without_room_starts_nothing(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(CommandNotStarted, match="File too large"):
                await bench.runner.run("touch ran", cwd=bench.workspace, timeout_s=5, action=bench.last)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not (bench.workspace / "ran").exists()
        assert names(bench.last.place) == set()


# -- privacy


@pytest.mark.parametrize("umask", [0o022, 0o000])
@in_loop
async def test_everything_on_disk_is_private_and_nothing_else_is_left(tmp_path: Path, umask: int) -> None:
    async with Bench(tmp_path) as bench:
        before = os.umask(umask)
        try:
            await bench.run("umask; echo out; echo err >&2")
        finally:
            os.umask(before)
        assert names(bench.last.place) == {"claim", "outcome", "stdout", "stderr"}
        assert {path.stat().st_mode & 0o777 for path in bench.last.place.iterdir()} == {0o600}
        folders = [bench.last.place, *list(bench.last.place.parents)[:3]]
        assert [folder.name for folder in folders][1:] == [bench.outputs.name, "outputs", "memory"]
        assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
        assert (bench.last.place / "stdout").read_text() == f"{umask:04o}\nout\n"


@in_loop
async def test_a_silent_command_leaves_claim_and_outcome_only(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await bench.run("true")
        assert names(bench.last.place) == {"claim", "outcome"}


@in_loop
async def test_secrets_reach_no_process_list_no_environment_and_no_file(tmp_path: Path) -> None:
    key = "sk-test-0123456789"
    environment = {**os.environ, "OPENAI_API_KEY": key, "COPY_OF_IT": f"Bearer {key}"}
    async with Bench(tmp_path, secrets=[key], environment=environment) as bench:
        (bench.workspace / "key.txt").write_text(key)
        look = "env; for p in $$ $PPID; do tr '\\0' '\\n' < /proc/$p/environ; tr '\\0' ' ' < /proc/$p/cmdline; done"
        text = (await bench.run(look)).text
        assert f"MYCODEAGENT_ACTION={bench.last.action_id}\n" in text
        assert "OPENAI_API_KEY" not in text and "COPY_OF_IT" not in text and "API key" not in text
        assert (await bench.run("cat key.txt; head -c 9 key.txt >&2; sleep 0.1; tail -c 9 key.txt >&2")).text == (
            "[API key removed]\n[stderr]\n[API key removed]"
        )
        split = 'for i in $(seq ${#k}); do printf %s "${k:i-1:1}"; sleep 0.005; done'
        assert (await bench.run(f"k=$(cat key.txt); {split}; printf sk-te")).text == "[API key removed]sk-te"
        listed = await bench.run("bash -c 'sleep 300; : $0' $(cat key.txt) & echo started")
        assert "still running" in listed.text
        await bench.runner.close()
        kept = [path for path in bench.outputs.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
        assert kept == []


# -- claims and verdicts


@in_loop
async def test_a_sealed_place_starts_nothing(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        place = bench.last.place
        assert probe_command(INTENT, place).verdict == Verdict.UNKNOWN
        seal_command(INTENT, place)
        seal_command(INTENT, place)
        assert place.stat().st_mode & 0o777 == 0o700 and names(place) == {"claim"}
        with pytest.raises(CommandNotStarted, match="claimed already"):
            await bench.runner.run("touch ran", cwd=bench.workspace, timeout_s=5, action=bench.last)
        assert not (bench.workspace / "ran").exists() and names(place) == {"claim"}
        assert probe_command(INTENT, place).verdict == Verdict.NOT_STARTED


@in_loop
async def test_a_started_command_cannot_be_sealed(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        action = bench.action()
        running = await bench.runner.start("sleep 300", cwd=bench.workspace, timeout_s=20, action=action)
        claim = (action.place / "claim").read_bytes()
        seal_command(INTENT, action.place)
        assert (action.place / "claim").read_bytes() == claim
        found = probe_command(INTENT, action.place)
        shell = await running.started
        assert (found.verdict, found.facts["pids"], found.facts["supervised"]) == (Verdict.RUNNING, [shell], True)
        assert json.loads(claim)["boot_id"] == here().boot_id
        outcome = await stop_running(action.place)
        assert outcome is not None and (outcome.why, outcome.exit_code) == ("stopped", None)
        assert await running.outcome == outcome
        assert probe_command(INTENT, action.place).verdict == Verdict.KILLED


@pytest.mark.parametrize(
    ("command", "timeout_ms", "verdict", "words"),
    [
        ("exit 3", 20_000, Verdict.FINISHED, "exit 3 at "),
        ("kill -9 $$", 20_000, Verdict.KILLED, "ended by signal 9"),
        ("sleep 300", 200, Verdict.KILLED, "ended by its timeout"),
    ],
)
@in_loop
async def test_the_outcome_gives_the_verdict(
    tmp_path: Path, command: str, timeout_ms: int, verdict: Verdict, words: str
) -> None:
    async with Bench(tmp_path) as bench:
        await bench.run(command, timeout_ms=timeout_ms)
        found = probe_command(INTENT, bench.last.place)
        assert found.verdict == verdict and found.text.startswith(words)
        # The outcome is a fact on disk, wherever it is read.
        assert probe_command({**INTENT, "boot_id": "another"}, bench.last.place) == found


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"boot_id": "another"}, "restarted"),
        ({"boot_id": "another", "host": "elsewhere"}, "another host"),
        ({"pid_namespace": "pid:[1]"}, "container"),
    ],
)
@pytest.mark.parametrize("claimed", [False, True])
def test_nothing_is_known_and_nothing_sealed_from_elsewhere(
    tmp_path: Path, where: dict[str, Json], words: str, claimed: bool
) -> None:
    intent = {**INTENT, **where}
    if claimed:
        pid = os.getpid()
        (tmp_path / "claim").write_text(json.dumps({**intent, "supervisor": [pid, start_time(pid)], "command": [1, 1]}))
    seal_command(intent, tmp_path)
    found = probe_command(intent, tmp_path)
    assert found.verdict == Verdict.UNKNOWN and words in found.text
    assert names(tmp_path) == ({"claim"} if claimed else set())


# -- deaths

AGENT = """
import asyncio, os, sys
from pathlib import Path
from tools.base import Action
from tools.command import CommandRunner
async def main(workspace, place, mode, command):
    action = Action(Path(place).name, "call-1", Path(place), asyncio.Event())
    runner = CommandRunner(environment=os.environ)
    run = await runner.start(command, cwd=Path(workspace), timeout_s=20, action=action, background=mode == "bg")
    print("started", await run.started, flush=True)
    print("ended", (await run.outcome).exit_code, flush=True)
    await asyncio.sleep(600)
asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def agent(bench: Bench, command: str, mode: str = "fg", until: str = "started") -> Iterator[subprocess.Popen[str]]:
    """A process that has started a command, and that is killed at the end."""
    argv = [sys.executable, "-c", AGENT, str(bench.workspace), str(bench.last.place), mode, command]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert any(line.startswith(until) for line in process.stdout)
        try:
            yield process
        finally:
            process.kill()


def supervisor_of(place: Path) -> Process:
    claim = read_claim(place)
    assert claim is not None
    return Process(*claim.supervisor)


@in_loop
async def test_a_foreground_command_outlives_a_killed_agent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    place = bench.last.place
    with agent(bench, "until [ -e go ]; do sleep 0.02; done; echo out; exit 3"):
        pass
    assert probe_command(INTENT, place).verdict == Verdict.RUNNING
    (bench.workspace / "go").touch()
    outcome = await wait_for_outcome(place)
    assert outcome is not None and (outcome.exit_code, outcome.why) == (3, "ended")
    assert (place / "stdout").read_text() == "out\n"
    assert probe_command(INTENT, place).verdict == Verdict.FINISHED
    assert eventually(lambda: names(place) == {"claim", "outcome", "stdout"})


@in_loop
async def test_a_background_command_ends_with_a_killed_agent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with agent(bench, "setsid sleep 300 & sleep 300", mode="bg"):
        pass
    outcome = await wait_for_outcome(bench.last.place)
    assert outcome is not None and outcome.why == "agent_died"
    assert marked(bench.last.action_id) == []


def test_left_over_processes_end_with_a_killed_agent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with agent(bench, "setsid sleep 300 & echo done", until="ended 0"):
        assert len(marked(bench.last.action_id)) == 1
    assert eventually(lambda: not marked(bench.last.action_id))
    assert eventually(lambda: not supervisor_of(bench.last.place).is_alive())


def test_left_over_processes_of_an_orphaned_command_end_with_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with agent(bench, "setsid sleep 300 & until [ -e go ]; do sleep 0.02; done"):
        pass
    (bench.workspace / "go").touch()
    assert eventually(lambda: read_outcome(bench.last.place))
    assert eventually(lambda: not marked(bench.last.action_id))


@in_loop
async def test_survivors_of_agent_and_supervisor_are_found_by_their_mark(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    place = bench.last.place
    with agent(bench, "setsid sleep 300 & sleep 300"):
        assert eventually(lambda: own_session(place))
        (survivor,) = own_session(place)
        os.kill(supervisor_of(place).pid, signal.SIGKILL)
    assert eventually(lambda: not supervisor_of(place).is_alive())
    found = probe_command(INTENT, place)
    assert (found.verdict, found.facts["supervised"]) == (Verdict.RUNNING, False)
    assert survivor.pid in found.facts["pids"]  # type: ignore[operator]
    assert await stop_running(place) is None
    assert marked(place.name) == []
    assert probe_command(INTENT, place).verdict == Verdict.UNKNOWN


def own_session(place: Path) -> list[Process]:
    """Members that have left the session of the shell."""
    return [one for one in marked(place.name) if cmdline(one) == "sleep 300" and os.getsid(one.pid) == one.pid]


def cmdline(process: Process) -> str:
    return supervisor.read_file(f"/proc/{process.pid}/cmdline").replace(b"\0", b" ").decode().strip()


@in_loop
async def test_an_agent_whose_supervisor_is_killed_ends_what_is_left(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        running = await bench.runner.start("setsid sleep 300", cwd=tmp_path, timeout_s=20, action=bench.last)
        os.kill(supervisor_of(bench.last.place).pid, signal.SIGKILL)
        with pytest.raises(SupervisorLost):
            await running.outcome
        assert marked(bench.last.action_id) == []


def test_an_agent_that_dies_before_it_gave_the_order_starts_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", str(ROOT / "tools" / "supervisor.py"), str(tmp_path)]
    order = supervisor.encode_order(
        background=False, timeout_s=5, shell="/bin/sh", cwd=str(tmp_path), command="touch ran", secrets=[]
    )
    for sent in (b"", order[:1], order[:-1], order):  # the last: the agent is gone when the order is complete
        done = subprocess.run(argv, input=sent, capture_output=True, timeout=20)
        assert (done.returncode, done.stdout.removeprefix(b"refused the agent is gone\n"), done.stderr) == (0, b"", b"")
        assert names(tmp_path) == set()


def test_a_signal_to_a_stranger_with_a_used_pid_is_not_sent() -> None:
    with subprocess.Popen(["sleep", "300"]) as stranger:
        started = start_time(stranger.pid)
        assert started is not None
        Process(stranger.pid, started - 1).send(signal.SIGKILL)
        assert stranger.poll() is None
        Process(stranger.pid, started).send(signal.SIGKILL)
        assert stranger.wait() == -signal.SIGKILL
