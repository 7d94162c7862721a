"""What the model has seen of which file: the optimistic lock of Edit and Write.

A file counts as seen with a certain content, by its hash; times are only a shortcut. It lives through a resume:
`export` goes into checkpoints, `import_entries` brings it back and says what changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tools.base import CallRefused, FileState
from tools.content import Content
from tools.encoding import remembered
from tools.limits import RECHECK_BYTES_MAX
from tools.path_text import path_to_text, text_to_path
from tools.regular_file import digest
from tools.verdict import Json

FILES_MAX = 2000  # the newest; a transcript's checkpoint carries as many (memory.state)


class ReadCache:
    """File states by path. A path may be given as such or as the text that a FileState or an intent holds."""

    def __init__(self) -> None:
        self._states: dict[str, FileState] = {}

    def remember(self, state: FileState) -> None:
        """The model knows this content: it read it, or wrote it."""
        self._states.pop(state.path, None)
        self._states[state.path] = state
        if len(self._states) > FILES_MAX:
            del self._states[next(iter(self._states))]

    def get(self, path: Path | str) -> FileState | None:
        return self._states.get(_key(path))

    def drop(self, path: Path | str) -> None:
        self._states.pop(_key(path), None)

    def in_its_encoding(self, path: Path | str, content: Content) -> Content:
        """The content in the encoding that it was shown or written in, where a look at it might tell another."""
        known = self.get(path)
        if known is None or not known.encoding or known.sha256 != content.sha256:
            return content
        return replace(content, known=remembered(known.encoding))

    def is_current(self, path: Path | str, sha256: str) -> bool:
        """Whether this is the content that the model knows."""
        known = self.get(path)
        return known is not None and known.sha256 == sha256

    def export(self) -> list[dict[str, Json]]:
        """As JSON, oldest knowledge first."""
        return [state.as_json() for state in self._states.values()]

    def import_entries(self, entries: Iterable[Mapping[str, Json]]) -> list[str]:
        """Take over what was known; a later entry of a path replaces an earlier one.

        Returns the paths whose file changed meanwhile, is gone or cannot be read. What was known of them stays, so
        that an edit is refused with the content of now instead of a bare "not read".
        """
        states = {state.path: state for state in map(_state_from, entries) if state}
        current = {path: now for path, state in states.items() if (now := _if_unchanged(state))}
        self._states.update(states | current)
        return [path for path in states if path not in current]


def _key(path: Path | str) -> str:
    return path if isinstance(path, str) else path_to_text(path)


def _state_from(entry: Mapping[str, Json]) -> FileState | None:
    match entry:
        case {"path": str(path), "sha256": str(sha256), "size": int(size), "mtime_ns": int(mtime_ns)}:
            return FileState(path, sha256, size, mtime_ns, str(entry.get("encoding", "")))
    return None  # written by a version that knows more, or damaged: the file has to be read again


def _if_unchanged(state: FileState) -> FileState | None:
    """The state as it is now; another time alone is no change, which a hash shows where it is cheap."""
    try:
        path = text_to_path(state.path)
        found = path.lstat()
        if (found.st_size, found.st_mtime_ns) == (state.size, state.mtime_ns):
            return state
        if found.st_size != state.size or found.st_size > RECHECK_BYTES_MAX:
            return None
        now = digest(path, state.path)
    except (OSError, ValueError, CallRefused):
        return None
    return replace(state, mtime_ns=now.mtime_ns) if now.sha256 == state.sha256 else None
