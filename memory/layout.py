"""All names on disk, in one place."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from memory.disk import Disk

SESSION_PREFIX = "session-"
SUBAGENT_PREFIX = "subagent-"
TRANSCRIPT_NAME = re.compile(r"transcript-(?P<session_id>.+)\.jsonl")


@dataclass(frozen=True)
class SessionFiles:
    """Where the files of one session lie."""

    session_id: str
    folder: Path  # the memory folder

    @property
    def transcript(self) -> Path:
        return self.folder / "transcripts" / f"transcript-{self.session_id}.jsonl"

    @property
    def draft(self) -> Path:
        return self.folder / "transcripts" / f"transcript-{self.session_id}.draft"

    @property
    def lock(self) -> Path:
        return self.folder / "transcripts" / f"transcript-{self.session_id}.lock"

    @property
    def owner(self) -> Path:
        return self.folder / "transcripts" / f"transcript-{self.session_id}.owner"

    def torn(self, number: int) -> Path:
        return self.transcript.with_name(f"{self.transcript.name}.torn-{number}")

    @property
    def repaired(self) -> Path:
        return self.transcript.with_name(f"{self.transcript.name}.repaired")

    @property
    def trace(self) -> Path:
        return self.folder / "traces" / f"{self.session_id}.jsonl"

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs" / self.session_id

    def output(self, action_id: str) -> Path:
        """The place of one action's claim, spools and outcome."""
        return self.folder / "outputs" / self.session_id / action_id


@dataclass(frozen=True)
class MemoryFolder:
    """The folder that holds the sessions of one project (or whatever was stated)."""

    path: Path

    def session(self, session_id: str) -> SessionFiles:
        return SessionFiles(session_id, self.path)

    def transcripts(self) -> dict[str, Path]:
        """Session ids and their transcripts, whatever state the files are in. Subagents included."""
        try:
            names = sorted(entry.name for entry in (self.path / "transcripts").iterdir())
        except OSError:
            return {}
        found = {}
        for name in names:
            match = TRANSCRIPT_NAME.fullmatch(name)
            if match:
                found[match["session_id"]] = self.path / "transcripts" / name
        return found

    def prepare(self, disk: Disk, *, keep_out_of_git: bool) -> None:
        """Make the folder. `keep_out_of_git` puts a `.gitignore` with `*` into it, unless it holds our own source."""
        disk.private_directory(self.path)
        ignore = self.path / ".gitignore"
        if keep_out_of_git and not ignore.exists() and not (self.path / "__init__.py").exists():
            disk.replace(ignore, b"*\n")


def project_folder(home: Path, workspace: Path) -> MemoryFolder:
    """The memory folder of a workspace below MYCODEAGENT_HOME: the same for every spelling of its path."""
    real = workspace.resolve()
    digest = hashlib.sha256(str(real).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", real.name)[:40].strip("-.") or "root"
    return MemoryFolder(home / "projects" / f"{name}-{digest}" / "memory")


def all_projects(home: Path) -> list[MemoryFolder]:
    """The memory folders of every project below MYCODEAGENT_HOME."""
    try:
        entries = sorted((home / "projects").iterdir())
    except OSError:
        return []
    return [MemoryFolder(entry / "memory") for entry in entries]
