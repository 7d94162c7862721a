"""When git ignores all there is: a directory that path names is searched once more, without the rules."""

from __future__ import annotations

from pathlib import Path

from tools.workspace import Workspace

NOT_LOOKED_AT = "(files that git ignores are not looked at)"
LOOKED_AT = "(Git ignores these; they were looked at because path names their directory.)"


def is_asked_for(workspace: Workspace, where: Path) -> bool:
    """Whether a search in this directory asks for it by name: the roots are where every search begins."""
    return where not in (workspace.root, *workspace.extra_roots)
