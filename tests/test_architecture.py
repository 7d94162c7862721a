"""Who may import what: the rules of the rooms, read from the source with ast."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import NewProgram
from tests.kit.checkout import CHECKOUT, files

ROOMS = ("agent", "tools", "memory", "main", "mycodeagent", "tests")

# Where a file lies (the longest beginning that fits), and which of our own modules it may import.
OWN = {
    "main.py": ("agent.terminal",),
    "mycodeagent/": ("agent.terminal", "mycodeagent"),
    "agent/terminal/": ("agent", "tools", "memory"),
    "agent/": ("agent", "tools", "memory"),  # except agent.terminal: see below
    "tools/": ("tools",),
    "memory/": ("memory",),
    "tests/": ROOMS,
}
# Libraries that one room keeps to itself, so that changing one changes one room.
KEPT = {
    "typer": "agent/terminal/",
    "rich": "agent/terminal/",
    "prompt_toolkit": "agent/terminal/",
    "openai": "agent/provider/",
    "httpx": "agent/provider/",
}
SUPERVISOR = "tools/supervisor.py"
# A process of its own for every command: each of these loads in a millisecond, `json` or `signal` would not.
SUPERVISOR_MAY = frozenset({"_ctypes", "_signal", "errno", "fcntl", "os", "select", "sys", "time"})
HEAVY = ("openai", "httpx", "pydantic", "prompt_toolkit", "rich", "asyncio")  # none of them is needed for --help
# What a prompt without arguments has no use for, and what its first sign has none for besides.
BEHIND_PROMPT = (
    "openai",
    "httpx",
    "pydantic",
    "rich",
    "typer",
    "msgspec",
    "tools",
    "memory",
    "agent.config",
    "agent.host",
)
BEHIND_SIGN = (*BEHIND_PROMPT, "prompt_toolkit", "asyncio", "logging")


@dataclass(frozen=True)
class Import:
    module: str  # absolute
    line: int


def imports(name: str, source: str) -> Iterator[Import]:
    """Every import of a file, wherever it stands in it; relative ones made absolute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = name.split("/")[: -node.level] if node.level else []
            base = ".".join([*package, *filter(None, [node.module])])
            if node.module and not node.level:
                yield Import(base, node.lineno)
            if base in ROOMS or base == "agent" or node.level:  # `from agent import terminal` names a module too
                yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in node.names)


def violations(name: str, source: str) -> list[str]:
    """Every import of the file that breaks a rule, as `file:line: what is wrong`."""
    return [f"{name}:{found.line}: {problem}" for found in imports(name, source) for problem in _problems(name, found)]


def _problems(name: str, found: Import) -> Iterator[str]:
    root = found.module.split(".")[0]
    if root in ROOMS:
        place = max((place for place in OWN if name.startswith(place)), key=len)
        if not any(_within(found.module, allowed) for allowed in OWN[place]):
            yield f"{place} must not import {found.module}"
        elif place == "agent/" and _within(found.module, "agent.terminal"):
            yield f"only agent/terminal/ may import {found.module}"
    if root in KEPT and not name.startswith((KEPT[root], "tests/")):
        yield f"only {KEPT[root]} may import {root}"
    if name == SUPERVISOR and found.module not in SUPERVISOR_MAY:
        yield f"the supervisor must not import {found.module}"


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_imports_run_one_way() -> None:
    sources = [name for name in files() if name.endswith(".py")]
    found = [line for name in sources for line in violations(name, (CHECKOUT / name).read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("name", "source", "problems"),
    [
        ("main.py", "from agent.terminal.launch import main", []),
        ("main.py", "from agent.host import CodeAgent", ["main.py must not import agent.host"]),
        ("mycodeagent/__init__.py", "def f():\n import memory", ["mycodeagent/ must not import memory"]),
        ("agent/terminal/app.py", "import typer, rich.live\nfrom memory.store import x\nfrom agent import host", []),
        ("agent/host.py", "from agent.terminal import x", ["only agent/terminal/ may import agent.terminal"]),
        ("agent/host.py", "from agent import terminal", ["only agent/terminal/ may import agent.terminal"]),
        ("agent/host.py", "from .terminal import x", ["only agent/terminal/ may import agent.terminal.x"]),
        ("agent/host.py", "import rich", ["only agent/terminal/ may import rich"]),
        ("agent/host.py", "import tests.kit", ["agent/ must not import tests.kit"]),
        ("agent/provider/openai_chat.py", "import openai, httpx", []),
        ("agent/terminal/app.py", "import httpx", ["only agent/provider/ may import httpx"]),
        ("tools/edit.py", "from tools.base import Tool\nimport os", []),
        ("tools/edit.py", "from memory.disk import Disk", ["tools/ must not import memory.disk"]),
        ("tools/edit.py", "if 1:\n import agent", ["tools/ must not import agent"]),
        ("memory/store.py", "from tools.base import x", ["memory/ must not import tools.base"]),
        ("memory/store.py", "from ..tools import base", ["memory/ must not import tools.base"]),
        ("tools/supervisor.py", "import os, _ctypes", []),
        ("tools/supervisor.py", "import json", ["the supervisor must not import json"]),
    ],
)
def test_the_rules_notice_what_they_forbid(name: str, source: str, problems: list[str]) -> None:
    found = [line.partition(": ")[2] for line in violations(name, source)]
    assert [problem for problem in problems if problem not in found] == []
    assert bool(found) == bool(problems)


def test_asking_for_help_loads_no_heavy_library(program: NewProgram) -> None:
    user = program(command=(sys.executable, "-X", "importtime", str(CHECKOUT / "main.py")))
    result = user.run("--help")
    loaded = set(re.findall(r"\| +([\w.]+)$", result.err, re.MULTILINE))
    assert (result.code, "typer" in loaded, sorted(loaded & set(HEAVY))) == (0, True, [])


def test_the_prompt_and_its_first_sign_wait_for_nothing_that_they_do_not_need(program: NewProgram) -> None:
    user = program(command=(sys.executable, "-X", "importtime", str(CHECKOUT / "main.py")))
    terminal = user.terminal()
    terminal.wait_for("/help helps")
    before_sign, _, later = terminal.raw().decode().partition("›")
    _, before_prompt, behind = later.split("\x1b[?2004h", 2)  # bracketed paste: the sign, then the real prompt
    assert needless(before_sign, BEHIND_SIGN) == []
    assert needless(before_prompt, BEHIND_PROMPT) == []
    assert needless(behind, BEHIND_PROMPT)  # else nothing was found because nothing was seen


def needless(report: str, unwanted: tuple[str, ...]) -> list[str]:
    """What a part of an import report has of these modules and packages."""
    loaded = set(re.findall(r"\| +([\w.]+)\r?$", report, re.MULTILINE))
    return sorted(module for module in loaded if any(_within(module, one) for one in unwanted))


def test_no_file_names_a_package_registry_or_a_place_of_one_machine() -> None:
    hosts = ["py" + "pi.org", "python" + "hosted.org", "registry.npm" + "js.org", "deb.debian" + ".org"]
    places = "|".join(f"(?<![A-Za-z0-9_.$}}>])/{name}/" for name in ("wo" + "rk", "ro" + "ot"))
    forbidden = re.compile("|".join([*map(re.escape, hosts), places]))
    found = []
    for name in files():
        lines = (CHECKOUT / name).read_text(encoding="utf-8", errors="replace").splitlines()
        found += [f"{name}:{number}: {line}" for number, line in enumerate(lines, 1) if forbidden.search(line)]
    assert found == []


def test_test_folders_are_no_packages_and_no_module_is_called_utils() -> None:
    packages = [name for name in files() if name.startswith("tests/") and name.endswith("/__init__.py")]
    vague = [name for name in files() if Path(name).stem in ("utils", "util", "helpers", "misc", "common")]
    assert (packages, vague) == ([], [])
