"""A conversation that outgrows the window: a summary stands for its beginning, also after a crash and a resume."""

from __future__ import annotations

from tests.conftest import NewProgram, NewServer
from tests.kit.program import Program
from tests.kit.script import Reply, Script, Step, bash, call, fault, say
from tests.kit.transcript import breaches, saw, transitions

WINDOW_TOKENS = 12_000
READS = 8
ENV = {"MYCODEAGENT_CONTEXT_TOKENS": str(WINDOW_TOKENS)}
SUMMARY = "SUMMARY: eight parts are to be read"


def steps(*last: Reply) -> Script:
    """Read part after part, then say `last`; neither refused requests nor left-out messages disturb the count."""
    reads = [call("Read", {"file_path": f"part-{number}.txt"}) for number in range(READS)]
    coming = iter([*reads, *last])
    return lambda _number, _request: next(coming)


def with_parts(user: Program) -> Program:
    for number in range(READS):
        user.write(f"part-{number}.txt", f"line of part {number}\n" * 400)
    return user


def compacted(server: NewServer, program: NewProgram, *, side: Step, reason: str, crash: bool) -> None:
    wait = bash("echo begun >> effects.log; sleep 0.5")
    model = server(
        steps(wait, say("went on")) if crash else steps(say("I have read it all."), say("went on")),
        side=side,
        limit_tokens=WINDOW_TOKENS,
    )
    user = with_parts(program(model, env=ENV))
    if crash:
        user.start("-p", "READ-MUCH", "--mode", "auto").kill_when(saw("started", "Bash"))
    else:
        assert user.ask("READ-MUCH").out == "I have read it all.\n"
    records = user.records()
    assert len(transitions(records, reason)) >= 1
    checkpoints = [record for record in records if record.event_type == "checkpoint"]
    assert len(checkpoints) == len(transitions(records, reason))
    texts = [str(record.payload.get("result")) for record in records if record.is_action("completed", "Read")]
    assert len(texts) == READS  # what is out of view is still in the file
    done = user.resume(user.session_id(), "NEXT")
    assert (done.code, done.out) == (0, "went on\n")
    request = model.last("NEXT")
    assert len(request.raw) // 4 < WINDOW_TOKENS
    assert len(request.results()) < READS
    first = request.messages[1]
    assert (first["role"], "READ-MUCH" in first["content"]) == ("user", True)  # the summary repeats the last request
    assert checkpoints[-1].payload["summary"] in first["content"]
    assert breaches(user.transcript()) == []


def test_a_summary_by_the_model_stands_for_the_beginning(server: NewServer, program: NewProgram) -> None:
    compacted(server, program, side=say(SUMMARY), reason="context_compacted", crash=False)


def test_it_does_so_after_kill_and_resume(server: NewServer, program: NewProgram) -> None:
    compacted(server, program, side=say(SUMMARY), reason="context_compacted", crash=True)


def test_a_summary_that_fails_leaves_a_marker_and_the_resume_starts_below_the_limit(
    server: NewServer, program: NewProgram
) -> None:
    """K13: what was cut had no marker on disk, so each restart loaded the whole overflow again."""
    compacted(server, program, side=fault(400), reason="context_truncated", crash=True)


def test_a_request_that_the_service_calls_too_long_is_made_shorter(server: NewServer, program: NewProgram) -> None:
    model = server(steps(say("I have read it all."), say("went on")), limit_tokens=9_000)
    user = with_parts(program(model))  # the program believes in a larger window than the service has
    assert user.ask("READ-MUCH").out == "I have read it all.\n"
    assert len(transitions(user.records(), "context_compacted")) >= 1
    assert user.resume(user.session_id(), "NEXT").out == "went on\n"
    assert breaches(user.transcript()) == []


def test_summaries_made_by_rules_do_not_grow_with_their_number(server: NewServer, program: NewProgram) -> None:
    many = [call("Read", {"file_path": f"part-{number % READS}.txt"}) for number in range(60)]
    model = server([*many, say("done")], side=fault(400))
    user = with_parts(program(model, env=ENV))
    assert user.ask("READ-MUCH").out == "done\n"
    sizes = [len(record.payload["summary"]) for record in user.records() if record.event_type == "checkpoint"]
    assert len(sizes) > 10
    assert len(set(sizes[1:])) == 1
    assert len(model.last().raw) // 4 < WINDOW_TOKENS
