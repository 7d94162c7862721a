"""What the model gets from a command, and where the next one starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.tools.command_kit import Bench, eventually_in_loop, in_loop
from tools.base import CallRefused, ErrorCode, ToolResult
from tools.bash import Bash, BashParams
from tools.output_text import OUTPUT_CHARS_MAX
from tools.processes import Process, here, marked
from tools.verdict import Json, Verdict


@in_loop
async def test_a_plain_command_gives_its_output_and_exit_code(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        cwd = str(bench.workspace)
        assert await bench.run("echo hello") == ToolResult("hello", cwd=cwd, exit_code=0)
        assert await bench.run("true") == ToolResult("(no output)", cwd=cwd, exit_code=0)
        assert await bench.run("echo out; echo err >&2; exit 3") == ToolResult(
            "out\n[stderr]\nerr\n[exit code 3]", cwd=cwd, exit_code=3
        )
        assert (await bench.run("printf 'a\\377b\\0c'")).text == "a\ufffdb\ufffdc"
        assert (await bench.run("kill -9 $$")).text == "(no output)\n[ended by signal 9]"


@in_loop
async def test_what_a_terminal_would_overwrite_is_reduced(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        bar = "for i in 1 2 3; do printf '\\r%s0%% \\033[K' $i; done; printf '\\ndone\\r\\n'"
        assert (await bench.run(f"{bar}; printf '\\033[1;31mred\\033[0m \\033]0;title\\007bo\\bold\\n'")).text == (
            "30% \ndone\nred bold"
        )


# Each command ends in `sub`, in its own odd way.
ODD_ENDINGS = {
    "exit": ("cd sub; exit 3", 3),
    "errexit": ("cd sub; set -e; false; echo never", 1),
    "nounset": ("cd sub; set -u; echo $nothing_of_that_name", 127),
    "trace": ("set -x; cd sub", 0),
    "comment": ("cd sub; true # the end", 0),
    "backslash": ("cd sub; echo a \\", 0),
    "here-document": ("cd sub; cat <<END\ntext\nEND", 0),
    "unfinished here-document": ("cd sub; cat <<END\ntext", 0),
    "own trap": ("trap 'echo mine' EXIT; cd sub", 0),
    "own pwd": ("pwd() { echo /; }; cd sub", 0),
    "noclobber": ("set -C; cd sub", 0),
    "subshell": ("cd sub; (cd /; exit 4)", 4),
    "job": ("cd sub; (cd /; true) & wait", 0),
    "long": ("cd sub; : " + "x" * 300_000, 0),
}


@pytest.mark.parametrize("name", ODD_ENDINGS)
@in_loop
async def test_the_directory_persists_however_the_command_ends(tmp_path: Path, name: str) -> None:
    command, exit_code = ODD_ENDINGS[name]
    async with Bench(tmp_path) as bench:
        (bench.workspace / "sub").mkdir()
        result = await bench.run(command)
        assert (result.exit_code, result.cwd) == (exit_code, str(bench.workspace / "sub"))
        assert "PPID" not in result.text and "set --" not in result.text
        assert (await bench.run("pwd")).text == str(bench.workspace / "sub")


@pytest.mark.parametrize(
    ("command", "exit_code"), [("cd sub; exec true", 0), ("if", 2), ("cd sub; trap : EXIT; exit 4", 4)]
)
@in_loop
async def test_the_directory_stays_when_the_last_one_is_not_known(tmp_path: Path, command: str, exit_code: int) -> None:
    async with Bench(tmp_path) as bench:
        (bench.workspace / "sub").mkdir()
        result = await bench.run(command)
        assert (result.exit_code, result.cwd) == (exit_code, str(bench.workspace))


@in_loop
async def test_the_text_is_run_as_written(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        assert (await bench.run('echo "$0 $# $LINENO"\necho $LINENO')).text == "bash 0 1\n2"
        assert (await bench.run("echo one\nno-such-program")).text == (
            "one\n[stderr]\nbash: line 2: no-such-program: command not found\n[exit code 127]"
        )
        assert (await bench.run("ls /proc/self/fd | tr '\\n' ' '")).text.split() == ["0", "1", "2", "3"]


@in_loop
async def test_plain_sh_does_where_there_is_no_bash(tmp_path: Path) -> None:
    async with Bench(tmp_path, shell="/bin/sh") as bench:
        (bench.workspace / "sub").mkdir()
        assert await bench.run("cd sub; echo hi; exit 3") == ToolResult(
            "hi\n[exit code 3]", cwd=str(bench.workspace / "sub"), exit_code=3
        )


@in_loop
async def test_a_directory_outside_the_workspace_is_left_again(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        result = await bench.run("cd /; pwd")
        assert result.text == f"/\n[/ is outside the workspace; the next command starts in {bench.workspace}]"
        assert (await bench.run("pwd")).text == str(bench.workspace)
        (bench.workspace / "link").symlink_to("/")
        assert "outside the workspace" in (await bench.run("cd link")).text


@in_loop
async def test_k24_a_command_that_deletes_its_directory_is_told_where_it_goes_on(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        result = await bench.run("mkdir -p a/d && cd a/d && rm -rf ../d; echo done")
        assert result.text == (
            f"done\n[the working directory {bench.workspace}/a/d is gone or cannot be entered; "
            f"the next command starts in {bench.workspace}/a]"
        )
        assert (await bench.run("pwd")).text == str(bench.workspace / "a")


@pytest.mark.parametrize("replace", [False, True], ids=["deleted", "replaced by a file"])
@in_loop
async def test_k24_a_directory_lost_between_commands_refuses_one_command_and_no_more(
    tmp_path: Path, replace: bool
) -> None:
    async with Bench(tmp_path) as bench:
        await bench.run("mkdir d && cd d")
        shutil.rmtree(bench.workspace / "d")
        if replace:
            (bench.workspace / "d").write_text("a file")
        with pytest.raises(CallRefused) as refused:
            await bench.run("touch ran")
        assert refused.value.code == ErrorCode.REFUSED
        assert f"The working directory is now {bench.workspace};" in refused.value.message
        assert (await bench.run("pwd; ls")).text.split("\n")[0] == str(bench.workspace)
        assert not list(tmp_path.rglob("ran"))


@in_loop
async def test_a_remembered_directory_outside_the_workspace_is_not_used(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        (bench.workspace / "sub").mkdir()
        assert Bash(bench.runner, bench.background, bench.workspace, Path("/")).cwd == bench.workspace
        sub = bench.workspace / "sub"
        assert Bash(bench.runner, bench.background, bench.workspace, sub).cwd == sub


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ""},
        {"command": " \n"},
        {"command": "echo \0"},
        {"command": "true", "timeout": 600_001},
        {"command": "true", "timeout": 0},
        {"command": "true", "run_in_background": "perhaps"},
    ],
)
def test_a_wrong_call_is_refused_by_its_parameters(arguments: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BashParams.model_validate(arguments)


def test_too_long_a_timeout_names_the_limit() -> None:
    with pytest.raises(ValidationError, match="600000"):
        BashParams(command="true", timeout=700_000)


@in_loop
async def test_k20_nothing_waits_for_a_terminal(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        await bench.run(
            "git init -q . && git config user.name a && git config user.email a@b && git config core.pager 'less -+F'"
            " && git config core.editor vi && for i in $(seq 40); do git commit -q --allow-empty -m subject-$i; done"
        )
        assert "subject-40" in (await bench.run("git log")).text
        commit = await bench.run("echo z > z; git add z; git commit")
        assert commit.exit_code == 1 and "-m or -F" in commit.text
        assert (await bench.run("git log -1 --format=%s")).text == "subject-40"
        asked = "cat; read -p name x; echo rc=$?; python3 -c 'input()' 2>&1 | tail -n 1; (exec < /dev/tty) 2>&1; tty"
        text = (await bench.run(asked)).text
        assert text.startswith("rc=1\nEOFError: EOF when reading a line\n") and "/dev/tty: No such device" in text


@pytest.mark.parametrize(
    "command",
    [
        "sleep 300 & echo done",
        "setsid sleep 300 & echo done",
        "(while :; do echo x; sleep .1; done) & echo done",
        "nohup python3 -m http.server --bind 127.0.0.1 0 & echo done",
        "trap '' TERM; (sleep 300; sleep 300) & echo done",
    ],
)
@in_loop
async def test_k21_processes_left_behind_are_listed_and_end_with_the_session(tmp_path: Path, command: str) -> None:
    async with Bench(tmp_path) as bench:
        result = await bench.run(command)
        left = [process.pid for process in marked_now(bench)]
        assert result.text.startswith("done\n") and result.exit_code == 0 and result.error_code is None
        assert left and f"[still running, until the session ends: {left[0]} " in result.text
        await bench.runner.close()
        assert marked_now(bench) == []


@in_loop
async def test_k21_a_guardian_goes_when_the_last_process_goes(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        result = await bench.run("(until [ -e go ]; do sleep 0.02; done; touch went) & echo done")
        assert "still running" in result.text
        (bench.workspace / "go").touch()
        assert await eventually_in_loop(lambda: not bench.runner.guarded)
        assert (bench.workspace / "went").exists()


@in_loop
async def test_a_stop_ends_the_tree_and_keeps_the_output(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        seen: list[str] = []

        def show(text: str) -> None:
            seen.append(text)
            action.stop.set()

        action = bench.action(show)
        result = await bench.run("echo begun; setsid sleep 300 & sleep 300", action=action)
        assert seen == ["begun\n"]
        assert result == ToolResult(
            "begun\n[interrupted: the command was ended with all its processes before it was done]",
            ErrorCode.INTERRUPTED,
            cwd=str(bench.workspace),
        )
        assert marked_now(bench) == []


@pytest.mark.parametrize(
    "command", ["echo out; echo err >&2; exit 3", "cd sub", "cd /", "mkdir d; cd d; rm -rf ../d", "sleep 300"]
)
@in_loop
async def test_a_result_can_be_recalled_from_disk(tmp_path: Path, command: str) -> None:
    async with Bench(tmp_path) as bench:
        (bench.workspace / "sub").mkdir()
        action = bench.action()
        plan = await bench.bash.plan(BashParams(command=command, timeout=300))
        intent = await bench.bash.intent(plan, action)
        assert bench.bash.recall(intent, action.place) is None
        result = await bench.bash.act(plan, action)
        assert Bash(bench.runner, bench.background, bench.workspace).recall(intent, action.place) == result


@in_loop
async def test_a_recalled_result_does_not_call_ended_processes_running(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        assert "still running" in (await bench.run("sleep 300 & echo done")).text
        await bench.runner.close()
        recalled = bench.bash.recall({"cwd": str(bench.workspace), "timeout_s": 20.0}, bench.last.place)
        assert recalled == ToolResult("done", cwd=str(bench.workspace), exit_code=0)


@pytest.mark.parametrize("stop", [True, False])
@in_loop
async def test_a_running_command_can_be_awaited_or_stopped(tmp_path: Path, stop: bool) -> None:
    async with Bench(tmp_path) as bench:
        action = bench.action()
        ends = "until [ -e go ]; do sleep 0.01; done" if not stop else "sleep 300"
        await bench.runner.start(ends, cwd=bench.workspace, timeout_s=20, action=action)
        intent: dict[str, Json] = dict(here()._asdict())
        assert bench.bash.probe(intent, action.place).verdict == Verdict.RUNNING
        (bench.workspace / "go").touch()
        await bench.bash.await_end(intent, action.place, stop=stop)
        assert bench.bash.probe(intent, action.place).verdict == (Verdict.KILLED if stop else Verdict.FINISHED)


@in_loop
async def test_long_output_keeps_both_ends_and_counts_the_rest_exactly(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        for command in ("seq 1 1000000", "seq 1 1000000 >&2", "head -c 3000000 /dev/zero | tr '\\0' a; echo END"):
            text = (await bench.run(command)).text.removeprefix("[stderr]\n")
            first, _, rest = text.partition("\n[... ")
            number, _, last = rest.partition(" bytes left out ...]\n")
            total = sum(path.stat().st_size for path in bench.last.place.glob("std*"))
            assert len(first) + int(number) + len(last) + 1 == total
            assert len(text) <= OUTPUT_CHARS_MAX
            assert last.endswith(("1000000", "aEND"))


@in_loop
async def test_both_long_streams_share_the_room(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        text = (await bench.run("seq 1 100000; seq 1 100000 | sed s/^/e/ >&2")).text
        out, _, err = text.partition("[stderr]\n")
        assert (
            out.startswith("1\n2\n") and out.endswith("100000\n") and err.startswith("e1\n") and err.endswith("e100000")
        )
        assert len(err) > 9_000 and len(out) > 19_000 and len(text) <= OUTPUT_CHARS_MAX + 20


@in_loop
async def test_a_place_that_cannot_be_made_refuses_the_command(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        bench.outputs.parent.mkdir(parents=True)
        bench.outputs.write_text("in the way")
        with pytest.raises(CallRefused, match="was not started"):
            await bench.run("touch ran")
        assert not (bench.workspace / "ran").exists()


def marked_now(bench: Bench) -> list[Process]:
    return marked(bench.last.action_id)
