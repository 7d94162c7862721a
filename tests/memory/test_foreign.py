"""Files without checksums: the article's form and the original program's, read as they are and continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory.events import JsonObject, ToolCall
from memory.state import MissingResult, UncertainAction
from tests.kit.golden import GOLDEN
from tests.memory.memory_kit import Place, answers, asks, decided, done, facts_of, in_run, kinds, says, shown, user


def golden(tmp_path: Path, name: str, session_id: str) -> Place:
    place = Place(tmp_path, session_id)
    place.put((GOLDEN / name).read_bytes())
    return place


@pytest.fixture
def article(tmp_path: Path) -> Place:
    return golden(tmp_path, "article-form.jsonl", "s-123")


@pytest.fixture
def original(tmp_path: Path) -> Place:
    return golden(tmp_path, "original-form.jsonl", "session-20260821")


def foreign(**fields: object) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def said(word: str, **fields: object) -> bytes:
    return foreign(event_type="message", payload={"role": "user", "content": word}, **fields)


def test_the_form_of_the_article_loads(article: Place) -> None:
    state = article.load()
    assert shown(state) == [("user", "帮我重构认证模块")]
    assert state.uncertain_actions == (
        UncertainAction(
            tool_name="Edit",
            tool_call_id="call-abc",
            action_id="run-1/call-abc/1",
            run_id="run-1",
            step=2,
            started_at="2026-08-19T09:00:05Z",
            payload={},
            arguments=None,
            replay_allowed=False,
        ),
    )
    assert (state.missing_results, state.checkpoint, state.draft, state.terminal) == ((), None, None, None)
    assert (state.runs, state.steps, state.last_seq, state.last_timestamp) == (1, 0, 7, "2026-08-19T09:00:05Z")
    assert kinds(state.damage) == [("unverified", 1, 0, len(article.data))]


def test_the_form_of_the_original_program_loads(original: Place) -> None:
    state = original.load()
    read, bash = (
        ToolCall("call_1", "Read", '{"path": "auth.py"}'),
        ToolCall("call_2", "Bash", '{"command": "git status"}'),
    )
    assert shown(state) == [
        ("user", "看一下 auth.py，把 login 改好"),
        ("assistant", ""),
        ("tool call_1", '{"status": "success", "text": "Read 2 lines"}'),
    ]
    assert state.history_messages[1].tool_calls == (read, bash)
    assert state.uncertain_actions == (
        UncertainAction(
            tool_name="Bash",
            tool_call_id="call_2",
            action_id="run-1/call_2/1",
            run_id="run-1",
            step=1,
            started_at="2026-12-01T03:48:53.410048Z",
            payload={},
            arguments='{"command": "git status"}',
            replay_allowed=False,
        ),
    )
    (missing,) = state.missing_results
    assert isinstance(missing, MissingResult)
    assert (missing.call, missing.run_id, missing.step) == (bash, "run-1", 1)
    assert missing.action is not None and missing.action.outcome is None
    assert state.pending_tool_calls == ()
    assert (state.runs, state.steps, state.last_seq, state.terminal) == (1, 1, 9, None)
    assert kinds(state.damage) == [("unverified", 1, 0, len(original.data))]


@pytest.mark.parametrize("name", ["article", "original"])
def test_a_foreign_file_is_continued_and_its_old_lines_stay(name: str, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue(name)
    old, before = place.data, place.load()
    (open_action,) = before.uncertain_actions
    place.write(
        ("run-1", 2, decided(open_action.action_id)),
        ("run-1", 2, answers(open_action.tool_call_id, "told")),
        *in_run("run-2", 0, user("go on"), says("done")),
    )
    assert place.data.startswith(old)
    state = place.load()
    assert (state.uncertain_actions, state.missing_results) == ((), ())
    assert shown(state)[-2:] == [("user", "go on"), ("assistant", "done")]
    assert (state.last_seq, state.runs) == (before.last_seq + 4, 2)
    assert kinds(state.damage) == [("unverified", 1, 0, len(place.data))]


def test_in_a_continued_file_a_line_without_checksum_is_damage_only_behind_ours(article: Place) -> None:
    article.write(("run-2", 0, user("ours")))
    ours = article.data
    article.put(ours, said("forged"))
    state = article.load()
    assert shown(state) == [("user", "帮我重构认证模块"), ("user", "ours")]
    assert ("corrupt", 9, len(ours), len(said("forged"))) in kinds(state.damage)


def test_a_damaged_line_and_a_doubled_one_cost_themselves_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put(said("one", event_id="a"), b'{"event_type"\n', said("two", event_id="b"), said("one", event_id="a"))
    place.put(place.data, b"\n", said("three", event_id="c")[:-1])
    state = place.load()
    assert shown(state) == [("user", "one"), ("user", "two"), ("user", "three")]
    found = [one[:2] for one in kinds(state.damage)]
    assert sorted(found) == [("corrupt", 2), ("duplicate", 4), ("unverified", 1)]
    assert facts_of(place.load()) == facts_of(state)


def test_a_torn_foreign_record_is_set_aside(article: Place) -> None:
    whole = article.data
    article.put(whole, b'{"event_id":"evt-0008","timest')
    article.open().close()
    assert (article.data, article.files.torn(1).read_bytes()) == (whole, b'{"event_id":"evt-0008","timest')


def message(role: str, **payload: object) -> JsonObject:
    return {"event_type": "message", "payload": {"role": role, **payload}}


def changed(reason: str, **details: object) -> JsonObject:
    return {"event_type": "state_transition", "payload": {"reason": reason, "details": details}}


def outcome(**payload: object) -> JsonObject:
    named = {"tool_name": "X", "tool_call_id": "1", "status": "completed"}
    return {"event_type": "tool_lifecycle", "payload": {**named, **payload}}


ODD: list[JsonObject] = [
    message("user", content={"blob": "a\0b", "bytes": 1, "head": "h", "tail": "t"}),
    message("user", content="\ud800", metadata=[1]),
    message("assistant", metadata={"tool_calls": {"id": 1}}),
    message("assistant", metadata={"tool_calls": [7, {"arguments": {"a": 1}}]}),
    message("user", content="x", metadata={"recovery": {"damage": [1], "changed_files": 5}}),
    message("user", content="x", metadata={"recovery": {"damage": [["a", "b"]], "changed_files": [[]]}}),
    message("tool", content="x"),
    changed("forked", runtime_state={"todos": None, "cwd": 5, "read_cache": 3, "grants": "x"}),
    changed("forked", runtime_state="x"),
    changed("transcript_repaired", damage=[{"offset": None}, 3]),
    changed("transcript_gap", damage=5),
    changed("input_queued", text={"blob": 1}),
    outcome(result=[1], file_states=[{}]),
    outcome(error={"message": 3}),
    outcome(status="paused"),
    {"event_type": "checkpoint", "payload": {"summary": "s"}},
    {"event_type": "terminal", "payload": {}, "step": "x", "seq": "y", "run_id": 5, "timestamp": 7},
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_no_shape_of_a_record_is_fatal(tmp_path: Path, odd: JsonObject) -> None:
    place = Place(tmp_path)
    place.put(said("before"), json.dumps(odd).encode(), b"\n", said("after"))
    texts = [text for _role, text in shown(place.load())]
    assert (texts[0], texts[-1]) == ("before", "after")
    place.write(*in_run("run-2", 1, asks("c1"), *done("c1")))
    assert shown(place.load())[-1] == ("tool c1", "result of c1")
