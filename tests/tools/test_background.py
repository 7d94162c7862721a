"""Background commands: started at once, read piece by piece, ended whole, and still known when their agent is gone."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.tools.command_kit import Bench, eventually_in_loop, in_loop
from tools.background import BackgroundCommand, BackgroundCommands
from tools.base import CallRefused, ErrorCode, ToolResult
from tools.bash import BashParams
from tools.bash_output import BashOutput, BashOutputParams
from tools.command import read_ends
from tools.evidence import probe_background, read_claim, wait_until_stopped
from tools.kill_bash import KillBash, KillBashParams
from tools.output_text import OUTPUT_CHARS_MAX, Spooled
from tools.processes import marked
from tools.supervisor import HEAD_BYTES, TAIL_BYTES
from tools.verdict import Json, Verdict

UNTIL_GO = "until [ -e go ]; do sleep 0.01; done"


async def start(bench: Bench, command: str, timeout_ms: int | None = None) -> ToolResult:
    bench.last = bench.action()
    plan = await bench.bash.plan(BashParams(command=command, timeout=timeout_ms, run_in_background=True))
    await bench.bash.intent(plan, bench.last)
    return await bench.bash.act(plan, bench.last)


async def output(bench: Bench, bash_id: str = "bash-1") -> ToolResult:
    tool = BashOutput(bench.background)
    return await tool.act(await tool.plan(BashOutputParams(bash_id=bash_id)), bench.action())


async def kill(bench: Bench, bash_id: str = "bash-1") -> ToolResult:
    tool = KillBash(bench.background)
    plan = await tool.plan(KillBashParams(bash_id=bash_id))
    return plan.nothing_to_do or await tool.act(plan, bench.action())


async def over(bench: Bench, bash_id: str = "bash-1") -> bool:
    return await eventually_in_loop(lambda: bench.background.find(bash_id).state().is_over)


def wrote(bench: Bench, text: bytes) -> bool:
    return read_ends(bench.last.place / "stdout").head.endswith(text)


@in_loop
async def test_a_background_command_returns_at_once_with_its_id(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        assert await start(bench, "sleep 300") == ToolResult(
            "Runs in the background as bash-1, and is ended when the session ends if it still runs then. BashOutput "
            "shows what it writes, KillBash ends it.",
            background={"bash_id": "bash-1"},
        )
        result = await start(bench, "cd /; sleep 300", timeout_ms=400_000)
        assert "as bash-2, and is ended after 400 s if" in result.text
        assert bench.bash.cwd == bench.workspace
        assert (await bench.run("pwd")).text == str(bench.workspace)


@in_loop
async def test_the_intent_and_the_question_say_that_it_runs_in_the_background(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        plan = await bench.bash.plan(BashParams(command="make", run_in_background=True))
        intent = await bench.bash.intent(plan, bench.action())
        assert (plan.target, plan.preview) == ("make", "make\n(in the background)")
        assert (intent["background"], intent["timeout_s"]) == (True, 0.0)
        assert (await bench.bash.plan(BashParams(command="make"))).timeout_s == 120


@in_loop
async def test_each_look_shows_what_is_new(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, f"echo one; {UNTIL_GO}; echo two; echo three >&2; exit 4")
        assert await eventually_in_loop(lambda: wrote(bench, b"one\n"))
        look = await output(bench)
        assert (look.text.startswith("one\n[bash-1: running for "), look.background) == (True, None)
        assert (await output(bench)).text.startswith("(no new output)\n[bash-1: running for ")
        (bench.workspace / "go").touch()
        assert await over(bench)
        ended: dict[str, Json] = {"bash_id": "bash-1", "ended": True}
        assert await output(bench) == ToolResult("two\n[stderr]\nthree\n[bash-1: exit code 4]", background=ended)
        assert await output(bench) == ToolResult("(no new output)\n[bash-1: exit code 4]", background=ended)


@in_loop
async def test_a_character_that_has_come_in_half_is_shown_when_it_is_whole(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, f"printf 'a\\344\\270'; {UNTIL_GO}; printf '\\255b'")
        assert await eventually_in_loop(lambda: wrote(bench, b"\xb8"))
        assert (await output(bench)).text.startswith("a\n[bash-1: running for ")
        (bench.workspace / "go").touch()
        assert await over(bench)
        assert (await output(bench)).text == "中b\n[bash-1: exit code 0]"


@in_loop
async def test_much_new_output_keeps_both_ends_and_counts_the_rest_exactly(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, f"echo early; {UNTIL_GO}; seq 1 1000000")
        assert await eventually_in_loop(lambda: wrote(bench, b"early\n"))
        await output(bench)
        (bench.workspace / "go").touch()
        assert await over(bench)
        text = (await output(bench)).text
        head, _, rest = text.partition("\n[... ")
        left_out, _, tail = rest.partition(" bytes left out ...]\n")
        tail = tail.removesuffix("[bash-1: exit code 0]")
        assert len(head + tail) <= OUTPUT_CHARS_MAX
        assert head.startswith("1\n2\n") and tail.endswith("\n1000000\n")
        assert len(head) + int(left_out) + len(tail) == 6_888_896


@in_loop
async def test_a_position_in_the_ring_gives_what_came_after_it(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, "seq 1 11000000")  # 86,888,896 bytes
        assert await over(bench)
        whole = b"".join(b"%d\n" % number for number in range(1, 11_000_001))
        size, place = len(whole), bench.last.place / "stdout"

        def since(position: int, bytes_max: int = 1000) -> Spooled:
            return read_ends(place, bytes_max, since=position)

        assert since(size) == Spooled(b"", b"", 0)
        assert since(size - 5) == Spooled(whole[-5:], b"", 5)
        for position in (size - TAIL_BYTES, size - 1_000_000, HEAD_BYTES - 5000):
            head, tail = whole[position : position + 1000], whole[-1000:]
            assert since(position) == Spooled(head, tail, size - position)
        assert since(HEAD_BYTES - 10) == Spooled(
            whole[HEAD_BYTES - 10 : HEAD_BYTES], whole[-1000:], size - HEAD_BYTES + 10
        )
        assert since(HEAD_BYTES + 10) == Spooled(b"", whole[-1000:], size - HEAD_BYTES - 10)  # overwritten


@in_loop
async def test_a_timeout_counts_in_the_background_too(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, "echo begun; setsid sleep 300", timeout_ms=200)
        assert await over(bench)
        text = (await output(bench)).text
        assert text.startswith("begun\n[bash-1: timed out after 0.") and text.endswith("ended with all its processes]")
        assert marked(bench.last.action_id) == []


@pytest.mark.parametrize(
    "command",
    [
        "echo begun; sleep 300",
        "echo begun; setsid sleep 300 & sleep 300",
        "trap 'echo deaf' TERM; echo begun; while :; do sleep 0.05; done",
        "echo begun; kill -STOP $$",
    ],
)
@in_loop
async def test_kill_ends_the_whole_tree_and_returns_the_last_output(tmp_path: Path, command: str) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, command)
        assert await eventually_in_loop(lambda: wrote(bench, b"begun\n"))
        result = await kill(bench)
        assert result.text.startswith("begun\n") and result.text.endswith("\n[bash-1: stopped with all its processes]")
        assert (result.background, result.error_code) == ({"bash_id": "bash-1", "ended": True}, None)
        assert marked(bench.last.action_id) == []
        again = await kill(bench)
        assert again.text == "(no new output)\n[bash-1: stopped with all its processes]"


@in_loop
async def test_an_unknown_id_names_the_known_ones(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        for known in ("none", "bash-1 (sleep 300)"):
            for call in (output, kill):
                with pytest.raises(CallRefused) as refused:
                    await call(bench, "bash-7")
                assert refused.value.code == ErrorCode.NOT_FOUND
                assert refused.value.message == f"There is no background command 'bash-7'. Known are: {known}."
            await start(bench, "sleep   300")


@in_loop
async def test_k21_processes_left_behind_can_be_read_and_ended_under_an_id(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        result = await bench.run(f"({UNTIL_GO}; echo later; sleep 300) & echo done")
        assert result.background == {"bash_id": "bash-1", "left_over": True}
        assert "[still running, until the session ends: " in result.text
        assert result.text.endswith(
            "\n[BashOutput shows what is still written, KillBash ends what still runs: bash_id bash-1]"
        )
        assert "(no new output)\n[bash-1: exit code 0; still running: " in (await output(bench)).text
        (bench.workspace / "go").touch()
        assert await eventually_in_loop(lambda: wrote(bench, b"later\n"))
        assert (await output(bench)).text.startswith("later\n[bash-1: exit code 0; still running: ")
        assert (await kill(bench)).text == "(no new output)\n[bash-1: exit code 0; what it left behind has ended]"
        assert marked(bench.last.action_id) == []


@in_loop
async def test_a_background_command_that_leaves_processes_behind_is_not_over(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, "sleep 300 & echo done; exit 3")
        found = bench.background.find("bash-1")
        assert await eventually_in_loop(lambda: "exit code 3; still running: " in found.state().text)
        assert (await output(bench)).background is None
        await kill(bench)
        assert found.state().is_over


@in_loop
async def test_a_killed_supervisor_takes_its_background_command_along(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, "echo begun; setsid sleep 300 & sleep 300")
        assert await eventually_in_loop(lambda: wrote(bench, b"begun\n"))
        claim = read_claim(bench.last.place)
        assert claim is not None
        os.kill(claim.supervisor[0], signal.SIGKILL)
        assert await over(bench)
        assert "its supervisor was killed" in (await output(bench)).text
        assert marked(bench.last.action_id) == []


@in_loop
async def test_a_killed_guardian_takes_what_was_left_behind_along(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await bench.run("setsid sleep 300 & echo done")
        claim = read_claim(bench.last.place)
        assert claim is not None
        os.kill(claim.supervisor[0], signal.SIGKILL)
        assert await over(bench)
        assert marked(bench.last.action_id) == []


@in_loop
async def test_output_that_nobody_reads_does_not_stop_it(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        shown: list[str] = []
        action = bench.action(shown.append)
        plan = await bench.bash.plan(BashParams(command="yes | head -c 200000000", run_in_background=True))
        await bench.bash.act(plan, action)
        assert await over(bench)
        assert (await output(bench)).text.endswith("[bash-1: exit code 0]")
        assert shown == []


@in_loop
async def test_the_end_of_the_session_ends_them_all(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, "setsid sleep 300 & sleep 300")
        await start(bench, "while :; do echo x; sleep 0.01; done")
        places = [one.place for one in bench.background.all]
        await bench.runner.close()
        assert [marked(place.name) for place in places] == [[], []]
        assert [probe_background(place).facts["why"] for place in places] == ["stopped", "stopped"]


# -- when the agent is gone


def forked_agent(bench: Bench, place: Path, command: str) -> int:
    """An agent as a process of its own, which starts a background command and waits to be killed."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(_agent(bench, place, command))
        finally:
            os._exit(0)
    return pid


def kill_agent(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


async def _agent(bench: Bench, place: Path, command: str) -> None:
    bench.last = bench.action()
    action = type(bench.last)(place.name, "call-1", place, asyncio.Event())
    plan = await bench.bash.plan(BashParams(command=command, run_in_background="&" not in command))
    await bench.bash.act(plan, action)
    (bench.workspace / "started").touch()
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("command", "verdict", "text"),
    [
        ("echo begun; sleep 300", Verdict.KILLED, "ended because the agent had died, at "),
        ("echo begun; exit 3", Verdict.FINISHED, "exit 3 at "),
        ("sleep 300 & echo begun", Verdict.FINISHED, "exit 0 at "),
    ],
)
@in_loop
async def test_the_next_agent_can_still_read_it_from_the_start(
    tmp_path: Path, command: str, verdict: Verdict, text: str
) -> None:
    async with Bench(tmp_path) as bench:
        place = bench.outputs / f"act-lost-{os.getpid()}-{tmp_path.name}"
        pid = forked_agent(bench, place, command)
        assert await eventually_in_loop((bench.workspace / "started").exists)
        assert await eventually_in_loop(lambda: read_ends(place / "stdout").head == b"begun\n")
        if verdict is Verdict.FINISHED:
            assert await eventually_in_loop((place / "outcome").exists)
        kill_agent(pid)
        await wait_until_stopped(place)
        finding = probe_background(place)
        assert (finding.verdict, finding.text.startswith(text)) == (verdict, True)
        assert marked(place.name) == []

        later = BackgroundCommands(bench.runner)
        later.restore([BackgroundCommand("bash-4", command, place)], 6)
        look = later.find("bash-4").look()
        assert look == ToolResult(f"begun\n[bash-4: {finding.text}]", background={"bash_id": "bash-4", "ended": True})
        plan = await KillBash(later).plan(KillBashParams(bash_id="bash-4"))
        assert plan.nothing_to_do is not None
        bench.background = later
        bench.bash = type(bench.bash)(bench.runner, later, bench.workspace)
        assert (await start(bench, "true")).background == {"bash_id": "bash-7"}


@in_loop
async def test_survivors_of_a_killed_agent_and_supervisor_are_found_and_ended(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        place = bench.outputs / f"act-survivor-{os.getpid()}"
        pid = forked_agent(bench, place, "echo begun; setsid sleep 300; true")
        assert await eventually_in_loop((bench.workspace / "started").exists)
        assert await eventually_in_loop(lambda: len(marked(place.name)) == 2)
        claim = read_claim(place)
        assert claim is not None
        os.kill(claim.supervisor[0], signal.SIGKILL)
        kill_agent(pid)
        assert await eventually_in_loop(lambda: len(marked(place.name)) == 1)
        found = probe_background(place)
        assert (found.verdict, found.facts["supervised"]) == (Verdict.RUNNING, False)
        later = BackgroundCommands(bench.runner)
        later.restore([BackgroundCommand("bash-1", "sleep", place)], 1)
        await later.close()
        assert (marked(place.name), probe_background(place).verdict) == ([], Verdict.UNKNOWN)


@in_loop
async def test_an_interrupted_kill_is_judged_by_what_became_of_the_command(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await start(bench, "echo begun; sleep 300")
        assert await eventually_in_loop(lambda: wrote(bench, b"begun\n"))
        tool, action = KillBash(bench.background), bench.action()
        plan = await tool.plan(KillBashParams(bash_id="bash-1"))
        assert (plan.subject, plan.target) == ("bash-1 (echo begun; sleep 300)", "bash-1")
        intent = await tool.intent(plan, action)
        assert intent == {"bash_id": "bash-1", "command_action_id": bench.last.action_id}
        assert tool.probe(intent, action.place).verdict is Verdict.RUNNING
        await tool.await_end(intent, action.place, stop=True)
        found = tool.probe(intent, action.place)
        assert found.verdict is Verdict.KILLED
        assert found.text.startswith("the command that it was to end: ended because it was told to stop, at ")
        recalled = tool.recall(intent, action.place)
        assert recalled is not None and recalled.text.startswith("begun\n[bash-1: ended because it was told to stop")


def test_what_is_gone_from_disk_is_unknown(tmp_path: Path) -> None:
    found = probe_background(tmp_path / "act-gone")
    assert (found.verdict, found.text) == (Verdict.UNKNOWN, "what was on disk of it is gone")
