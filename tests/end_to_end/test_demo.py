"""`mycodeagent demo`: a tour that really kills the program, checks its own claims, and cleans up."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import NewProgram, NewServer
from tests.kit.program import COMMAND, Result
from tests.kit.script import Script, say
from tests.kit.side_by_side import side_by_side
from tests.kit.transcript import breaches, read_records, transitions

SCRIPT: Script = {"ANYTHING": [say("never asked")]}


def claims(done: Result) -> list[str]:
    """What it says that holds."""
    return re.findall(r"^  \[holds\] (.*)$", done.out, re.MULTILINE)


def transcript_named_in(done: Result) -> Path:
    (path,) = set(re.findall(r"^    (/\S+/transcript-session-\w+\.jsonl)$", done.out, re.MULTILINE))
    return Path(path)


def test_the_demo_kills_resumes_and_shows_what_it_claims_and_leaves_nothing(
    server: NewServer, program: NewProgram
) -> None:
    model = server(SCRIPT)

    def one(keep: bool) -> None:
        user = program(model)  # the user's key and address are in reach, and are not used
        done = user.run("demo", *(["--keep"] if keep else []))
        assert (done.code, done.err) == (0, ""), done.out
        assert_told_and_true(done)
        assert list(user.workspace.iterdir()) == []
        assert user.transcripts() == []  # none among the user's own
        user.assert_gone()
        left = list((user.folder / "tmp").iterdir())
        if keep:
            path = transcript_named_in(done)
            assert left == [path.parents[5]]
            assert f"The folder of the tour is kept: {path.parents[5]}" in done.out
            assert_each_action_happened_once(path)
        else:
            assert left == []

    side_by_side(one, (False, True))
    assert model.requests == []


def assert_told_and_true(done: Result) -> None:
    assert f"All {len(claims(done))} claims held." in done.out
    assert "DOES NOT HOLD" not in done.out
    assert "\x1b" not in done.out
    assert claims(done).count("the program was killed by signal 9") == 2
    for shown in (
        r"\$ mycodeagent --mode auto -p 'replace",
        r"\$ mycodeagent recover\n",
        r"\[1\] Edit  big.txt\n\s+(NOT )?APPLIED: the file has",
        r"\[1\] Bash  echo begun .*\n\s+FINISHED: exit 3 at",
        r"\[1\] Bash: finished, decided: use",
        "a command whose agent was dead",
    ):
        assert re.search(shown, done.out), shown


def assert_each_action_happened_once(path: Path) -> None:
    records = read_records(path)
    assert breaches(path) == []
    for tool in ("Edit", "Bash"):
        lives = [record.payload["status"] for record in records if record.payload.get("tool_name") == tool]
        assert lives == ["requested", "started"]
    decided = [(details["verdict"], details["choice"]) for details in transitions(records, "recovery_decided")]
    assert decided[0] in (("applied", "keep"), ("not_applied", "skip"))
    assert decided[1:] == [("finished", "use")]


def test_a_demo_that_cannot_be_given_says_so_and_fails(program: NewProgram) -> None:
    no_room = ("sh", "-c", 'ulimit -f 2048; exec "$@"', "sh")  # the big file of the tour does not fit
    user = program(command=(*no_room, *COMMAND))
    done = user.run("demo")
    assert done.code == 1
    assert "[DOES NOT HOLD] the tour came to its end (" in done.out
    assert "1 of 1 claims did NOT hold." in done.out
    assert list((user.folder / "tmp").iterdir()) == []
