"""kill -9 between any two events of a run: it is resumed or continued, nothing happens twice, nothing is lost.

MYCODEAGENT_KILL_POINTS says how many of the run's events are tried.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.conftest import NewProgram, NewServer
from tests.end_to_end.job import (
    AFTERWARDS,
    ANSWER,
    EFFECTS,
    FILES_AFTERWARDS,
    JOB,
    SCRIPT,
    SUBJOB,
    conversation,
    files_of_head,
    make_repository,
)
from tests.kit.model_server import ModelServer
from tests.kit.program import Program, Result
from tests.kit.request import Request
from tests.kit.side_by_side import side_by_side
from tests.kit.transcript import (
    OUTCOMES,
    Record,
    arguments,
    breaches,
    end_of,
    outcomes,
    reached,
    read_records,
    transitions,
)

POINTS = int(os.environ.get("MYCODEAGENT_KILL_POINTS", "10"))


@dataclass(frozen=True)
class Whole:
    """The run that nothing disturbs: its requests, and how many events it has."""

    conversations: Sequence[list[object]]
    bodies: Sequence[object]  # everything of a request but its messages
    events: int


@dataclass(frozen=True)
class Death:
    """What the transcripts said when the process was dead."""

    user: Program
    model: ModelServer
    records: Sequence[Record]  # of the session, subagents left out
    events: int
    requests: int

    @property
    def session_id(self) -> str:
        return self.user.session_id()

    @property
    def answers(self) -> int:
        return sum(record.is_message("assistant") for record in self.records)

    def interrupted(self) -> dict[str, Record]:
        """The `started` records without an outcome, by action."""
        finished = outcomes(self.records)
        started = [record for record in self.records if record.is_action("started")]
        found = {str(record.payload["action_id"]): record for record in started}
        return {action_id: record for action_id, record in found.items() if not finished[action_id]}

    def unanswered(self) -> frozenset[str]:
        """The calls that were asked for and had no outcome."""
        done = {record.payload["tool_call_id"] for record in self.records if record.payload.get("status") in OUTCOMES}
        return frozenset(set(arguments(self.records)) - done)


def test_a_run_killed_between_any_two_events_is_resumed_or_continued(
    server: NewServer, program: NewProgram, battery: Callable[[str], None]
) -> None:
    whole = the_whole_run(server, program)
    assert whole.events >= 25
    first, last = 2, whole.events - 3  # after the second the prompt is not recorded yet, the last three end the run
    points = sorted({first + round(i * (last - first) / max(1, POINTS - 1)) for i in range(POINTS)})
    continued = {point for point in points[1::2] if point > first}

    def one(point: int) -> int:
        death = die(server(SCRIPT), program, point)
        assert_recover_names_what_was_interrupted(death)
        if point in continued and not end_of(death.records):
            assert_goes_on(death, whole)
        else:
            assert_takes_a_prompt(death, whole)
        assert_nothing_twice(death)
        return len(death.interrupted())

    interrupted = side_by_side(one, points)
    battery(
        f"kill -9 between events: {len(points)} of {whole.events} points, {len(continued)} continued and "
        f"{len(points) - len(continued)} resumed with a prompt, {sum(map(bool, interrupted))} with an open action"
    )


def the_whole_run(server: NewServer, program: NewProgram) -> Whole:
    model = server(SCRIPT)
    user = program(model)
    make_repository(user)
    assert user.ask(JOB).out == ANSWER + "\n"
    requests = [request for request in model.requests if not request.has(SUBJOB, "user")]
    events = sum(len(read_records(path)) for path in user.transcripts())
    return Whole([conversation(user, request) for request in requests], [rest_of(one) for one in requests], events)


def rest_of(request: Request) -> object:
    return {key: value for key, value in request.body.items() if key != "messages"}


def die(model: ModelServer, program: NewProgram, point: int) -> Death:
    """Start the job and kill it when so many records are there."""
    user = program(model)
    make_repository(user)
    user.start("-p", JOB, "--mode", "auto").kill_when(reached(point))
    events = sum(len(read_records(path)) for path in user.transcripts())
    return Death(user, model, user.records(), events, len(model.requests))


def assert_recover_names_what_was_interrupted(death: Death) -> None:
    found = death.user.recover(death.session_id)["uncertain_actions"]
    texts = arguments(death.records)
    wanted = {
        action_id: (record.payload["tool_name"], record.payload["tool_call_id"], record.fields["timestamp"])
        for action_id, record in death.interrupted().items()
    }
    assert {one["action_id"]: (one["tool_name"], one["tool_call_id"], one["started_at"]) for one in found} == wanted
    for one in found:
        assert one["arguments"] == json.loads(texts[one["tool_call_id"]])
        assert one["decision"] is None


def assert_goes_on(death: Death, whole: Whole) -> None:
    """`continue` sends the request that was in flight, or else the next one, and ends like the undisturbed run."""
    done = death.user.go_on(death.session_id)
    assert (done.code, done.out) == (0, ANSWER + "\n"), done
    assert_told(death, done)
    if death.answers < len(whole.conversations):
        request = first_of_the_session(death)
        assert rest_of(request) == whole.bodies[death.answers]
        wanted = whole.conversations[death.answers]
        assert without_results(conversation(death.user, request), death) == without_results(wanted, death)
    records = death.user.records()
    users = [record.payload for record in records if record.is_message("user")]
    assert [user["content"] for user in users if "recovery" not in user.get("metadata", {})] == [JOB]
    assert len(users) <= 2
    assert {record.fields["run_id"] for record in records} <= {"", "run-1"}
    assert end_of(records) == "completed"
    if not death.unanswered():
        assert files_of_head(death.user.workspace) == FILES_AFTERWARDS


def assert_takes_a_prompt(death: Death, whole: Whole) -> None:
    """A new prompt is sent behind all that was said and done before."""
    done = death.user.resume(death.session_id, AFTERWARDS)
    assert (done.code, done.out) == (0, "We are here.\n"), done
    assert_told(death, done)
    sent = conversation(death.user, first_of_the_session(death))
    asked = any(record.is_message("user") for record in death.records)
    wanted = (
        whole.conversations[death.answers]
        if death.answers < len(whole.conversations)
        else [
            *whole.conversations[-1],
            {"role": "assistant", "content": ANSWER},
        ]
    )
    before = wanted[1:] if asked else []
    spoken = [message for message in sent[1:-1] if message not in drafts(sent)]
    assert without_results(spoken, death) == without_results(before, death)
    assert sent[-1] == {"role": "user", "content": AFTERWARDS}
    records = death.user.records()
    assert [end_of(records), *transitions(records, "run_started")[2:]] == ["completed"]


def drafts(messages: Sequence[object]) -> list[object]:
    """The parts of answers that a crash cut off."""
    return [
        message
        for message in messages
        if isinstance(message, dict)
        and message["role"] == "assistant"
        and not message.get("tool_calls")
        and message["content"] != ANSWER
    ]


def first_of_the_session(death: Death) -> Request:
    """The first request after the crash that is no subagent's."""
    return next(request for request in death.model.requests[death.requests :] if not request.has(SUBJOB, "user"))


def without_results(messages: Sequence[object], death: Death) -> list[object]:
    """The messages, without the content of results that the crash kept from coming."""
    cut_off = death.unanswered()
    return [
        {**message, "content": "<any>"}
        if isinstance(message, dict) and message.get("tool_call_id") in cut_off
        else message
        for message in messages
    ]


def assert_told(death: Death, done: Result) -> None:
    """Each interrupted action is printed by name, arguments and time."""
    texts = arguments(death.records)
    for record in death.interrupted().values():
        text = texts[record.payload["tool_call_id"]]
        first = next((value for value in json.loads(text).values() if isinstance(value, str)), text)
        assert f"{record.payload['tool_name']}  {first[:40]}" in done.err
        moment = datetime.fromisoformat(str(record.fields["timestamp"])).astimezone()
        assert f"started {moment:%H:%M:%S}" in done.err
    assert "Traceback" not in done.err


def assert_nothing_twice(death: Death) -> None:
    user = death.user
    user.assert_gone()
    assert [path for path in user.transcripts() if path.match("transcript-session-*")] == [user.transcript()]
    assert [breaches(path) for path in user.transcripts()] == [[] for _ in user.transcripts()]
    records = user.records()
    assert max(outcomes(records).values(), default=0) <= 1
    decided = [str(details["action_id"]) for details in transitions(records, "recovery_decided")]
    assert sorted(decided) == sorted(death.interrupted())
    answered = [record.payload["tool_call_id"] for record in records if record.is_message("tool")]
    assert sorted(answered) == sorted(arguments(records))
    effects = user.read("effects.log").split()
    assert len(set(effects)) == len(effects)
    completed = [record for record in death.records if record.is_action("completed", "Bash")]
    texts = arguments(death.records)
    for record in completed:
        assert sum(effect in texts[record.payload["tool_call_id"]] for effect in effects) == 1
    assert set(effects) <= set(EFFECTS)
