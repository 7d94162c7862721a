"""What Edit and Write share: the plan of one file's new content, and its life from intent to verdict."""

from __future__ import annotations

import asyncio
import os
import stat
from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path

from tools.base import Action, CallRefused, ErrorCode, Keep, ParamsT, Plan, Tool, ToolResult
from tools.content import Content, Splice
from tools.diff import diff_of, unified_diff
from tools.limits import (
    CHANGE_BYTES_MAX,
    DIFF_RESULT_LINES_MAX,
    KEEP_BYTES_MAX,
    NAME_BYTES_MAX,
)
from tools.line_window import LineWindow
from tools.path_text import path_to_text, text_to_path
from tools.read_cache import ReadCache
from tools.regular_file import digest
from tools.verdict import Finding, Json, Verdict
from tools.workspace import Workspace

ABSENT = "absent"


@dataclass(frozen=True, kw_only=True)
class FileChange(Plan):
    """The whole content of one file before and after; None means that it does not exist."""

    path: Path
    before: Content | None
    after: Content | None
    summary: str  # what the result says was done
    diff: str = ""  # what the result shows
    is_revert: bool = False  # it takes an earlier change back

    @property
    def sha256_before(self) -> str:
        return ABSENT if self.before is None else self.before.sha256

    @property
    def sha256_planned(self) -> str:
        return ABSENT if self.after is None else self.after.sha256


class FileChangeTool(Tool[ParamsT, FileChange]):
    """A tool whose effect is one file's new content.

    `keep` stores an old content for a later revert and returns its name, or None when it must not be stored.
    """

    def __init__(self, workspace: Workspace, read_cache: ReadCache, keep: Keep) -> None:
        self._workspace = workspace
        self._read_cache = read_cache
        self._keep = keep

    @abstractmethod
    def look(self, params: ParamsT) -> FileChange:
        """The body of `plan`; runs in a thread."""

    async def plan(self, params: ParamsT) -> FileChange:
        return await asyncio.to_thread(self.look, params)

    async def intent(self, plan: FileChange, action: Action) -> dict[str, Json]:
        return await asyncio.to_thread(self._intent, plan, action)

    async def act(self, plan: FileChange, action: Action) -> ToolResult:
        return await asyncio.to_thread(self._act, plan, action)

    def seal(self, intent: dict[str, Json], place: Path) -> None:
        """Remove the temp file that the intent names, and nothing else. Raises OSError."""
        del place
        match intent:
            case {"path": str(path), "temp": str(temp)}:
                self._workspace.discard_temp(text_to_path(path), temp)

    def probe(self, intent: dict[str, Json], place: Path) -> Finding:
        del place
        match intent:
            case {"path": str(path), "sha256_before": str(before), "sha256_planned": str(planned)}:
                if intent.get("reverts"):
                    return _judge_revert(path, before, planned)
                found = _judge(path, before, planned)
                kept = before == ABSENT or isinstance(intent.get("blob"), str)
                return Finding(found.verdict, found.text, {**found.facts, "revertible": kept})
        return Finding(Verdict.UNKNOWN, "its record does not say what was to be written")

    # -- for the tools

    def known_content(self, path: Path) -> Content:
        """What the file holds, provided that the model has read exactly this.

        Raises:
            CallRefused: NOT_FOUND, NOT_TEXT, NOT_READ, CHANGED_SINCE_READ, or REFUSED (no file, too large).
        """
        content = self.readable_content(path)
        self.refuse_unknown(path, content)
        return content

    def readable_content(self, path: Path) -> Content:
        """What a text file holds; `refuse_unknown` must follow. Raises CallRefused."""
        content = self.content(path)
        content.hash_ahead()
        _ = content.encoding  # what is no text is refused as that, read or not
        return content

    def refuse_unknown(self, path: Path, content: Content) -> None:
        """Raises CallRefused (NOT_READ, CHANGED_SINCE_READ) unless the model has read exactly this content."""
        if self._read_cache.get(path) is None:
            raise CallRefused(ErrorCode.NOT_READ, f"{content.shown} has not been read in this session. Read it first.")
        if not self._read_cache.is_current(path, content.sha256):
            raise self._changed(path)

    def content(self, path: Path) -> Content:
        """What the file holds. Raises CallRefused."""
        content = Content((self._workspace.read(path, CHANGE_BYTES_MAX),), self._workspace.display(path))
        return self._read_cache.in_its_encoding(path, content)

    async def plan_revert(self, intent: dict[str, Json], old: bytes | None) -> FileChange:
        return await asyncio.to_thread(self._look_back, intent, old)

    def _look_back(self, intent: dict[str, Json], old: bytes | None) -> FileChange:
        """Back to the content from before, but only from exactly the planned one: later changes are not ours."""
        path = self._workspace.resolve(str(intent["path"]))
        shown = self._workspace.display(path)
        found = _judge(str(intent["path"]), str(intent["sha256_before"]), str(intent["sha256_planned"]))
        if found.verdict is not Verdict.APPLIED:
            raise CallRefused(ErrorCode.CHANGED_SINCE_READ, f"{shown} changed since, so it was not reverted.")
        is_new = intent["sha256_before"] == ABSENT
        before = None if is_new or old is None else Content((old,), shown)
        if not is_new and (before is None or before.sha256 != intent["sha256_before"]):
            raise CallRefused(ErrorCode.REFUSED, f"The content of {shown} from before was not kept.")
        what = f"Removed {shown} again." if is_new else f"Gave {shown} its content from before again."
        return replace(self.change(path, self.content(path), before, what), is_revert=True)

    def change(
        self,
        path: Path,
        before: Content | None,
        after: Content | None,
        summary: str,
        splice: Splice | None = None,
    ) -> FileChange:
        """The plan for a new content; `splice` is what was done to the body of the old one, where that is known.

        Raises:
            CallRefused: REFUSED, the file cannot be given one.
        """
        self._workspace.refuse_irreplaceable(path)
        if after is not None:
            after.hash_ahead()
        shown = self._workspace.display(path)
        if before is not None and splice is not None:
            diff = diff_of(before.readable_splice(splice), shown, shown)
        else:
            diff = unified_diff(_text(before), _text(after), shown)
        told = "" if before is None or after is None else diff.text(DIFF_RESULT_LINES_MAX)
        return FileChange(shown, diff.text(), path=path, before=before, after=after, summary=summary, diff=told)

    # -- inner parts

    def _intent(self, plan: FileChange, action: Action) -> dict[str, Json]:
        self._refuse_changed(plan)
        before = plan.before
        kept = self._keep(before.data) if before is not None and before.size <= KEEP_BYTES_MAX else None
        return {
            "path": path_to_text(plan.path),
            "sha256_before": plan.sha256_before,
            "sha256_planned": plan.sha256_planned,
            "size_before": None if before is None else before.size,
            "size_planned": None if plan.after is None else plan.after.size,
            "mode": None if before is None else stat.S_IMODE(plan.path.lstat().st_mode),
            "blob": kept,
            "temp": temp_name(plan.path.name, action.action_id),
            **({"reverts": True} if plan.is_revert else {}),
        }

    def _act(self, plan: FileChange, action: Action) -> ToolResult:
        expected = None if plan.before is None else plan.before.data
        temp = temp_name(plan.path.name, action.action_id)
        try:
            if plan.after is None:
                self._workspace.remove(plan.path, expected=expected or b"")
                self._read_cache.drop(plan.path)
                return ToolResult(plan.summary)
            done = self._workspace.replace(plan.path, plan.after, expected=expected, temp_name=temp)
        except CallRefused as refused:
            if refused.code is ErrorCode.CHANGED_SINCE_READ:
                raise self._changed(plan.path) from refused
            raise
        self._read_cache.remember(done.state)
        parts = [plan.summary, done.warning, plan.diff]
        return ToolResult("\n".join(filter(None, parts)), file_states=(done.state,))

    def _refuse_changed(self, plan: FileChange) -> None:
        if not self._workspace.holds(plan.path, None if plan.before is None else plan.before.data):
            raise self._changed(plan.path)

    def _changed(self, path: Path) -> CallRefused:
        """The refusal that shows what the file holds now; shown in full it counts as read."""
        shown, window = self._workspace.display(path), LineWindow()
        try:
            state = self._workspace.state(path)
            content = self.content(path)
            _ = content.encoding  # no text: refused
        except CallRefused as refused:
            return CallRefused(ErrorCode.CHANGED_SINCE_READ, f"{shown} changed since it was read. {refused.message}")
        window.feed(content.readable)
        window.close()
        is_known = state is not None and state.sha256 == content.sha256 and window.is_whole
        states = (state,) if state is not None and is_known else ()
        for seen in states:
            self._read_cache.remember(seen)
        again = "This is what it holds now" if states else "Read it again; it begins with"
        message = f"{shown} changed since it was read. Nothing was changed by this call. {again}:\n{window.render()}"
        return CallRefused(ErrorCode.CHANGED_SINCE_READ, message, states)


def refuse_directory_name(file_path: str) -> None:
    """Raises CallRefused for a text that means a directory."""
    if file_path.endswith("/"):
        message = f"{file_path} names a directory. Give the path of a file; missing directories are made with it."
        raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)


def temp_name(name: str, action_id: str) -> str:
    """The name of the temp file of one action: hidden, telling, within what a directory can hold, valid UTF-8."""
    room = NAME_BYTES_MAX - len(f"..{action_id}.tmp".encode())
    stem = os.fsencode(name).decode("utf-8", "replace").encode()[:room].decode("utf-8", "ignore")
    return f".{stem}.{action_id}.tmp"


def _text(content: Content | None) -> bytes | None:
    return None if content is None else content.readable


def _judge(path: str, before: str, planned: str) -> Finding:
    facts: dict[str, Json] = {"path": path, "sha256_before": before, "sha256_planned": planned}
    try:
        now = digest(text_to_path(path), path).sha256
    except CallRefused as refused:
        if refused.code is not ErrorCode.NOT_FOUND:
            return Finding(Verdict.UNKNOWN, f"the file cannot be looked at: {refused.message}", facts)
        now = ABSENT
    facts["sha256_now"] = now
    if now == planned:
        what = "the file is gone, as planned" if now == ABSENT else "the file has the planned content"
        return Finding(Verdict.APPLIED, what, facts)
    if now == before:
        what = "the file does not exist, as before" if now == ABSENT else "the file has the content from before"
        return Finding(Verdict.NOT_APPLIED, what, facts)
    what = "the file is gone" if now == ABSENT else "the file has neither the planned content nor that from before"
    return Finding(Verdict.CHANGED_SINCE, what, facts)


def _judge_revert(path: str, before: str, planned: str) -> Finding:
    """The same of an attempt to take a change back, in its own words. That is not taken back in its turn."""
    found = _judge(path, before, planned)
    text = found.text
    if found.verdict is Verdict.APPLIED:
        gone = "is gone again" if planned == ABSENT else "has its content from before again"
        text = f"the change was taken back, the file {gone}"
    elif found.verdict is Verdict.NOT_APPLIED:
        text = "the change was not taken back, the file has it still"
    return Finding(found.verdict, text, {**found.facts, "revertible": False, "reverts": True})
