"""What all agents of one process share: handed in by the terminal, so that tests can hand in something else."""

from __future__ import annotations

import random
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from agent.permissions import Approver, Mode, Rule
from agent.provider.base import ModelProvider
from agent.state import Limits
from memory.disk import Disk
from memory.layout import MemoryFolder
from memory.text import TextCleaner


def utc_now() -> datetime:
    return datetime.now(UTC)


def random_hex() -> str:
    """12 hex digits, as all our ids have them."""
    return secrets.token_hex(6)


class EventIds:
    """Event ids of one process: a random beginning and a count, which costs a tenth of fresh randomness each time."""

    def __init__(self, beginning: str) -> None:
        self._beginning = beginning
        self._count = count(1)

    def __call__(self) -> str:
        return f"evt-{self._beginning}{next(self._count):08x}"


@dataclass(frozen=True)
class Services:
    """Everything from outside that an agent needs."""

    workspace: Path
    folder: MemoryFolder | None  # None: the session is not recorded
    provider: ModelProvider
    model: str
    context_tokens: int
    mode: Mode
    approver: Approver
    cleaner: TextCleaner
    environment: Mapping[str, str] = field(repr=False)
    secrets: Sequence[str] = field(repr=False)
    allow: Sequence[Rule] = ()
    deny: Sequence[Rule] = ()
    sees_images: bool = False  # the model
    extra_roots: Sequence[Path] = ()  # where the file tools may work besides the workspace
    limits: Limits = field(default_factory=Limits)
    version: str = ""
    disk: Disk = field(default_factory=Disk)
    clock: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    new_hex: Callable[[], str] = random_hex
    jitter: Callable[[], float] = lambda: random.uniform(0.75, 1.25)
    python: str = sys.executable
