"""The job that the batteries run, kill and go on with: a small repair in a git repository, scripted call by call.

Every call has an id of its own, every command leaves a line in `effects.log`, and the commit has a fixed date: requests
and repository of two runs can be compared as whole values.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kit.golden import Normalizer
from tests.kit.json_object import JsonObject
from tests.kit.program import Program
from tests.kit.request import Request
from tests.kit.script import Call, Reply, Script, say

JOB = "REPAIR-TOTAL"
SUBJOB = "LOOK-FOR-CALLERS"
AFTERWARDS = "SAY-WHERE-WE-ARE"
ANSWER = "Repaired and committed."
EFFECTS = ("check-fails", "callers-listed", "check-passes", "committed")

SHOP = "def total(prices):\n    result = 0\n    for price in prices:\n        result =+ price\n    return result\n"
REPAIRED = SHOP.replace("=+", "+=")
NOTES = "# Notes\n\n`total` kept only the last price: `=+` is no operator.\n"
FILES = {
    ".gitignore": "effects.log\n",
    "README.md": "# Shop\n\nStatus: broken\n",
    "shop.py": SHOP,
    "bill.py": "from shop import total\n\nprint(total([1, 2, 3]))\n",
}
FILES_AFTERWARDS = FILES | {"shop.py": REPAIRED, "notes/total.md": NOTES, "README.md": "# Shop\n\nStatus: repaired\n"}

_GIT = "git -c user.name=t -c user.email=t@example.org"
_DATES = "GIT_AUTHOR_DATE=@1769860800 GIT_COMMITTER_DATE=@1769860800"
_CHECK = "grep -q '+= price' shop.py"


def _call(ident: str, name: str, **arguments: object) -> Call:
    return Call(name, arguments, id=f"call-{ident}")


def _command(ident: str, effect: str, command: str) -> Call:
    """A command that first leaves its line, so that running twice shows."""
    return _call(ident, "Bash", command=f"echo {effect} >> effects.log; {command}", description=effect)


def _todos(ident: str, first: str, second: str) -> Call:
    todos = [
        {"content": "repair total", "status": first, "activeForm": "repairing total"},
        {"content": "commit", "status": second, "activeForm": "committing"},
    ]
    return _call(ident, "TodoWrite", todos=todos)


SCRIPT: Script = {
    JOB: [
        Reply(
            "First a plan.",
            calls=(_todos("01", "in_progress", "pending"), _call("02", "Glob", pattern="**/*.py")),
        ),
        Reply(calls=(_call("03", "Grep", pattern="total", output_mode="content"),)),
        Reply("Here it is.", calls=(_call("04", "Read", file_path="shop.py"),)),
        Reply(calls=(_command("05", EFFECTS[0], _CHECK),)),
        Reply(calls=(_call("06", "Edit", file_path="shop.py", old_string="=+ price", new_string="+= price"),)),
        Reply(
            "Who calls it?",
            calls=(
                _call("07", "Task", description="find callers", prompt=f"{SUBJOB} of total", subagent_type="general"),
            ),
        ),
        Reply(calls=(_command("08", EFFECTS[2], _CHECK), _call("09", "Read", file_path="README.md"))),
        Reply(
            calls=(
                _call("10", "Write", file_path="notes/total.md", content=NOTES),
                _call("11", "Edit", file_path="README.md", old_string="broken", new_string="repaired"),
            )
        ),
        Reply(calls=(_command("12", EFFECTS[3], f"git add -A && {_DATES} {_GIT} commit -qm 'Repair total'"),)),
        Reply(calls=(_todos("13", "completed", "completed"),)),
        say(ANSWER),
    ],
    SUBJOB: [
        Reply(calls=(_call("s1", "Grep", pattern="total\\("),)),
        Reply(calls=(_command("s2", EFFECTS[1], "echo bill.py"),)),
        say("Only bill.py calls it."),
    ],
    AFTERWARDS: [say("We are here.")],
}


def make_repository(user: Program) -> None:
    """Put the job's repository into the workspace."""
    for name, content in FILES.items():
        user.write(name, content)
    git(user.workspace, "init", "-q", "-b", "main")
    git(user.workspace, "add", "-A")
    git(user.workspace, "commit", "-qm", "The shop")


def git(repository: Path, *words: str) -> str:
    """What git prints, on a machine without settings of its own."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout


def files_of_head(repository: Path) -> dict[str, str]:
    """Every file of the newest commit with its content."""
    names = git(repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    return {name: git(repository, "show", f"HEAD:{name}") for name in names}


def conversation(user: Program, request: Request, *, without: frozenset[str] = frozenset()) -> list[object]:
    """The messages of a request with stable names, apart from recovery notes and from the results of some calls."""
    messages: list[JsonObject] = []
    for message in request.messages:
        text = message.get("content")
        if message["role"] == "user" and isinstance(text, str) and text.startswith("[Recovery]"):
            continue
        messages.append({**message, "content": "<any>"} if message.get("tool_call_id") in without else message)
    named = Normalizer(user.places()).value(messages)
    assert isinstance(named, list)
    return named
