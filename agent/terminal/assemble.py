"""From options to what an agent needs: settings, provider, folders, and which session is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent.config import Flags, Places, Settings, load_places, load_settings
from agent.errors import ConfigError, SessionNotFound
from agent.permissions import Approver, Mode, Rule
from agent.provider.choose import make_provider
from agent.services import Services
from agent.state import Limits
from agent.terminal.options import NEWEST, Options
from agent.terminal.version import version
from memory.catalog import SessionSummary, find_sessions, list_sessions, summarize
from memory.disk import Disk
from memory.layout import MemoryFolder, SessionFiles, all_projects, project_folder
from memory.text import TextCleaner


@dataclass(frozen=True)
class Assembly:
    """What is known before a session is opened. `target` is the session to resume or to fork, None for a new one."""

    settings: Settings
    services: Services
    target: SessionFiles | None
    launched_in: Path
    notes: tuple[str, ...]


def source_root() -> Path | None:
    """The folder of main.py when we run from our own checkout, None in an installed copy."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def flags_of(options: Options) -> Flags:
    return Flags(options.model, options.base_url, options.memory_dir, options.env_file)


def workspace_of(options: Options) -> Path:
    """The directory that is worked in: -C, else the current one. Raises ConfigError."""
    try:
        path = (options.cwd or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise ConfigError("The current directory does not exist any more: change into another one.") from error
    if not path.is_dir():
        raise ConfigError(f"{options.cwd} is no directory: give one with -C.")
    return path


def extra_roots_of(options: Options) -> tuple[Path, ...]:
    """The directories of --add-dir, resolved. Raises ConfigError."""
    for path in options.add_dir:
        if not path.is_dir():
            raise ConfigError(f"{path} is no directory: --add-dir takes one that exists.")
    return tuple(path.resolve() for path in options.add_dir)


def assemble(options: Options, environment: Mapping[str, str], approver: Approver) -> Assembly:
    """Read settings and find the session that is meant.

    Raises:
        ConfigError, SessionNotFound: the user can mend it.
    """
    launched_in = workspace_of(options)
    settings = load_settings(flags_of(options), environment, source_root=source_root())
    target = _target(options, Places(settings.home, settings.memory_dir), launched_in)
    workspace = _workspace(options, target, launched_in)
    folder = None if options.no_session else _folder(settings, target, workspace)
    if options.no_session and target is not None:
        raise ConfigError("--no-session begins a session that is not recorded: leave out -c, -r or --fork.")
    services = Services(
        workspace=workspace,
        extra_roots=extra_roots_of(options),
        folder=folder,
        provider=make_provider(settings),
        model=settings.model,
        context_tokens=settings.context_tokens,
        sees_images=settings.sees_images,
        mode=_mode(options.mode),
        approver=approver,
        cleaner=TextCleaner(settings.secrets),
        environment=environment,
        secrets=settings.secrets,
        allow=[Rule.parse(rule) for rule in options.allow],
        deny=[Rule.parse(rule) for rule in options.deny],
        limits=Limits(options.max_steps, options.max_tokens),
        version=version(),
    )
    if folder is not None:
        _prepare(folder, stated=settings.memory_dir is not None)
    return Assembly(settings, services, target, launched_in, settings.notes)


def for_session(assembly: Assembly, files: SessionFiles, options: Options) -> Assembly:
    """The same for another session, as `/resume` asks for it."""
    workspace = _workspace(options, files, assembly.launched_in)
    services = replace(assembly.services, workspace=workspace, folder=MemoryFolder(files.folder))
    return replace(assembly, services=services, target=files)


def places_of(options: Options, environment: Mapping[str, str]) -> Places:
    """Where sessions lie; needs no model and no key."""
    return load_places(flags_of(options), environment, source_root=source_root())


def folders(places: Places) -> list[MemoryFolder]:
    """The stated folder if there is one, else those of all projects."""
    return [MemoryFolder(places.memory_dir)] if places.memory_dir else all_projects(places.home)


def find_session(places: Places, word: str) -> SessionFiles:
    """The session that an id, a unique prefix or a name means. Raises SessionNotFound."""
    found = find_sessions(list_sessions(folders(places)), word)
    if len(found) > 1:
        listed = "\n".join(f"  {one.session_id}  {one.last_timestamp}  {one.first_prompt}" for one in found)
        raise SessionNotFound(f"Several sessions fit {word!r}; say which by its id:\n{listed}")
    if not found:
        raise SessionNotFound(
            f"There is no session {word!r}: `mycodeagent sessions list --all` shows them. "
            "(To send a prompt to the newest session use -c.)"
        )
    return found[0].files


def sessions_here(places: Places, workspace: Path) -> list[SessionSummary]:
    """The sessions of a workspace, newest first, without subagents."""
    if places.memory_dir is not None:
        found = list_sessions([MemoryFolder(places.memory_dir)])
        mine = [one for one in found if one.workspace in ("", str(workspace))]
    else:
        mine = list_sessions([project_folder(places.home, workspace)])
    return [one for one in mine if not one.is_subagent]


def newest_session(places: Places, workspace: Path) -> SessionFiles:
    """The session of a workspace with the latest last record, in use or not. Raises SessionNotFound."""
    readable = [one for one in sessions_here(places, workspace) if not one.problem]
    if not readable:
        raise SessionNotFound(f"There is no session in {workspace} yet: begin one without -c or -r.")
    return readable[0].files


def _target(options: Options, places: Places, workspace: Path) -> SessionFiles | None:
    if options.resume is not None and options.continue_:
        raise ConfigError("-c and -r both name a session: use one of them.")
    if options.resume is not None and options.resume != NEWEST:
        return find_session(places, options.resume)
    if options.resume == NEWEST or options.continue_:
        return newest_session(places, workspace)
    if options.fork:
        raise ConfigError("--fork needs the session to fork: add -r ID or -c.")
    return None


def _workspace(options: Options, target: SessionFiles | None, launched_in: Path) -> Path:
    """A session goes on where it was, from wherever it is resumed; -C says otherwise."""
    recorded = summarize(target).workspace if target else ""
    if options.cwd is not None or not recorded:
        return launched_in
    path = Path(recorded)
    if not path.is_dir():
        raise ConfigError(
            f"The session's workspace {recorded} does not exist any more: say where to go on with -C DIR."
        )
    return path


def _folder(settings: Settings, target: SessionFiles | None, workspace: Path) -> MemoryFolder:
    if target is not None:
        return MemoryFolder(target.folder)
    if settings.memory_dir is not None:
        return MemoryFolder(settings.memory_dir)
    return project_folder(settings.home, workspace)


def _prepare(folder: MemoryFolder, *, stated: bool) -> None:
    from memory.errors import TranscriptUnavailable

    try:
        folder.prepare(Disk(), keep_out_of_git=stated)
    except OSError as error:
        raise TranscriptUnavailable(
            f"The memory folder {folder.path} cannot be written ({error.strerror}): free some space or make it "
            "writable, choose another with --memory-dir, or run with --no-session.",
            recoverable=False,
        ) from error


def _mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        raise ConfigError(f"--mode is one of {', '.join(mode.value for mode in Mode)}, not {text!r}.") from None
