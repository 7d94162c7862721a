"""A folder that is quick to sync, for batteries that ask what is written when and not what a device does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.kit import quick_place


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has one, else an ordinary one."""
    with tempfile.TemporaryDirectory(prefix="mycodeagent-", dir=quick_place(tmp_path)) as folder:
        yield Path(folder)
