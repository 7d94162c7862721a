"""The README's two commands, as written, on a machine that has only Python with pip and venv."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.kit.checkout import CHECKOUT, copy_to

INSTALL = "MYCODEAGENT_TEST_INSTALL"


def command(ending: str) -> str:
    """The line of the README that makes the environment and ends so."""
    lines = [line.strip() for line in (CHECKOUT / "README.md").read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if "requirements.lock" in line and line.endswith(ending)]
    assert len(set(found)) == 1, f"README lines that end in {ending!r}: {found}"
    return found[0]


def run(line: str, folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in the shell, for a user without any settings."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "MYCODEAGENT_HOME": str(home / "state"),
    }
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, env=env, text=True, capture_output=True, stdin=subprocess.DEVNULL
    )


def test_both_commands_install_the_hashed_set_and_the_ci_runs_the_second() -> None:
    start, test = command("main.py"), command("pytest -q")
    assert start.removesuffix("main.py") == test.removesuffix("-m pytest -q")
    assert "--require-hashes -r requirements.lock" in start
    assert test in (CHECKOUT / ".ci/run").read_text(encoding="utf-8")


@pytest.mark.skipif(
    not os.environ.get(INSTALL), reason=f"downloads everything anew (25 s): set {INSTALL}=1, as .ci/run does"
)
def test_the_first_command_starts_the_program_on_a_clean_copy(tmp_path: Path) -> None:
    copy = copy_to(tmp_path / "copy")
    line = command("main.py") + ' -p "list files" --mode auto'
    first = run(line, copy, tmp_path)
    assert (first.returncode, (copy / ".venv/ok").exists()) == (0, True), first.stderr
    shown = first.stdout + first.stderr
    missing = [
        name for name in ("demo model", "README.md", "pyproject.toml") if not re.search(name, shown, re.IGNORECASE)
    ]
    assert missing == [], shown
    installed = (copy / ".venv/ok").stat().st_mtime_ns
    second = run(line, copy, tmp_path)
    assert (second.returncode, (copy / ".venv/ok").stat().st_mtime_ns) == (0, installed), second.stderr
