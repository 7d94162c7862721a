"""Diffs on the terminal: what an Edit or Write would do before the question, and what it did afterwards."""

from __future__ import annotations

from tests.conftest import NewProgram, NewServer
from tests.kit.script import Script, call, say
from tests.kit.terminal import Terminal

SCRIPT: Script = {
    "CHANGE": [
        call("Read", {"file_path": "a.py"}),
        call("Edit", {"file_path": "a.py", "old_string": "one", "new_string": "two"}),
        call("Write", {"file_path": "b.py", "content": "".join(f"line {number}\n" for number in range(1, 16))}),
        say("changed it"),
    ]
}
DIFF = ["  --- a.py", "  +++ a.py", "  @@ -1,3 +1,3 @@", "   first", "  -x = one", "  +x = two", "   last"]
GREEN, RED = b"\x1b[32m  +x = two\x1b[0m", b"\x1b[31m  -x = one\x1b[0m"


def after(terminal: Terminal, line: str) -> list[str]:
    """What stands on the screen behind the last line like this, up to the length of the diff."""
    lines = terminal.lines()
    start = max(index for index, shown in enumerate(lines) if shown.strip() == line)
    return [shown.rstrip() for shown in lines[start + 1 : start + 1 + len(DIFF)]]


def test_a_diff_in_colour_stands_before_the_question_and_behind_the_act(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    user.write("a.py", "first\nx = one\nlast\n")
    terminal = user.terminal(rows=60)
    terminal.wait_for("/help helps")
    terminal.wait_for_prompt()
    terminal.enter("CHANGE")
    terminal.wait_for("   last")
    assert after(terminal, "Edit a.py") == DIFF
    assert (terminal.raw().count(GREEN), terminal.raw().count(RED)) == (1, 1)
    terminal.enter("y")
    terminal.wait_for(r"\+line 15")
    assert after(terminal, "Edited a.py (1 replacement).") == DIFF
    assert (terminal.raw().count(GREEN), terminal.raw().count(RED)) == (2, 2)
    terminal.enter("y")
    terminal.wait_for("changed it")
    made = after(terminal, "Created b.py.")
    assert made == [f"  +line {number}" for number in range(1, 8)]
    assert "  … 5 more lines" in terminal.text()
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0


def test_without_colour_a_diff_has_no_escape_codes(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT), env={"NO_COLOR": "1"})
    user.write("a.py", "first\nx = one\nlast\n")
    terminal = user.terminal("CHANGE", "--mode", "edits", rows=60)
    terminal.wait_for("changed it")
    assert after(terminal, "Edited a.py (1 replacement).") == DIFF
    assert b"m  +x = two" not in terminal.raw()
    terminal.press("ctrl-d")
    assert terminal.wait_exit() == 0
