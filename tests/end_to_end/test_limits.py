"""Limits of a run, rules and modes, and sessions that are not recorded."""

from __future__ import annotations

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Program
from tests.kit.script import Call, Reply, Script, Usage, bash, call, say
from tests.kit.transcript import breaches, end_of

SCRIPT: Script = {
    "FOUR-STEPS": [*(bash(f"echo {number} >> effects.log") for number in range(3)), say("done")],
    "DEAR-STEPS": [
        Reply(
            calls=(Call("Bash", {"command": f"echo {number} >> effects.log", "description": "x"}),),
            usage=Usage(input_tokens=4000, output_tokens=1000),
        )
        for number in range(5)
    ],
    "THREE-EFFECTS": [
        bash("echo ok >> effects.log"),
        bash("echo other >> effects.log"),
        call("Write", {"file_path": "new.txt", "content": "text\n"}),
        say("done"),
    ],
}


def errors(user: Program) -> list[str]:
    return [record.payload["error"]["code"] for record in user.records() if record.is_action("failed")]


def effects(user: Program) -> list[str]:
    return user.read("effects.log").split()


def test_a_run_ends_at_its_steps_and_can_be_continued(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.ask("FOUR-STEPS", "--max-steps", "2", "--output-format", "json")
    value = done.json()
    assert (done.code, value["status"], value["terminal_reason"], value["steps"]) == (3, "failed", "max_steps", 2)
    assert (end_of(user.records()), effects(user)) == ("max_steps", ["0", "1"])
    again = user.go_on(user.session_id())
    assert (again.code, again.out, effects(user)) == (0, "done\n", ["0", "1", "2"])
    assert breaches(user.transcript()) == []


def test_a_run_ends_at_its_tokens(server: NewServer, program: NewProgram) -> None:
    model = server(SCRIPT)
    user = program(model)
    done = user.ask("DEAR-STEPS", "--max-tokens", "9000", "--output-format", "json")
    value = done.json()
    assert (done.code, value["terminal_reason"], len(model.requests)) == (3, "token_budget", 2)
    assert value["usage"] == {"input_tokens": 8000, "cached_tokens": 0, "output_tokens": 2000}
    assert end_of(user.records()) == "token_budget"


def test_rules_decide_on_exact_commands_and_deny_wins(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.run("-p", "THREE-EFFECTS", "--allow", "Bash(echo ok >> effects.log)", "--allow", "Write")
    assert (done.code, effects(user), user.read("new.txt")) == (4, ["ok"], "text\n")
    assert errors(user) == ["PERMISSION_DENIED"]
    user = program(server(SCRIPT))
    done = user.ask("THREE-EFFECTS", "--deny", "Bash", "--output-format", "json")
    assert (done.code, effects(user), user.read("new.txt")) == (0, [], "text\n")
    denied = [(one["tool_name"], one["rule"], one["answer"]) for one in done.json()["permission_denials"]]
    assert denied == [("Bash", "deny Bash", "denied"), ("Bash", "deny Bash", "denied")]
    assert user.run("-p", "x", "--allow", "Bash(").code == 2


def test_each_mode_lets_through_what_it_says(server: NewServer, program: NewProgram) -> None:
    ran = {}
    for mode in ("edits", "plan", "auto"):
        model = server(SCRIPT)
        user = program(model)
        done = user.run("-p", "THREE-EFFECTS", "--mode", mode)
        ran[mode] = (done.code, effects(user), user.read("new.txt"))
        assert ("plan mode" in model.requests[0].texts("system")[0]) is (mode == "plan")
        assert breaches(user.transcript()) == []
    assert ran == {
        "edits": (4, [], "text\n"),
        "plan": (0, [], ""),
        "auto": (0, ["ok", "other"], "text\n"),
    }
    assert program(server(SCRIPT)).run("-p", "x", "--mode", "yolo").code == 2


def test_without_a_session_nothing_is_left_on_disk(server: NewServer, program: NewProgram) -> None:
    user = program(server(SCRIPT))
    done = user.ask("THREE-EFFECTS", "--no-session", "--output-format", "json")
    assert (done.code, effects(user), user.read("new.txt")) == (0, ["ok", "other"], "text\n")
    value = done.json()
    assert (value["transcript_path"], value["resume_command"], value["response"]) == (None, None, "done")
    assert not [path for path in user.state.rglob("*") if path.is_file()]
    assert list((user.folder / "tmp").iterdir()) == []
    assert user.run("-p", "x", "-c", "--no-session").code == 2
    user.assert_gone()
