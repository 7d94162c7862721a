"""The main job: one scripted run of many steps edits a real git repository through every tool."""

from __future__ import annotations

from tests.conftest import NewProgram, NewServer
from tests.end_to_end.job import (
    ANSWER,
    EFFECTS,
    FILES_AFTERWARDS,
    JOB,
    SCRIPT,
    SUBJOB,
    files_of_head,
    git,
    make_repository,
)
from tests.kit.transcript import breaches, end_of, statuses

TOOLS = {"Read", "Edit", "Write", "Bash", "Glob", "Grep", "Task", "TodoWrite"}
RESULTS = {
    "call-01": "The list has 2 entries: 1 in_progress, 1 pending.",
    "call-02": "bill.py\nshop.py",
    "call-03": "bill.py:1:from shop import total\nbill.py:3:print(total([1, 2, 3]))\nshop.py:1:def total(prices):",
    "call-04": (
        "     1\tdef total(prices):\n     2\t    result = 0\n     3\t    for price in prices:\n"
        "     4\t        result =+ price\n     5\t    return result"
    ),
    "call-05": "(no output)\n[exit code 1]",
    "call-06": (
        "Edited shop.py (1 replacement).\n--- shop.py\n+++ shop.py\n@@ -1,5 +1,5 @@\n def total(prices):\n"
        "     result = 0\n     for price in prices:\n-        result =+ price\n"
        "+        result += price\n     return result"
    ),
    "call-07": "Only bill.py calls it.",
    "call-08": "(no output)",
    "call-09": "     1\t# Shop\n     2\t\n     3\tStatus: broken",
    "call-10": "Created notes/total.md.",
    "call-11": (
        "Edited README.md (1 replacement).\n--- README.md\n+++ README.md\n@@ -1,3 +1,3 @@\n # Shop\n \n"
        "-Status: broken\n+Status: repaired"
    ),
    "call-12": "(no output)",
    "call-13": "The list has 2 entries: 2 completed.",
}


def test_one_shot_repairs_and_commits_a_repository_with_every_tool(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    make_repository(user)
    done = user.ask(f"{JOB} please")
    assert (done.code, done.out) == (0, ANSWER + "\n")
    assert files_of_head(user.workspace) == FILES_AFTERWARDS
    assert git(user.workspace, "log", "--format=%s").splitlines() == ["Repair total", "The shop"]
    assert git(user.workspace, "status", "--porcelain") == ""
    assert user.read("effects.log").split() == list(EFFECTS)
    main, children = user.records(), [path for path in user.transcripts() if "subagent" in path.name]
    assert {record.payload["tool_name"] for record in main if record.event_type == "tool_lifecycle"} == TOOLS
    assert [breaches(path) for path in user.transcripts()] == [[], []]
    assert len(children) == 1
    assert all(life[-1] == "completed" for life in statuses(main).values())
    assert end_of(main) == "completed"
    assert len(main) >= 25
    steps = [request for request in model.requests if not request.has(SUBJOB, "user")]
    assert len(steps) == 11
    assert steps[-1].results() == RESULTS
    user.assert_gone()
