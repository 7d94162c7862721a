"""What the command line says, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

NEWEST = "\0newest"  # what a bare `-r` means; no session can have this name


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


@dataclass(frozen=True)
class Options:
    """The flags; `mycodeagent --help` describes them."""

    prompt: str | None = None
    print_: bool = False
    continue_: bool = False
    resume: str | None = None
    fork: bool = False
    name: str | None = None
    output_format: OutputFormat = OutputFormat.TEXT
    model: str | None = None
    base_url: str | None = None
    mode: str = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_steps: int | None = None
    max_tokens: int | None = None
    cwd: Path | None = None
    add_dir: tuple[Path, ...] = ()
    memory_dir: str | None = None
    env_file: str | None = None
    no_session: bool = False
    on_uncertain: str | None = None
    debug: bool = False
