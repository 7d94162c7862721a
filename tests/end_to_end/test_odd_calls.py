"""What models do wrong in their calls costs one result, never the session."""

from __future__ import annotations

import json

from tests.conftest import NewProgram, NewServer
from tests.kit.script import Call, Dialect, Reply, call, say, with_dialect
from tests.kit.transcript import arguments, breaches, end_of

BAD_JSON = (
    '{"command": "cd x && git commit -m \\"abc}',
    "",
    "null",
    '{"a":1}{"b":2}',
    '{"command": "echo \x01\x02"}',
    '["command"]',
    '{"command": NaN}',
    '{"command": "\\ud800"}',
)
WRONG = (
    Call("unknown", {"x": 1}),
    Call("bash", {"command": "echo no"}),
    Call("", {"command": "echo no"}),
    Call("Bash", {"cmd": "echo no"}),
    Call("Bash", {"command": 7}),
    Call("Read", {"file_path": "does-not-exist.txt"}),
    Call("Read", {"file_path": "/etc/passwd"}),
    Call("Edit", {"file_path": "a.txt", "old_string": "x", "new_string": "x"}),
    Call("Glob", {}),
)


def test_bad_json_in_arguments_does_not_poison_the_session(server: NewServer, program: NewProgram) -> None:
    """K28: the broken text stayed in the history, and the service refused every request from then on."""

    model = server({"GO": [*(call("Bash", text) for text in BAD_JSON), say("done")], "NEXT": [say("went on")]})
    user = program(model)
    done = user.ask("GO")
    assert (done.code, done.out) == (0, "done\n")
    kept = list(arguments(user.records()).values())
    assert kept == [text.replace("\ud800", "\ufffd") for text in BAD_JSON]  # as the model wrote them, for audit
    failed = [record.payload["error"]["code"] for record in user.records() if record.is_action("failed")]
    assert failed == ["INVALID_ARGUMENTS"] * len(BAD_JSON)
    assert user.resume(user.session_id(), "NEXT").out == "went on\n"
    for sent in model.last("NEXT").calls():
        assert isinstance(json.loads(sent.arguments), dict)
    assert all(len(text) > 20 for text in model.last("NEXT").results().values())
    assert breaches(user.transcript()) == []


def test_a_wrong_call_gets_one_result_and_no_question(server: NewServer, program: NewProgram) -> None:
    """K33: a call of a tool that does not exist ended the run, or was never answered."""
    model = server([*(Reply(calls=(one,)) for one in WRONG), say("done")])
    user = program(model)
    user.write("a.txt", "x\n")
    done = user.run("-p", "GO", "--output-format", "json")
    assert (done.code, done.json()["permission_denials"]) == (0, [])
    assert done.json()["response"] == "done"
    records = user.records()
    codes = [record.payload["error"]["code"] for record in records if record.is_action("failed")]
    assert codes == [
        "UNKNOWN_TOOL",
        "UNKNOWN_TOOL",
        "UNKNOWN_TOOL",
        "INVALID_ARGUMENTS",
        "INVALID_ARGUMENTS",
        "NOT_FOUND",
        "OUTSIDE_WORKSPACE",
        codes[7],
        "INVALID_ARGUMENTS",
    ]
    results = list(model.last().results().values())
    assert len(results) == len(WRONG)
    assert all("Bash" in text and "Read" in text for text in results[:3])  # the names that there are
    assert "command" in results[3]
    assert breaches(user.transcript()) == []
    assert end_of(records) == "completed"


def test_the_same_wrong_name_again_and_again_ends(server: NewServer, program: NewProgram) -> None:
    model = server(lambda _n, _request: call("no_such_tool", {}))
    user = program(model)
    done = user.run("-p", "GO", "--max-steps", "12")
    assert done.code in (1, 3)
    assert len(model.requests) <= 12


def test_two_calls_with_the_same_id_both_get_their_result(server: NewServer, program: NewProgram) -> None:
    twice = Reply(calls=(Call("Bash", {"command": "echo a >> log"}, id="x"),))
    model = server([twice, twice, say("done")])
    user = program(model)
    assert user.ask("GO").out == "done\n"
    assert user.read("log") == "a\na\n"
    assert len(model.last().results()) == 2
    assert breaches(user.transcript()) == []


def test_every_dialect_of_streamed_calls_runs_each_call_once(server: NewServer, program: NewProgram) -> None:
    def both(dialect: Dialect) -> Reply:
        first, second = (f"echo {name}-{dialect.name} >> log" for name in ("first", "second"))
        calls = (Call("Bash", {"command": first}), Call("Bash", {"command": second}))
        return with_dialect(Reply("text", calls=calls), dialect)

    user = program(server([*map(both, Dialect), say("done")]))
    assert user.ask("GO").out == "done\n"
    assert user.read("log").split() == [f"{name}-{dialect.name}" for dialect in Dialect for name in ("first", "second")]
    assert breaches(user.transcript()) == []
