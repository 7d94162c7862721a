"""What the words of a command line mean, and the sentence for those that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agent.terminal.app import app
from agent.terminal.options import NEWEST, Options

COMMAND = typer.main.get_command(app)


def parsed(*words: str) -> dict[str, object]:
    """What differs from an empty command line; `command` are the words of a subcommand."""
    found, none = context(*words), context()
    return {key: value for key, value in found.items() if value != none[key]}


def context(*words: str) -> dict[str, object]:
    made = COMMAND.make_context("mycodeagent", list(words))
    rest = [*getattr(made, "_protected_args", ()), *made.args]
    return {**made.params, "prompt": made.params["prompt"] or None, "command": rest}


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ([], {}),
        (["hello"], {"prompt": "hello"}),
        (["-p", "hello"], {"prompt": "hello", "print_": True}),
        (["hello", "-p"], {"prompt": "hello", "print_": True}),
        # -r takes the next word unless that begins with a dash
        (["-r"], {"resume": NEWEST}),
        (["--resume"], {"resume": NEWEST}),
        (["-r", "abc"], {"resume": "abc"}),
        (["-rabc"], {"resume": "abc"}),
        (["--resume", "abc"], {"resume": "abc"}),
        (["--resume=abc"], {"resume": "abc"}),
        (["-pr", "abc"], {"resume": "abc", "print_": True}),
        (["-pr"], {"resume": NEWEST, "print_": True}),
        (["-pr", "--debug"], {"resume": NEWEST, "print_": True, "debug": True}),
        (["-r", "-p", "go on"], {"resume": NEWEST, "print_": True, "prompt": "go on"}),
        (["-r", "abc", "go on"], {"resume": "abc", "prompt": "go on"}),
        (["go on", "-r"], {"resume": NEWEST, "prompt": "go on"}),
        (["go on", "-r", "abc"], {"resume": "abc", "prompt": "go on"}),
        (["-p", "-r", "abc", "--", "-x"], {"resume": "abc", "print_": True, "prompt": "-x"}),
        (["-r", "--", "go on"], {"resume": NEWEST, "prompt": "go on"}),
        (["-r", "sessions"], {"resume": "sessions"}),  # a session may be called so
        (["-pm", "sessions", "x"], {"print_": True, "model": "sessions", "prompt": "x"}),
        (["-c", "go on"], {"continue_": True, "prompt": "go on"}),
        (["go on", "-c"], {"continue_": True, "prompt": "go on"}),
        # a first word that names a subcommand is that subcommand
        (["sessions"], {"command": ["sessions"]}),
        (["sessions", "list", "--json"], {"command": ["sessions", "list", "--json"]}),
        (["recover", "abc", "--json"], {"command": ["recover", "abc", "--json"]}),
        (["-m", "gpt", "sessions", "list"], {"model": "gpt", "command": ["sessions", "list"]}),
        (["--model=gpt", "sessions"], {"model": "gpt", "command": ["sessions"]}),
        (["--memory-dir", "d", "recover"], {"memory_dir": "d", "command": ["recover"]}),
        # anything else is the prompt
        (["-m", "sessions", "hello"], {"model": "sessions", "prompt": "hello"}),
        (["--", "sessions"], {"prompt": "sessions"}),
        (["--", "-dash"], {"prompt": "-dash"}),
        (["-p", "--", "recover"], {"print_": True, "prompt": "recover"}),
        (["sessions please"], {"prompt": "sessions please"}),
        (["--allow", "Bash(ls)", "--allow", "Edit", "x"], {"allow": ("Bash(ls)", "Edit"), "prompt": "x"}),
        (["-C", "d", "-n", "mine", "x"], {"cwd": "d", "name": "mine", "prompt": "x"}),
        (["--max-steps", "3", "--max-tokens=9", "x"], {"max_steps": 3, "max_tokens": 9, "prompt": "x"}),
    ],
)
def test_what_a_command_line_means(words: list[str], meaning: Mapping[str, object]) -> None:
    assert parsed(*words) == dict(meaning)


def test_no_words_mean_the_options_as_they_are() -> None:
    """Who starts the program without arguments gets these, unparsed."""
    assert context() == {**asdict(Options()), "version": False, "command": []}


# -- what means nothing


def run(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program whose folders are all below `tmp_path`."""
    home = {"MYCODEAGENT_HOME": str(tmp_path), "OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "MYCODEAGENT_MODEL": ""}
    done = CliRunner().invoke(app, ["-C", str(tmp_path), *words], env=home)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", "x", "--mode", "fast"], "--mode is one of ask, edits, plan, auto, not 'fast'."),
        (
            ["-p", "x", "--on-uncertain", "guess"],
            "--on-uncertain is one of ask, verify, skip, redo-safe, fail, not 'guess'.",
        ),
        (["-p", "x", "--allow", "Bash("], "The rule 'Bash(' is not understood: write Tool or Tool(exact command"),
        (["-p", "x", "-c", "-r"], "-c and -r both name a session: use one of them."),
        (["-p", "x", "--fork"], "--fork needs the session to fork: add -r ID or -c."),
        (["-p", "x", "-r", "nobody"], "There is no session 'nobody'"),
        (["-p", "x", "-c"], "There is no session in "),
        (["-p"], "There is nothing to do: give a prompt"),
        (["-p", "x", "-C", "/does/not/exist"], "/does/not/exist is no directory: give one with -C."),
    ],
)  # fmt: skip
def test_what_the_user_can_mend_is_one_sentence_and_exit_code_2(
    tmp_path: Path, words: list[str], sentence: str
) -> None:
    code, out, err = explained(tmp_path, *words)
    assert (code, out) == (2, "")
    (line,) = err.strip().splitlines()
    assert line.startswith(sentence)


def explained(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    """As `run`, with what the top of the program makes of an error."""
    from agent.terminal.faults import explain

    home = {"MYCODEAGENT_HOME": str(tmp_path), "OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "MYCODEAGENT_MODEL": ""}
    done = CliRunner().invoke(app, ["-C", str(tmp_path), *words], env=home)
    if isinstance(done.exception, Exception):
        code, sentence = explain(done.exception)
        return code, done.stdout, sentence
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "x", "--output-format", "xml"],
        ["--no-such-flag"],
        ["-p", "x", "--max-steps", "0"],
        ["-p", "x", "--max-steps", "many"],
        ["two", "prompts"],
        ["list", "sessions"],  # no quotes: neither the one nor the other is guessed
        ["sessions", "no-such-command"],
    ],
)
def test_a_command_line_that_is_not_understood_is_exit_code_2_with_its_usage(tmp_path: Path, words: list[str]) -> None:
    code, out, err = run(tmp_path, *words)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ") and "Traceback" not in err


def test_help_and_version_say_what_they_should(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, "--help")
    assert code == 0
    for word in ("--resume", "--on-uncertain", "sessions", "recover"):
        assert word in out
    code, out, _ = run(tmp_path, "-V")
    assert (code, out.startswith("mycodeagent ")) == (0, True)


def test_a_list_of_no_sessions_is_an_empty_list(tmp_path: Path) -> None:
    assert run(tmp_path, "sessions", "list", "--json") == (0, "[]\n", "")
    assert run(tmp_path, "sessions") == (0, "", "No sessions here yet.\n")
