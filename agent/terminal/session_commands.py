"""`sessions …` and `recover`: they look at sessions on disk and need no model, no key and no lease."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress

import msgspec

from agent.services import EventIds, random_hex, utc_now
from agent.terminal.assemble import (
    find_session,
    folders,
    newest_session,
    places_of,
    sessions_here,
    workspace_of,
)
from agent.terminal.clock import clock_time
from agent.terminal.faults import write_error
from agent.terminal.options import Options
from memory.blobs import BlobStore
from memory.catalog import SessionSummary, list_sessions
from memory.disk import Disk
from memory.events import HistoryMessage, JsonObject, Reason, TransitionPayload
from memory.fsck import Report, check_session, write_repaired
from memory.layout import SessionFiles
from memory.reader import describe
from memory.resume import ResumeLoader
from memory.session import RecordedSession

PROMPT_COLUMNS = 60


def list_(options: Options, *, all_: bool, as_json: bool) -> int:
    """Print the sessions of this workspace, or of all."""
    places = places_of(options, os.environ)
    found = list_sessions(folders(places)) if all_ else sessions_here(places, workspace_of(options))
    if as_json:
        _print_json([_summary_json(one) for one in found])
        return 0
    for one in found:
        print(_summary_line(one))
    if not found:
        write_error("No sessions here yet." if not all_ else "No sessions yet.")
    return 0


def recover(options: Options, word: str | None, *, as_json: bool, exit_when_open: int) -> int:
    """Print what a session's transcript tells of its interrupted actions."""
    # The tools and their parameters come with these, which a list does not need.
    from agent.recovery.inspection import inspect_session
    from agent.recovery.words import told_lost
    from agent.terminal.recovery_screen import action_lines, damage_lines, draft_lines, summary_lines

    inspection = inspect_session(_files(options, word), Disk(), workspace=workspace_of(options))
    state = inspection.state
    lines = damage_lines(state.damage)
    if as_json:
        _print_json(inspection.as_json())
        for line in lines:
            write_error(line)
    else:
        print(*summary_lines(state, inspection.owner, is_live=inspection.is_live), sep="\n")
        background = [told_lost(one) for one in inspection.background]
        draft = draft_lines(state.draft.text) if state.draft and not inspection.is_live else []
        for line in [*lines, *action_lines(inspection.items), *background, *draft]:
            print(line)
    return exit_when_open if inspection.is_open else 0


def rename(options: Options, word: str, name: str) -> int:
    """Record a session's new name."""
    session = _owned(_files(options, word))
    try:
        transition = TransitionPayload(Reason.SESSION_NAMED.value, details={"name": name})
        session.recorder.record_state_transition("", 0, transition, sync=True)
    finally:
        session.close()
    return 0


def remove(options: Options, word: str, *, yes: bool) -> int:
    """Remove a session's files; its lock file stays, as another process may hold it."""
    files = _files(options, word)
    if not yes:
        if not sys.stdin.isatty():
            write_error("Nothing was removed: add --yes to remove without a question.")
            return 2
        if input(f"Remove {files.session_id} and all that belongs to it? [y/N] ").strip().lower() not in ("y", "yes"):
            return 1
    session = _owned(files)
    session.close()
    for path in files.transcript.parent.glob(f"{files.transcript.name}*"):
        path.unlink()
    for path in (files.draft, files.trace):
        path.unlink(missing_ok=True)
    for folder in (files.blobs, files.folder / "outputs" / files.session_id):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
    return 0


def export(options: Options, word: str | None, *, as_json: bool) -> int:
    """Print the conversation."""
    files = _files(options, word)
    state = ResumeLoader(files, BlobStore(files.blobs, Disk())).load_session(live=True)
    if state.checkpoint is not None:
        first = HistoryMessage(
            "user", f"[Summary of {state.messages_before} earlier messages]\n{state.checkpoint.summary}"
        )
        messages = [first, *state.history_messages]
    else:
        messages = list(state.history_messages)
    for message in messages:
        if as_json:
            _print_json(_message_json(message))
        else:
            print(_message_markdown(message))
    return 0


def fsck(options: Options, word: str | None, *, as_json: bool, repair: bool) -> int:
    """Check one session, or all; 1 when damage was found."""
    disk = Disk()
    places = places_of(options, os.environ)
    if word:
        checked = [find_session(places, word)]
    else:
        checked = [folder.session(session_id) for folder in folders(places) for session_id in folder.transcripts()]
    reports = [check_session(files, disk) for files in checked]
    for report in reports:
        if repair and not report.is_sound:
            count = write_repaired(report.files, disk)
            write_error(f"{report.files.repaired}: {count} intact records")
        if not as_json:
            _print_report(report)
    if as_json:
        _print_json({"sessions": [report.as_json() for report in reports]})
    return 0 if all(report.is_sound for report in reports) else 1


def _print_report(report: Report) -> None:
    print(f"{report.files.session_id}: {'sound' if report.is_sound else 'damaged'}, {report.records} records")
    for line in [*map(describe, report.damage), *report.problems]:
        print(f"  {line}")


def _files(options: Options, word: str | None) -> SessionFiles:
    places = places_of(options, os.environ)
    return find_session(places, word) if word else newest_session(places, workspace_of(options))


def _owned(files: SessionFiles) -> RecordedSession:
    return RecordedSession.open(files, Disk(), clock=utc_now, new_event_id=EventIds(random_hex()))


def _summary_line(one: SessionSummary) -> str:
    state = f"live in process {one.live_pid}" if one.live_pid else one.problem or one.ended or "no end record"
    name = f" ({one.name})" if one.name else ""
    prompt = one.first_prompt[:PROMPT_COLUMNS]
    return f"{one.session_id}{name}  {clock_time(one.last_timestamp)}  {state}  {prompt}".rstrip()


def _summary_json(one: SessionSummary) -> JsonObject:
    return {
        "session_id": one.session_id,
        "name": one.name or None,
        "transcript_path": str(one.files.transcript),
        "workspace": one.workspace or None,
        "last_timestamp": one.last_timestamp or None,
        "first_prompt": one.first_prompt,
        "ended": one.ended or None,
        "live": one.live_pid is not None,
        "bytes": one.bytes,
        "problem": one.problem or None,
    }


def _message_json(message: HistoryMessage) -> JsonObject:
    return {
        "role": message.role,
        "content": message.content,
        "tool_calls": [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls],
        "tool_call_id": message.tool_call_id,
    }


def _message_markdown(message: HistoryMessage) -> str:
    calls = "".join(f"\n\n`{call.name}` {call.arguments}" for call in message.tool_calls)
    body = f"```\n{message.content}\n```" if message.role == "tool" else message.content
    return f"## {message.role}\n\n{body}{calls}\n"


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()
