"""Faults of the model service: one sentence that says what to change, the right exit code, no traceback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Program
from tests.kit.script import Reply, Step, bash, fault, say
from tests.kit.side_by_side import side_by_side
from tests.kit.transcript import breaches, end_of, transitions

HTML = b"<!DOCTYPE html><html><head><title>Portal</title></head><body>Please log in</body></html>"
TALK = Reply("Words that were shown before the cut. " * 5, pieces=10, pause_s=0.02)
STREAM_HEADERS = {"content-type": "text/html"}


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[Step, ...]
    says: str  # a part of the sentence on stderr; "": the run succeeds
    requests: int
    env: Mapping[str, str] = field(default_factory=dict)
    code: int = 1


CASES = (
    Case("wrong key", (fault(401, "Incorrect API key provided", "invalid_api_key"),), "OPENAI_API_KEY", 1),
    Case("unknown model", (fault(404, "The model `scripted` does not exist", "model_not_found"),), "no model", 1),
    Case("html page", (Reply(raw=HTML, headers=STREAM_HEADERS),), "OPENAI_BASE_URL", 1),
    Case("rate limit that passes", (fault(429, "slow down", "rate", retry_after="0"), say("done")), "", 2),
    Case("overload that passes", (fault(503), say("done")), "", 2),
    Case("cut before anything was shown", (Reply("text", cut_after_chunks=1), say("done")), "", 2),
    Case("a wait that is too long", (fault(429, "slow down", "rate", retry_after="3600"),), "wait", 1),
    Case(
        "error in the stream", (Reply(raw=b'data: {"error":{"message":"busy","code":"503"}}\n\n'), say("done")), "", 2
    ),
)


def answer_of(user: Program) -> str:
    return "".join(str(record.payload["content"]) for record in user.records() if record.is_message("assistant"))


def test_a_fault_is_one_sentence_or_passes_unseen(server: NewServer, program: NewProgram) -> None:
    def one(case: Case) -> None:
        model = server([*case.steps, say("done")])
        user = program(model)
        done = user.ask("GO")
        assert "Traceback" not in done.err
        assert user.key not in done.err
        assert len(model.requests) == case.requests
        if not case.says:
            assert (done.code, done.out) == (0, "done\n")
            assert len(transitions(user.records(), "model_retry")) == case.requests - 1
            return
        assert (done.code, done.out) == (case.code, "")
        sentences = [line for line in done.err.splitlines() if case.says in line]
        assert len(sentences) == 1
        assert end_of(user.records()) == "model_error"
        assert breaches(user.transcript()) == []

    side_by_side(one, CASES)


def test_a_server_that_is_down_is_said_with_its_address(server: NewServer, program: NewProgram) -> None:
    model = server([])
    user = program(model)
    model.close()
    done = user.run("-p", "GO", "--output-format", "json")
    assert done.code == 1
    assert model.url in done.err
    assert "Traceback" not in done.err
    value = done.json()
    assert (value["status"], value["terminal_reason"], value["error"]["code"]) == (
        "failed",
        "model_error",
        "unreachable",
    )
    assert end_of(user.records()) == "model_error"


def test_an_answer_that_is_cut_after_it_was_shown_is_kept_and_marked(server: NewServer, program: NewProgram) -> None:
    cut = Reply(TALK.text, pieces=10, pause_s=0.02, cut_after_chunks=6)
    model = server({"GO": [cut, say("once more")], "NEXT": [say("went on")]})
    user = program(model)
    done = user.ask("GO")
    assert (done.code, done.out) == (1, "")
    assert "Traceback" not in done.err
    assert len(model.requests) == 1  # what was shown is not asked for again behind the user's back
    (message,) = [record.payload for record in user.records() if record.is_message("assistant")]
    assert TALK.text.startswith(message["content"])
    assert message["metadata"] == {"interrupted": True}
    assert end_of(user.records()) == "model_error"
    assert user.resume(user.session_id(), "NEXT").out == "went on\n"
    assert model.last("NEXT").texts("assistant") == [message["content"]]


def test_a_fault_after_a_tool_leaves_the_effect_and_its_result(server: NewServer, program: NewProgram) -> None:
    model = server([bash("echo once >> effects.log"), fault(401, "no", "invalid_api_key"), say("done")])
    user = program(model)
    assert user.ask("GO").code == 1
    done = user.go_on(user.session_id())
    assert (done.code, done.out) == (0, "done\n")
    assert model.requests[2].messages == model.requests[1].messages
    assert user.read("effects.log") == "once\n"


def test_a_model_without_a_name_is_a_configuration_error(server: NewServer, program: NewProgram) -> None:
    model = server([])
    user = program(model, env={"MYCODEAGENT_MODEL": None})
    done = user.ask("GO")
    assert (done.code, done.out, model.requests) == (2, "", [])
    assert "MYCODEAGENT_MODEL" in done.err
    assert user.transcripts() == []
