"""Write: a file's whole content."""

from __future__ import annotations

import os

from pydantic import Field

from tools.base import ToolParams, ToolResult
from tools.content import Content, of_text
from tools.file_change import FileChange, FileChangeTool, refuse_directory_name
from tools.text_file import with_line_ends


class WriteParams(ToolParams):
    file_path: str = Field(description="File to write, relative to the workspace; missing directories are made.")
    content: str = Field(description="The whole new content.")


class Write(FileChangeTool[WriteParams]):
    name = "Write"
    description = (
        "Write a whole file. An existing file must have been read; for small changes use Edit. Its encoding, "
        "byte-order mark and line ends are kept."
    )
    params = WriteParams

    def look(self, params: WriteParams) -> FileChange:
        path = self._workspace.resolve(params.file_path)
        refuse_directory_name(params.file_path)
        shown = self._workspace.display(path)
        if not os.path.lexists(path):
            return self.change(path, None, of_text(params.content, shown), f"Created {shown}.")
        before = self.content(path)
        if before.data != params.content.encode():  # what is no text may be given once more, but not replaced
            after = in_the_form_of(before, params.content)
            if after.data != before.data:
                return self.change(path, self.known_content(path), after, f"Wrote {shown}.")
        state = self._workspace.state(path)
        states = (state,) if state is not None and state.sha256 == before.sha256 else ()
        for known in states:
            self._read_cache.remember(known)  # the model has just given this content
        done = ToolResult(f"{shown} has this content already.", file_states=states)
        return FileChange(shown, nothing_to_do=done, path=path, before=before, after=before, summary="")


def in_the_form_of(before: Content, text: str) -> Content:
    """New content with the encoding, the mark and the line ends of the old one, which Read does not show.

    Raises:
        CallRefused: NOT_TEXT, or REFUSED (the encoding cannot express it).
    """
    if before.encoding.mark:
        text = text.removeprefix("\ufeff")
    before.require_expressible(text)
    body = before.body
    keeps_ends = b"\r" in body and "\r" not in text
    return before.with_body(with_line_ends(text, body, 0, len(body)) if keeps_ends else text.encode())
