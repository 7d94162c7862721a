"""The result object of `-p --output-format json`."""

from __future__ import annotations

import shlex
from pathlib import Path

from agent.host import CodeAgent
from agent.state import RunResult, Usage
from memory.events import JsonObject
from memory.layout import MemoryFolder


def resume_command(agent: CodeAgent) -> str:
    """The line that resumes a session, from any directory."""
    words = ["mycodeagent", "-r", agent.session_id]
    folder = agent.services.folder
    if folder is not None and not _is_default(folder):
        words += ["--memory-dir", str(folder.path)]
    return shlex.join(words)


def transcript_path(agent: CodeAgent) -> Path | None:
    return agent.session.files.transcript if agent.session else None


def result_object(agent: CodeAgent, result: RunResult, exit_code: int) -> JsonObject:
    """What a run came to."""
    error = {"code": result.error_code, "message": result.error_message} if result.error_code else None
    path = transcript_path(agent)
    return {
        "type": "result",
        "status": result.status,
        "terminal_reason": result.end.value,
        "exit_code": exit_code,
        "response": result.response,
        "session_id": agent.session_id,
        "run_id": result.run_id,
        "steps": result.steps,
        "usage": result.usage.as_json(),
        "permission_denials": list(result.permission_denials),
        "uncertain_actions": [item.as_json() for item in agent.uncertain],
        "damage": [one.as_json() for one in agent.report.damage] if agent.report else [],
        "transcript_path": str(path) if path else None,
        "resume_command": resume_command(agent) if path else None,
        "error": error,
    }


def fault_object(exit_code: int, code: str, message: str) -> JsonObject:
    """The same shape for an end before any session was open."""
    return {
        "type": "result",
        "status": "failed",
        "terminal_reason": None,
        "exit_code": exit_code,
        "response": "",
        "session_id": None,
        "run_id": None,
        "steps": 0,
        "usage": Usage().as_json(),
        "permission_denials": [],
        "uncertain_actions": [],
        "damage": [],
        "transcript_path": None,
        "resume_command": None,
        "error": {"code": code, "message": message},
    }


def _is_default(folder: MemoryFolder) -> bool:
    """Does the folder lie where every session is looked up?"""
    return folder.path.name == "memory" and folder.path.parent.parent.name == "projects"
