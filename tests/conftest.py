"""Factories that clean up: the real program, and the scripted model server. And what the batteries counted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import hypothesis
import pytest

from tests.kit.model_server import SUMMARY, ModelServer
from tests.kit.program import COMMAND, Program
from tests.kit.script import Script, Step

# No test may fail for being slow: a machine may do anything besides.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


class NewServer(Protocol):
    def __call__(
        self, script: Script, *, side: Step = SUMMARY, limit_tokens: int = 0, refuses: bool = False
    ) -> ModelServer: ...


class NewProgram(Protocol):
    def __call__(
        self,
        server: ModelServer | None = None,
        *,
        env: Mapping[str, str | None] | None = None,
        memory_dir: Path | None = None,
        command: Sequence[str] = COMMAND,
    ) -> Program: ...


@pytest.fixture
def server() -> Iterator[NewServer]:
    """Make model servers. At the end each one must have got well-formed requests only, unless it `refuses`."""
    made: list[tuple[ModelServer, bool]] = []

    def new(script: Script, *, side: Step = SUMMARY, limit_tokens: int = 0, refuses: bool = False) -> ModelServer:
        model = ModelServer(script, side=side, limit_tokens=limit_tokens)
        made.append((model, refuses))
        return model

    yield new
    for model, _ in made:
        model.close()
    for model, refuses in made:
        assert model.script_errors == []
        assert refuses or model.invalid == []


@pytest.fixture
def program(tmp_path: Path) -> Iterator[NewProgram]:
    """Make users of the program, each with folders of their own; whatever they leave running is killed at the end."""
    made: list[Program] = []
    numbers = itertools.count(1)  # tests make several users at once

    def new(
        server: ModelServer | None = None,
        *,
        env: Mapping[str, str | None] | None = None,
        memory_dir: Path | None = None,
        command: Sequence[str] = COMMAND,
    ) -> Program:
        folder = tmp_path / f"user-{next(numbers)}"
        one = Program(folder, server, env=env, memory_dir=memory_dir, command=command)
        made.append(one)
        return one

    yield new
    for one in made:
        one.close()


@pytest.fixture
def copy_of(tmp_path: Path) -> Iterator[Callable[[Program], Program]]:
    """Copy users with their state as it is now (the workspace stays one); cleaned up like `program`."""
    made: list[Program] = []

    def copy(original: Program) -> Program:
        made.append(original.copy(tmp_path / f"copy-{len(made) + 1}"))
        return made[-1]

    yield copy
    for one in made:
        one.close()


_BATTERY = "battery"  # a user property: it reaches the process that prints, whichever one the test ran in


@pytest.fixture
def battery(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say how many cases a battery ran; what was said is printed at the end of the test session."""
    return lambda line: request.node.user_properties.append((_BATTERY, line))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for group in terminalreporter.stats.values() for one in group if isinstance(one, pytest.TestReport)]
    told = [
        value
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == _BATTERY
    ]
    if told:
        terminalreporter.section("batteries")
        for line in told:
            terminalreporter.write_line(str(line))
