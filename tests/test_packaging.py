"""An installed copy holds none of our data, and runs our code alone wherever the user stands."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.checkout import copy_to
from tests.kit.program import AUTO, Program

DATA = [
    "memory/transcripts/transcript-session-0123456789ab.jsonl",
    "memory/traces/session-0123456789ab.jsonl",
    "memory/blobs/session-0123456789ab/e3b0",
    "memory/outputs/session-0123456789ab/action-1/stdout",
    "memory/.gitignore",
]
STRANGER = "raise SystemExit('a stranger runs')\n"
TRAPS = ("main.py", "tools/__init__.py", "agent/__init__.py", "memory/__init__.py", "typer.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the checkout in which sessions have left data."""
    source = copy_to(tmp_path_factory.mktemp("source"))
    for name in DATA:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("a secret of the user\n")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=source, check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel; the dependencies are taken from the running environment."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    library = Path(subprocess.check_output([python, "-c", script], text=True).strip())
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (library / "dependencies.pth").write_text("".join(f"{path}\n" for path in ours))
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    (place / "bin" / "rg").symlink_to(Path(sysconfig.get_path("scripts")) / "rg")  # where its wheel would put it
    return place / "bin"


def test_the_wheel_holds_the_program_and_no_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
        secrets = [name for name in names if b"a secret of the user" in archive.read(name)]
    tops = {name.split("/")[0] for name in names}
    data = [name for name in names if any(name.endswith(wanted.removeprefix("memory/")) for wanted in DATA)]
    assert (secrets, data) == ([], [])
    assert {name for name in tops if not name.endswith(".dist-info")} == {"mycodeagent"}
    rooms = {"/".join(name.split("/")[:3]) for name in names if name.startswith("mycodeagent/app/")}
    app = "mycodeagent/app"
    assert rooms == {f"{app}/agent", f"{app}/memory", f"{app}/tools", f"{app}/main.py"}
    assert [line for line in metadata.splitlines() if line.endswith("extra == 'pdf'")] == [
        "Requires-Dist: pypdf<8,>=6; extra == 'pdf'"
    ]


def test_it_starts_in_the_folder_that_holds_it(installed: Path, tmp_path: Path) -> None:
    (package,) = installed.parent.glob("lib/python*/site-packages/mycodeagent")
    user = Program(tmp_path, command=(str(installed / "python"), "-m", "mycodeagent"))
    assert [user.run("-V", cwd=place).code for place in (package, package.parent)] == [0, 0]


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A folder that would run a stranger's code if anything were imported from it."""
    for name in TRAPS:
        path = tmp_path / "user" / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STRANGER)
    return tmp_path / "user"


@pytest.mark.parametrize("env", [{}, {"PYTHONPATH": "."}, {"PYTHONPATH": ""}], ids=["plain", "path-here", "path-empty"])
@pytest.mark.parametrize("how", ["script", "module"])
def test_only_our_code_runs_in_a_folder_with_the_same_names(
    installed: Path, stranger: Path, how: str, env: Mapping[str, str]
) -> None:
    script = (str(installed / "mycodeagent"),)
    user = Program(
        stranger, env=env, command=script if how == "script" else (str(installed / "python"), "-m", "mycodeagent")
    )
    version, help_ = user.run("-V"), user.run("--help")
    answer = user.run("-p", "list files", *AUTO)
    user.close()
    assert (version.code, help_.code, answer.code) == (0, 0, 0), f"{version}\n{help_}\n{answer}"
    assert "--resume" in help_.out
    assert "main.py" in answer.out + answer.err
    assert "a stranger" not in "".join([version.out, version.err, help_.out, help_.err, answer.out, answer.err])
