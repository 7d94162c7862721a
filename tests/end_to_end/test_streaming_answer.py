"""kill -9 while an answer streams: what was on the screen is there after the resume."""

from __future__ import annotations

import signal
import time

from tests.conftest import NewProgram, NewServer
from tests.kit.json_object import parse_object
from tests.kit.model_server import ModelServer
from tests.kit.program import Program
from tests.kit.request import Request
from tests.kit.script import Reply, Script, say
from tests.kit.transcript import breaches, end_of

TEXT = "The words of this answer come one after the other and never end. " * 40


def first_slowly(request: Request) -> Reply:
    """The first answer streams slowly; whoever asks again gets another one at once."""
    return Reply(TEXT, pieces=300, pause_s=0.03) if request.number == 0 else say("the whole answer")


SCRIPT: Script = {"TALK-SLOWLY": [first_slowly, first_slowly], "NEXT-PROMPT": [say("went on")]}


def killed_while_streaming(user: Program) -> str:
    """Kill the program in the middle of its answer; what had reached stdout or the draft's reader until then."""
    process = user.start("-p", "TALK-SLOWLY", "--mode", "auto", "--output-format", "stream-json")
    end = time.monotonic() + 30
    while process.out().count('"text_delta"') < 20:
        assert process.is_running() and time.monotonic() < end, process.err()
        time.sleep(0.005)
    process.kill()
    events = [parse_object(line) for line in process.out().split("\n")[:-1]]
    return "".join(event["payload"]["text"] for event in events if event["type"] == "text_delta")


def killed(server: NewServer, program: NewProgram) -> tuple[ModelServer, Program, str]:
    model = server(SCRIPT)
    user = program(model)
    shown = killed_while_streaming(user)
    assert TEXT.startswith(shown)
    assert len(shown) > 20
    return model, user, shown


def test_with_a_new_prompt_the_shown_part_becomes_an_interrupted_message(
    server: NewServer, program: NewProgram
) -> None:
    model, user, shown = killed(server, program)
    done = user.resume(user.session_id(), "NEXT-PROMPT")
    assert (done.code, done.out) == (0, "went on\n")
    assert "The answer that was cut off had come to here:" in done.err
    assert " ".join(shown.split()) in " ".join(done.err.split())
    first, second = [record.payload for record in user.records() if record.is_message("assistant")]
    assert first["content"].startswith(shown)
    assert TEXT.startswith(first["content"])
    assert first["metadata"] == {"interrupted": True, "recovered": True}
    assert second["content"] == "went on"
    said = [(message["role"], message["content"]) for message in model.last().messages[1:]]
    assert said == [("user", "TALK-SLOWLY"), ("assistant", first["content"]), ("user", "NEXT-PROMPT")]
    assert breaches(user.transcript()) == []
    again = user.resume(user.session_id(), "NEXT-PROMPT")
    assert "cut off" not in again.err
    assert sum(text.startswith(shown) for text in model.last().texts("assistant")) == 1


def test_continue_asks_again_without_the_shown_part(server: NewServer, program: NewProgram) -> None:
    model, user, _ = killed(server, program)
    done = user.go_on(user.session_id())
    assert (done.code, done.out) == (0, "the whole answer\n")
    assert model.requests[1].messages == model.requests[0].messages
    said = [record.payload["content"] for record in user.records() if record.is_message("assistant")]
    assert said == ["the whole answer"]
    assert end_of(user.records()) == "completed"
    assert breaches(user.transcript()) == []
    assert user.resume(user.session_id(), "NEXT-PROMPT").out == "went on\n"
    assert model.last().texts("assistant") == ["the whole answer"]


def test_recover_shows_the_part_and_leaves_it_where_it_is(server: NewServer, program: NewProgram) -> None:
    _, user, shown = killed(server, program)
    before = user.transcript().read_bytes()
    for _ in range(2):
        found = user.run("recover", user.session_id())
        assert found.code == 0
        assert " ".join(shown.split()) in " ".join(found.out.split())
    assert user.transcript().read_bytes() == before


def test_an_interrupted_answer_is_asked_for_again_by_continue(server: NewServer, program: NewProgram) -> None:
    """The request after it must not end in the cut answer: services refuse that."""
    model = server(SCRIPT)
    user = program(model)
    process = user.start("-p", "TALK-SLOWLY", "--mode", "auto", "--output-format", "stream-json")
    while '"text_delta"' not in process.out():
        assert process.is_running()
        time.sleep(0.005)
    process.signal(signal.SIGINT)
    assert process.result().code == 130
    done = user.go_on(user.session_id())
    assert (done.code, done.out) == (0, "the whole answer\n")
    assert model.requests[1].messages == model.requests[0].messages
    assert user.resume(user.session_id(), "NEXT-PROMPT").out == "went on\n"
    assert model.last().texts("assistant") == ["the whole answer"]
