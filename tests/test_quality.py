"""Lint, format and types belong to the tests: one command checks everything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit.checkout import CHECKOUT


@pytest.mark.parametrize("words", ["ruff check", "ruff format --check", "mypy"])
def test_the_source_passes(words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words.split()],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
