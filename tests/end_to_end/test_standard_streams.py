"""K37: standard streams that are no terminal, are empty, closed, or go away; and an environment with little in it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conftest import NewProgram, NewServer
from tests.kit.program import COMMAND
from tests.kit.script import Reply, bash, say
from tests.kit.transcript import breaches, end_of

SCRIPT = [say("done")]


def through_a_shell(line: str) -> Sequence[str]:
    """A command that runs `line`, in which "$@" starts the program."""
    return ("bash", "-c", line, "bash", *COMMAND)


def test_piped_text_is_the_prompt(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    done = program(model).run(stdin="what is here?\n")
    assert (done.code, done.out) == (0, "done\n")
    assert model.last().texts("user") == ["what is here?"]


def test_piped_text_joins_the_prompt(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    done = program(model).run("-p", "explain this", stdin="one\ntwo\n")
    assert (done.code, done.out) == (0, "done\n")
    assert model.last().texts("user") == ["explain this\n\none\ntwo"]


def test_nothing_to_do_is_said_in_one_sentence(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    for args, stdin in (([], None), ([], ""), (["-p"], None), (["-p"], " \n")):
        done = user.run(*args, stdin=stdin)
        assert (done.code, done.out) == (2, "")
        assert len(done.err.splitlines()) == 1
    assert user.transcripts() == []


def test_a_closed_stdin_is_no_input(server: NewServer, program: NewProgram) -> None:
    user = program(server([bash("cat; echo read"), say("done")]), command=through_a_shell('"$@" <&-'))
    done = user.ask("go")
    assert (done.code, done.out) == (0, "done\n")
    assert user.run().code == 2


def test_a_pipe_that_nobody_closes_does_not_hang_a_run_with_a_prompt(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT), command=through_a_shell('"$@" < <(exec sleep 50)'))
    done = user.run("-p", "go", timeout_s=20)
    assert (done.code, done.out) == (0, "done\n")


def test_commands_read_no_input_of_the_program(server: NewServer, program: NewProgram) -> None:
    model = server([bash("cat; echo read"), say("done")])
    done = program(model).run("-p", "go", "--mode", "auto", stdin="for the prompt")
    assert done.code == 0
    assert model.last().result_of("Bash") == "read"


def test_a_reader_that_goes_away_ends_the_run_quietly_with_the_session_saved(
    server: NewServer, program: NewProgram
) -> None:
    talk = Reply("Many words. " * 50, pieces=50, pause_s=0.01)
    user = program(
        server([bash("echo once >> effects.log"), talk]),
        command=through_a_shell('"$@" | head -1; exit "${PIPESTATUS[0]}"'),
    )
    done = user.ask("go", "--output-format", "stream-json")
    assert done.code == 1
    assert len(done.out.splitlines()) == 1
    assert "Traceback" not in done.err
    assert "Broken pipe" not in done.err
    assert end_of(user.records()) == "output_closed"
    assert [record.payload["content"] for record in user.records() if record.is_message("user")] == ["go"]
    assert breaches(user.transcript()) == []


def test_a_reader_that_never_reads_costs_no_complete_turn(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT), command=through_a_shell('"$@" | true; exit "${PIPESTATUS[0]}"'))
    done = user.ask("go")
    assert done.code == 0
    assert "Traceback" not in done.err
    assert end_of(user.records()) == "completed"


def test_closed_standard_streams_are_no_fault_and_their_numbers_go_to_no_file(
    server: NewServer, program: NewProgram
) -> None:
    for closed, out in (("2>&-", "done\n"), ("<&- >&- 2>&-", "")):
        user = program(server([bash("echo hi"), say("done")]), command=through_a_shell(f'"$@" {closed}'))
        done = user.ask("go")
        assert (done.code, done.out) == (0, out)
        assert end_of(user.records()) == "completed"
        assert breaches(user.transcript()) == []


def test_an_environment_without_term_home_and_language_is_enough(server: NewServer, program: NewProgram) -> None:
    user = program(server([bash("echo hi"), say("día 完")]), env={"TERM": None, "HOME": None, "LANG": None})
    done = user.ask("go")
    assert (done.code, done.out) == (0, "día 完\n")


def test_a_terminal_without_a_name_still_talks(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT), env={"TERM": None})
    terminal = user.terminal()
    terminal.wait_for("/help helps")
    terminal.enter("hello there")
    terminal.wait_for("done")
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0


def test_nothing_that_is_no_terminal_gets_escape_codes(server: NewServer, program: NewProgram) -> None:
    done = program(server([bash("echo hi"), say("# Done\n\n**bold**")])).ask("go")
    assert done.out == "# Done\n\n**bold**\n"
    assert "\x1b" not in done.err
