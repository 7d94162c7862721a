from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from agent.errors import FailureKind, ModelFailure
from agent.provider.assembly import Reply, ReplyAssembler, ToolCall, Usage
from agent.provider.base import Chunk

READ, GREP = '{"file_path": "a.py"}', '{"pattern": "x[0-9]+"}'
TWO_CALLS = [("Read", READ), ("Grep", GREP)]
USAGE = {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}


def numbered() -> Callable[[], str]:
    count = itertools.count(1)
    return lambda: f"made_{next(count)}"


def assemble(*chunks: Chunk, taken: Callable[[str], bool] = lambda _id: False) -> Reply:
    assembler = ReplyAssembler(new_id=numbered(), taken=taken)
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler.finish()


def delta(content: dict[str, object], finish: str | None = None) -> Chunk:
    return {"choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


def calls(*entries: dict[str, object]) -> Chunk:
    return delta({"tool_calls": list(entries)})


def entry(name: str | None = None, arguments: object = None, **more: object) -> dict[str, object]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**more, "function": function}


def thirds(text: str) -> list[str]:
    return [text[:5], text[5:9], text[9:]]


def end(reason: str = "tool_calls") -> Chunk:
    return delta({}, reason)


def names_and_arguments(reply: Reply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in reply.tool_calls]


# -- text


def test_a_plain_answer_is_text_usage_and_reason() -> None:
    reply = assemble(
        delta({"role": "assistant", "content": ""}),
        delta({"reasoning_content": "hm"}),
        delta({"content": "Hel"}),
        delta({"content": "lo"}),
        end("stop"),
        {"choices": [], "usage": USAGE},
    )
    assert reply == Reply("Hello", (), "stop", Usage(90, 64, 7), "hm")


def test_the_screen_gets_each_fragment_once() -> None:
    assembler = ReplyAssembler()
    shown = [assembler.feed(delta({"content": text})) for text in ("a", "", "b")]
    assert (shown, assembler.partial_text) == (["a", "", "b"], "ab")


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None}}]},
        {"choices": [{"delta": {"tool_calls": [None, "x"]}}]},
        {"choices": [{"delta": {"content": 5}, "finish_reason": ""}]},
    ],
)
def test_empty_and_odd_chunks_add_nothing(chunk: Chunk) -> None:
    assert assemble(delta({"content": "x"}), chunk, end("stop")) == Reply("x", (), "stop")


def test_content_may_be_a_list_of_parts_and_a_refusal_is_text() -> None:
    parts = delta({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})
    assert assemble(parts, delta({"refusal": "no"}), end("stop")).text == "abno"


def test_where_every_chunk_has_a_usage_the_last_one_counts() -> None:
    first = {**delta({"content": "x"}), "usage": {"prompt_tokens": 90, "completion_tokens": 1}}
    last = {**end("stop"), "usage": USAGE}
    assert assemble(first, last, {"choices": [], "usage": None}).usage == Usage(90, 64, 7)


def test_a_character_that_comes_in_two_halves_is_whole() -> None:
    assembler = ReplyAssembler()
    shown = [assembler.feed(delta({"content": text})) for text in ("a\ud83d", "\ude00b", "\ud83d")]
    assembler.feed(end("stop"))
    assert shown == ["a", "😀b", ""]
    assert assembler.finish().text == "a😀b�"


def test_half_characters_are_replaced_everywhere() -> None:
    """K05 (b)."""
    reply = assemble(
        delta({"content": "\ude00x", "reasoning": "\ud83d"}),
        calls(entry("R\ud83d", '{"a": "\ud83d"}', id="\ud83d")),
        end(),
    )
    assert reply == Reply("�x", (ToolCall("�", "R�", '{"a": "�"}'),), "tool_calls", reasoning="�")


# -- tool calls in the dialects of K31


def each_fragment(**kinds: object) -> list[Chunk]:
    """Two calls, one after the other, arguments in three fragments; `kinds` says what the fragments carry."""
    chunks = []
    for place, (name, arguments) in enumerate(TWO_CALLS):
        for number, fragment in enumerate(thirds(arguments)):
            more: dict[str, object] = {}
            if "first_index" in kinds:
                more["index"] = int(str(kinds["first_index"])) + place
            if "index" in kinds:
                more["index"] = kinds["index"]
            if kinds.get("ids") == "all" or (kinds.get("ids") == "first" and number == 0):
                more["id"] = f"id_{place}"
            if kinds.get("ids") == "new each time":
                more["id"] = f"id_{place}_{number}"
            named = number == 0 or kinds.get("names") == "all"
            chunks.append(calls(entry(name if named else None, fragment, **more)))
    return chunks


@pytest.mark.parametrize(
    "kinds",
    [
        {"first_index": 0, "ids": "first"},
        {"first_index": 0, "ids": "all", "names": "all"},
        {"first_index": 0, "ids": "new each time"},
        {"first_index": 0},
        {"first_index": 1, "ids": "first"},
        {"first_index": 1},
        {"index": 0, "ids": "all"},
        {"index": 0, "ids": "all", "names": "all"},
        {"index": 0, "ids": "first"},
        {"ids": "all"},
        {"ids": "all", "names": "all"},
        {"ids": "first"},
        {"ids": "first", "names": "all"},
        {"ids": "new each time"},
        {},
        {"names": "all"},
    ],
    ids=str,
)
@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call"])
def test_two_calls_stay_two_in_every_dialect(kinds: dict[str, object], finish: str) -> None:
    reply = assemble(*each_fragment(**kinds), end(finish))
    assert names_and_arguments(reply) == TWO_CALLS
    assert len({call.id for call in reply.tool_calls} - {""}) == 2


def interleaved(chunks: list[Chunk]) -> list[Chunk]:
    return [chunk for pair in zip(chunks[:3], chunks[3:], strict=True) for chunk in pair]


@pytest.mark.parametrize(
    "kinds",
    [{"first_index": 0, "ids": "first"}, {"first_index": 1}, {"index": 0, "ids": "all"}, {"ids": "all"}],
    ids=str,
)
def test_fragments_of_two_calls_may_take_turns(kinds: dict[str, object]) -> None:
    assert names_and_arguments(assemble(*interleaved(each_fragment(**kinds)), end())) == TWO_CALLS


def test_without_index_and_id_the_place_in_the_list_tells_the_call() -> None:
    begun = calls(entry("Read", "", id="r"), entry("Grep", "", id="g"))
    rest = [
        calls(entry(arguments=one), entry(arguments=other))
        for one, other in zip(thirds(READ), thirds(GREP), strict=True)
    ]
    assert names_and_arguments(assemble(begun, *rest, end())) == TWO_CALLS


@pytest.mark.parametrize("more", [{}, {"index": 0}, {"index": 0, "id": ""}, {"id": None}, {"id": "same"}], ids=str)
def test_whole_calls_with_nothing_to_tell_them_apart_are_two(more: dict[str, object]) -> None:
    both = [entry("Read", READ, **more), entry("Read", GREP, **more)]
    for chunks in ([calls(*both)], [calls(one) for one in both]):
        reply = assemble(*chunks, end())
        assert names_and_arguments(reply) == [("Read", READ), ("Read", GREP)]
        assert len({call.id for call in reply.tool_calls}) == 2


def test_a_call_whose_name_comes_before_its_arguments_and_id() -> None:
    chunks = [calls(entry("Read", "", index=0)), calls(entry(None, READ, index=0, id="late"))]
    assert assemble(*chunks, end()).tool_calls == (ToolCall("late", "Read", READ),)


def test_arguments_as_an_object_become_text() -> None:
    reply = assemble(calls(entry("Write", {"file_path": "a", "content": "你\n"}, index=0, id="i")), end())
    assert reply.tool_calls == (ToolCall("i", "Write", '{"file_path": "a", "content": "你\\n"}'),)


def test_ids_are_made_when_missing_repeated_or_taken() -> None:
    reply = assemble(
        calls(entry("A", "{}", index=0, id="same"), entry("B", "{}", index=1, id="same")),
        calls(entry("C", "{}", index=2), entry("D", "{}", index=3, id="old")),
        end(),
        taken=lambda call_id: call_id in {"old", "made_2"},
    )
    assert [(call.name, call.id) for call in reply.tool_calls] == [
        ("A", "same"),
        ("B", "made_1"),
        ("C", "made_3"),
        ("D", "made_4"),
    ]


def test_made_ids_are_new_each_time() -> None:
    made = set()
    for _ in range(50):
        assembler = ReplyAssembler()
        assembler.feed(calls(entry("A", "{}"), entry("B", "{}")))
        assembler.feed(end())
        made |= {call.id for call in assembler.finish().tool_calls}
    assert len(made) == 100


@pytest.mark.parametrize(
    "arguments",
    ['{"command": "cd x && git commit -m \\"abc}', "", "null", '{"a":1}{"b":2}', '{"a": "tab\there"}', "[1]"],
)
def test_arguments_are_kept_as_the_model_wrote_them(arguments: str) -> None:
    """K28: who runs the call says what is wrong with it."""
    reply = assemble(calls(entry("Bash", arguments, index=0, id="i")), end())
    assert reply.tool_calls == (ToolCall("i", "Bash", arguments),)


# -- answers that did not come to their end (K29)


def broken(*chunks: Chunk) -> tuple[FailureKind, bool]:
    with pytest.raises(ModelFailure) as caught:
        assemble(*chunks)
    return caught.value.kind, caught.value.retryable


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [delta({"role": "assistant"})],
        [delta({"content": "half a sen"})],
        [calls(entry("Bash", '{"command": "rm -r', index=0, id="i"))],
        [calls(entry("Bash", '{"command": "rm -r build"}', index=0, id="i"))],
        [{"choices": [], "usage": USAGE}],
        [delta({"content": "x"}, "error")],
    ],
    ids=["nothing", "role", "text", "half a call", "a whole call", "usage", "finish error"],
)
def test_an_end_without_a_finish_reason_is_broken(chunks: list[Chunk]) -> None:
    assert broken(*chunks) == (FailureKind.STREAM_BROKEN, True)


@pytest.mark.parametrize("arguments", ['{"command": "rm -r build', "", '{"command": "rm -r build"'])
def test_a_call_cut_by_the_length_limit_is_broken_and_asking_again_does_not_help(arguments: str) -> None:
    assert broken(calls(entry("Bash", arguments, index=0, id="i")), end("length")) == (FailureKind.STREAM_BROKEN, False)


def test_a_text_cut_by_the_length_limit_is_a_reply() -> None:
    assert assemble(delta({"content": "long"}), end("length")) == Reply("long", (), "length")


def test_what_was_shown_is_known_after_a_break() -> None:
    assembler = ReplyAssembler()
    assembler.feed(delta({"content": "half"}))
    with pytest.raises(ModelFailure):
        assembler.finish()
    assert assembler.partial_text == "half"
