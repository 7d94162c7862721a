"""The command line: what it understands, and which part of the terminal answers.

Only typer is imported here: `--help` must be instant. What a command needs is imported when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from agent.terminal.options import NEWEST, Options, OutputFormat

PROGRAM = "mycodeagent"


class RootGroup(TyperGroup):
    """A group whose first word may also be a prompt, and whose `--resume` may stand without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words, first = self._normalized(args)
        # Flags may follow a prompt (`"fix it" -c`), but those behind a subcommand are the subcommand's.
        ctx.allow_interspersed_args = first not in self.commands
        rest: list[str] = super().parse_args(ctx, words)
        return rest

    def _normalized(self, args: list[str]) -> tuple[list[str], str | None]:
        """Give a bare `-r` its value and a subcommand an empty prompt before it; the first free word."""
        words: list[str] = []
        first: str | None = None
        rest = list(args)
        while rest:
            word = rest.pop(0)
            words.append(word)
            if word == "--":
                break
            takes = self._open_option(word)
            if takes in ("-r", "--resume"):
                words.append(NEWEST if not rest or rest[0].startswith("-") else rest.pop(0))
            elif takes is not None and rest:
                words.append(rest.pop(0))
            elif not word.startswith("-") and first is None:
                first = word
                if word in self.commands:
                    words[-1:] = ["", word]
                    break
        return [*words, *rest], first

    def _open_option(self, word: str) -> str | None:
        """The option that a word (`-m`, `--model`, `-pm`) ends in, if it takes the next word as its value."""
        options = [param for param in self.params if param.param_type_name == "option"]
        flags = {name for param in options if getattr(param, "is_flag", False) for name in param.opts}
        with_value = {name for param in options for name in param.opts} - flags
        if word in with_value:
            return word
        before, last = word[1:-1], word[-1:]
        is_cluster = word.startswith("-") and f"-{last}" in with_value and all(f"-{one}" in flags for one in before)
        return f"-{last}" if is_cluster else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A word behind a prompt is no subcommand (`list sessions` without quotes)."""
        if ctx.params.get("prompt"):
            ctx.fail(f"{args[0]!r} is one word too many: put the prompt in quotes.")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=RootGroup,
    invoke_without_command=True,
    add_completion=False,
    no_args_is_help=False,
    subcommand_metavar="| COMMAND …",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
sessions_app = typer.Typer(
    invoke_without_command=True, help="List, show, rename, export and remove sessions.", rich_markup_mode=None
)
app.add_typer(sessions_app, name="sessions")

MemoryDir = Annotated[
    str | None, typer.Option("--memory-dir", metavar="DIR", help="The memory folder of the sessions.")
]
EnvFile = Annotated[str | None, typer.Option("--env-file", metavar="FILE", help="Read settings from this file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SessionWord = Annotated[str | None, typer.Argument(metavar="[ID|NAME]", help="A session; the newest one if left out.")]


@app.callback()
def root(
    ctx: typer.Context,
    prompt: Annotated[str | None, typer.Argument(metavar="[PROMPT]", help="What to do.", show_default=False)] = None,
    print_: Annotated[bool, typer.Option("--print", "-p", help="One shot: print the answer and exit.")] = False,
    continue_: Annotated[bool, typer.Option("--continue", "-c", help="Go on with the newest session here.")] = False,
    resume: Annotated[
        str | None, typer.Option("--resume", "-r", metavar="[ID|NAME]", help="Resume a session; bare: the newest here.")
    ] = None,
    fork: Annotated[bool, typer.Option("--fork", help="Begin a new session with that one's history.")] = False,
    name: Annotated[str | None, typer.Option("--name", "-n", metavar="NAME", help="Name the session.")] = None,
    output_format: Annotated[OutputFormat, typer.Option("--output-format", help="With -p.")] = OutputFormat.TEXT,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL")] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="Address of an OpenAI-compatible service.")
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", metavar="ask|edits|plan|auto", help="What happens without a question.")
    ] = "ask",
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="RULE", help="Tool or Tool(exact command or path).")
    ] = None,
    deny: Annotated[list[str] | None, typer.Option("--deny", metavar="RULE")] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Model turns of a run.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Tokens of a run.")] = None,
    cwd: Annotated[Path | None, typer.Option("--cwd", "-C", metavar="DIR", help="The workspace.")] = None,
    add_dir: Annotated[
        list[Path] | None,
        typer.Option("--add-dir", metavar="DIR", help="Another directory that the file tools may use."),
    ] = None,
    memory_dir: MemoryDir = None,
    env_file: EnvFile = None,
    no_session: Annotated[bool, typer.Option("--no-session", help="Record nothing: a crash loses everything.")] = False,
    on_uncertain: Annotated[
        str | None,
        typer.Option(
            "--on-uncertain",
            metavar="ask|verify|skip|redo-safe|fail",
            help="What becomes of actions that a crash cut short.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Log to stderr; tracebacks.")] = False,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    """A terminal code agent that cannot lose its work."""
    if version:
        from agent.terminal.version import version_text

        print(version_text())
        raise typer.Exit
    options = Options(
        prompt=prompt or None,
        print_=print_,
        continue_=continue_,
        resume=resume,
        fork=fork,
        name=name,
        output_format=output_format,
        model=model,
        base_url=base_url,
        mode=mode,
        allow=tuple(allow or ()),
        deny=tuple(deny or ()),
        max_steps=max_steps,
        max_tokens=max_tokens,
        cwd=cwd,
        add_dir=tuple(add_dir or ()),
        memory_dir=memory_dir,
        env_file=env_file,
        no_session=no_session,
        on_uncertain=on_uncertain,
        debug=debug,
    )
    ctx.obj = options
    if ctx.invoked_subcommand is None:
        from agent.terminal.start import run

        _exit(run(options))


@sessions_app.callback()
def sessions(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        sessions_list(ctx)


@sessions_app.command("list")
def sessions_list(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Of all projects, subagents too.")] = False,
    json: Json = False,
    memory_dir: MemoryDir = None,
) -> None:
    """List the sessions, the newest first."""
    from agent.terminal import session_commands

    _exit(session_commands.list_(_options(ctx, memory_dir), all_=all_, as_json=json))


@sessions_app.command("show")
def sessions_show(
    ctx: typer.Context, session: SessionWord = None, json: Json = False, memory_dir: MemoryDir = None
) -> None:
    """Show what a session's transcript tells."""
    from agent.terminal import session_commands

    _exit(session_commands.recover(_options(ctx, memory_dir), session, as_json=json, exit_when_open=0))


@sessions_app.command("rename")
def sessions_rename(
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(metavar="ID|NAME")],
    name: Annotated[str, typer.Argument(metavar="NEW-NAME")],
    memory_dir: MemoryDir = None,
) -> None:
    """Give a session a name."""
    from agent.terminal import session_commands

    _exit(session_commands.rename(_options(ctx, memory_dir), session, name))


@sessions_app.command("rm")
def sessions_rm(
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(metavar="ID|NAME")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    memory_dir: MemoryDir = None,
) -> None:
    """Remove a session and everything that belongs to it."""
    from agent.terminal import session_commands

    _exit(session_commands.remove(_options(ctx, memory_dir), session, yes=yes))


@sessions_app.command("export")
def sessions_export(
    ctx: typer.Context, session: SessionWord = None, json: Json = False, memory_dir: MemoryDir = None
) -> None:
    """Print a session's conversation, as Markdown or JSON lines."""
    from agent.terminal import session_commands

    _exit(session_commands.export(_options(ctx, memory_dir), session, as_json=json))


@app.command()
def recover(ctx: typer.Context, session: SessionWord = None, json: Json = False, memory_dir: MemoryDir = None) -> None:
    """Show what became of interrupted actions. Decides and changes nothing."""
    from agent.terminal import session_commands

    _exit(session_commands.recover(_options(ctx, memory_dir), session, as_json=json, exit_when_open=5))


@app.command()
def fsck(
    ctx: typer.Context,
    session: Annotated[str | None, typer.Argument(metavar="[ID|NAME]", help="A session; all if left out.")] = None,
    json: Json = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write a repaired copy beside a damaged transcript.")
    ] = False,
    memory_dir: MemoryDir = None,
) -> None:
    """Check the integrity of sessions. Never changes their bytes."""
    from agent.terminal import session_commands

    _exit(session_commands.fsck(_options(ctx, memory_dir), session, as_json=json, repair=repair))


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the folder of the tour on the disk.")] = False,
) -> None:
    """A tour: the program is killed in the middle of its work and resumed, in a temporary folder. Takes seconds."""
    from agent.terminal.tour import run_tour

    _exit(run_tour(keep=keep))


def _options(ctx: typer.Context, memory_dir: str | None) -> Options:
    """The root's options; flags that a subcommand knows too count wherever they stand."""
    from dataclasses import replace

    options = ctx.find_object(Options) or Options()
    return replace(options, memory_dir=memory_dir or options.memory_dir)


def _exit(code: int) -> NoReturn:
    raise typer.Exit(code)
