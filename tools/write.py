"""Write: a file's whole content."""

from __future__ import annotations

from pydantic import Field

from tools.base import ToolParams, ToolResult
from tools.file_change import FileChange, FileChangeTool
from tools.limits import CHANGE_BYTES_MAX
from tools.text_file import BOM, is_all_crlf


class WriteParams(ToolParams):
    file_path: str = Field(description="File to write, relative to the workspace; missing directories are made.")
    content: str = Field(description="The whole new content.")


class Write(FileChangeTool[WriteParams]):
    name = "Write"
    description = (
        "Write a whole file. An existing file must have been read; for small changes use Edit. A file whose lines all "
        "end in CRLF keeps that, and a byte-order mark is kept too."
    )
    params = WriteParams

    def look(self, params: WriteParams) -> FileChange:
        path = self._workspace.resolve(params.file_path)
        shown, data = self._workspace.display(path), params.content.encode()
        state = self._workspace.state(path)
        if state is None:
            return self.change(path, None, data, f"Created {shown}.")
        before = self._workspace.read(path, CHANGE_BYTES_MAX)
        data = in_the_form_of(before, data)
        if before != data:
            return self.change(path, self.known_content(path), data, f"Wrote {shown}.")
        self._read_cache.remember(state)  # the model has just given this content
        done = ToolResult(f"{shown} has this content already.", file_states=(state,))
        return FileChange(shown, nothing_to_do=done, path=path, before=before, after=data, summary="")


def in_the_form_of(before: bytes, data: bytes) -> bytes:
    """New content with the byte-order mark and the line ends of the old one, which Read does not show."""
    if is_all_crlf(before) and b"\r" not in data:
        data = data.replace(b"\n", b"\r\n")
    return BOM + data if before.startswith(BOM) and not data.startswith(BOM) else data
