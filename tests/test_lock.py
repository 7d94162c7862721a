"""requirements.lock is the exact, hashed set that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.kit.checkout import CHECKOUT, files

LOCK = CHECKOUT / "requirements.lock"
PIN = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)==(?P<version>\S+)(?: ; (?P<marker>[^\\]+))?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def wanted() -> list[Requirement]:
    """What pyproject.toml asks for: to run, to develop and to build."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    return [Requirement(line) for line in lines]


def entries() -> Iterator[list[str]]:
    """The entries of the lock: the pin, then its hashes."""
    text = LOCK.read_text(encoding="utf-8").replace("\\\n", "\n")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    starts = [i for i, line in enumerate(lines) if not line.startswith(" ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield [line.strip() for line in lines[start:end]]


def test_every_requirement_has_a_pin_that_satisfies_it() -> None:
    pins = {}
    for pin, *_ in entries():
        match = PIN.fullmatch(pin)
        assert match, f"not a pin: {pin}"
        pins[canonicalize_name(match["name"])] = Version(match["version"])
    missing = [str(one) for one in wanted() if not one.specifier.contains(pins.get(canonicalize_name(one.name), "0"))]
    assert missing == []


def test_every_pin_has_hashes_and_nothing_else() -> None:
    found = list(entries())
    without = [pin for pin, *hashes in found if not hashes]
    strange = [line for _, *hashes in found for line in hashes if not HASH.fullmatch(line)]
    assert (len(found) > 30, without, strange) == (True, [], [])


def test_the_lock_holds_no_index_and_no_address() -> None:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    assert [
        line for line in lines if "://" in line or line.lstrip().startswith(("-i", "--index", "--extra", "-f"))
    ] == []


def test_a_lock_file_that_names_registries_is_not_kept() -> None:
    assert [name for name in files() if name.endswith("uv.lock")] == []
