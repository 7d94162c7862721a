"""What the model sees: one system message, the history in a form that the strictest service takes, a bounded view."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context import compaction
from agent.context.engine import ContextEngine
from agent.context.history import HistoryManager
from agent.context.pictures import VIEW_BYTES_MAX
from agent.context.tokens import estimated_tokens
from agent.context.wire import EMPTY_RESULT, WireForm, is_json_object
from agent.provider.base import ChatMessage
from agent.state import World
from memory.checkpoint import CompactCheckpoint
from memory.events import HistoryMessage, ImageRef, ToolCall
from tests.kit.strict import problem_of

WORLD = World("/w", "m", "p", "ask", "2026-01-31", "Use tabs.", ("Read",))


def user(text: str = "do it", **metadata: object) -> HistoryMessage:
    return HistoryMessage("user", text, metadata=metadata)


def assistant(text: str = "", *calls: ToolCall, **metadata: object) -> HistoryMessage:
    return HistoryMessage("assistant", text, calls, metadata=metadata)


def result(call_id: str, text: str = "ok") -> HistoryMessage:
    return HistoryMessage("tool", text, tool_call_id=call_id)


def a_call(call_id: str = "c1", arguments: str = "{}", name: str = "Read") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def no_images(_name: str) -> None:
    return None


def view_of(*messages: HistoryMessage, world: World = WORLD, memory: str = "") -> list[ChatMessage]:
    history = HistoryManager()
    history.load_messages(messages, messages_before=0)
    return ContextEngine(history, no_images).build_model_view(world, memory)


def problem(view: Sequence[object]) -> str | None:
    return problem_of({"model": "m", "messages": list(view)})


# -- the view


def test_one_system_message_stands_first_and_depends_on_the_recorded_world_alone() -> None:
    first, second = view_of(user(), memory="Current goal:\n- ship it")
    assert (first["role"], second) == ("system", {"role": "user", "content": "do it"})
    text = str(first["content"])
    for part in (
        "/w",
        "2026-01-31",
        "Rules of this project:\n\nUse tabs.",
        "Session memory:\nCurrent goal:\n- ship it",
    ):
        assert part in text
    assert "plan mode" not in text
    assert "plan mode" in str(view_of(user(), world=World("/w", "m", "p", "plan", "d", "", ()))[0]["content"])


def test_the_view_of_a_growing_history_is_the_view_of_the_whole_one() -> None:
    messages = [user(), assistant("", a_call("c1"), a_call("c1")), result("c1"), assistant("done"), user("again")]
    history = HistoryManager()
    engine = ContextEngine(history, no_images)
    grown = []
    for seq, message in enumerate(messages, 1):
        match message.role:
            case "user":
                history.append_user(message.content, seq=seq)
            case "assistant":
                history.append_assistant(message.content, seq=seq, tool_calls=message.tool_calls)
            case _:
                history.append_tool(message.content, seq=seq, tool_call_id="c1", action_id="a")
        grown = engine.build_model_view(WORLD, "")
    assert grown == view_of(*messages)
    assert len(engine.message_tokens()) == len(messages)


def test_the_summary_of_a_checkpoint_stands_before_the_rest_and_a_reset_forgets_it() -> None:
    history = HistoryManager()
    history.append_user("old", seq=1)
    history.append_user("new", seq=2)
    engine = ContextEngine(history, no_images)
    engine.compact_store.set_active(CompactCheckpoint("ckpt-1", "what was done", 2, 1))
    history.forget_before(1)
    roles = [(one["role"], str(one["content"])[-13:]) for one in engine.build_model_view(WORLD, "")[1:]]
    assert roles == [("user", "what was done"), ("user", "new")]
    assert (history.messages_before, len(history.messages)) == (1, 1)
    engine.reset()
    assert [one["content"] for one in engine.build_model_view(WORLD, "")[1:]] == ["new"]


CUT = assistant("so far", interrupted=True)


def test_a_cut_answer_stays_when_a_prompt_follows_and_is_left_out_when_the_model_is_asked_again() -> None:
    assert [one["content"] for one in view_of(user(), CUT, user("go on"))[1:]] == ["do it", "so far", "go on"]
    assert [one["content"] for one in view_of(user(), CUT)[1:]] == ["do it"]
    assert [one["content"] for one in view_of(user(), CUT, CUT)[1:]] == ["do it"]


def test_whether_something_awaits_an_answer() -> None:
    def awaits(*messages: HistoryMessage) -> bool:
        history = HistoryManager()
        history.load_messages(messages, messages_before=0)
        return history.awaits_answer

    assert [awaits(), awaits(user()), awaits(user(), assistant("done"))] == [False, True, False]
    assert awaits(user(), assistant("", a_call()))
    assert awaits(user(), assistant("", a_call()), result("c1"))
    assert awaits(user(), CUT)
    assert not awaits(user(), assistant("done"), CUT)


# -- images

SEEING = replace(WORLD, sees_images=True)
PICTURE = b"\x89PNG"
BLOBS = {"blob": PICTURE}


def an_image(name: str = "a.png", blob: str = "blob", size: int = len(PICTURE)) -> ImageRef:
    return ImageRef(name, "image/png", blob, size)


def seen(*messages: HistoryMessage, world: World = SEEING) -> list[object]:
    """The contents of the view behind the system message."""
    history = HistoryManager()
    history.load_messages(messages, messages_before=0)
    view = ContextEngine(history, BLOBS.get).build_model_view(world, "")
    assert problem(view) is None
    return [message["content"] for message in view[1:]]


def shown(text: str, *, count: int = 1) -> list[object]:
    part: object = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    return [{"type": "text", "text": f"[Images of the results above, in their order: {text}]"}, *[part] * count]


def test_images_follow_the_results_of_their_exchange_in_one_message() -> None:
    first, second = (replace(result(call_id), images=(an_image(f"{call_id}.png"),)) for call_id in ("c1", "c2"))
    asking = assistant("", a_call("c1"), a_call("c2"), a_call("c3"))
    exchange = [user(), asking, first, second, result("c3")]
    both = shown("c1.png, c2.png", count=2)
    assert seen(*exchange) == ["do it", None, "ok", "ok", "ok", both]
    assert seen(*exchange, assistant("done"), user("more")) == ["do it", None, "ok", "ok", "ok", both, "done", "more"]
    left_out = "[Images of the results above, in their order: c1.png, c2.png; left out of this request]"
    assert seen(*exchange, world=WORLD)[-1] == left_out


def test_a_view_with_images_grows_as_it_would_be_built_anew() -> None:
    history = HistoryManager()
    engine = ContextEngine(history, BLOBS.get)
    asking, pictured = assistant("", a_call("c1")), replace(result("c1"), images=(an_image(),))
    messages = [user(), asking, pictured, assistant("done"), user("more")]
    for count in (1, 3, 5):
        for message in messages[len(history.messages) : count]:
            match message.role:
                case "assistant":
                    history.append_assistant(message.content, seq=0, tool_calls=message.tool_calls)
                case "tool":
                    history.append_tool("ok", seq=0, tool_call_id="c1", action_id="a", images=message.images)
                case _:
                    history.append_user(message.content, seq=0)
        grown = engine.build_model_view(SEEING, "")
        assert [message["content"] for message in grown[1:]] == seen(*messages[:count])
    assert engine.message_tokens()[2] > 1_600


def test_one_request_holds_the_newest_images_that_fit_and_names_the_others() -> None:
    big = VIEW_BYTES_MAX * 3 // 8  # two of them fill a request
    names = ["a.png", "b.png", "c.png"]
    messages = [user()]
    for index, name in enumerate(names):
        messages += [
            assistant("", a_call(f"c{index}")),
            replace(result(f"c{index}"), images=(an_image(name, size=big),)),
        ]
    view = seen(*messages)
    assert view[3] == "[Images of the results above, in their order: a.png; left out of this request]"
    assert [view[6], view[9]] == [shown("b.png"), shown("c.png")]


def test_a_missing_image_is_named() -> None:
    view = seen(user(), assistant("", a_call("c1")), replace(result("c1"), images=(an_image(blob="gone"),)))
    assert view[-1] == [*shown("a.png", count=0), {"type": "text", "text": "[The stored image a.png is missing.]"}]


# -- the wire form


def sent_call(view: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """The function of the one call in the third message."""
    match view[2]["tool_calls"]:
        case [{"function": {"name": name, "arguments": arguments}}]:
            return {"name": name, "arguments": arguments}
    raise AssertionError(view)


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_messages_are_left_out_and_a_blank_result_says_so(blank: str) -> None:
    view = view_of(user(blank), user("x"), assistant(blank), assistant(blank, a_call()), result("c1", blank))
    assert [one.get("content") for one in view[1:]] == ["x", blank or None, EMPTY_RESULT]
    assert problem(view) is None


@pytest.mark.parametrize(
    "arguments",
    ["", "null", "[]", "5", '{"a":1}{"b":2}', '{"command": "cd x && git commit -m \\"abc}', '{"a": NaN}', '"\\ud83d"'],
)
def test_arguments_that_are_no_json_object_are_sent_as_an_empty_one(arguments: str) -> None:
    """K28: what the model wrote stays in the history, what is sent again is valid."""
    message = assistant("", a_call(arguments=arguments))
    view = view_of(user(), message, result("c1"))
    assert (sent_call(view)["arguments"], problem(view)) == ("{}", None)
    assert message.tool_calls[0].arguments == arguments


def test_valid_arguments_are_sent_letter_by_letter() -> None:
    arguments = '{ "a" : "\\ud83d\\ude00",\n "b": 1.0}'
    assert (
        sent_call(view_of(user(), assistant("", a_call(arguments=arguments)), result("c1")))["arguments"] == arguments
    )


@pytest.mark.parametrize("name", ["", "no name", "ä", "x" * 65])
def test_a_name_that_no_service_takes_is_sent_as_unknown(name: str) -> None:
    view = view_of(user(), assistant("", a_call(name=name)), result("c1"))
    assert (sent_call(view)["name"], problem(view)) == ("unknown", None)


CALL_IDS = st.text(alphabet="abc-123", max_size=70)


@given(turns=st.lists(st.lists(CALL_IDS, min_size=1, max_size=3, unique=True), max_size=5))
def test_whatever_ids_come_again_every_request_has_each_once_and_each_result_behind_its_call(
    turns: list[list[str]],
) -> None:
    messages = [user()]
    for ids in turns:
        messages.append(assistant("", *(a_call(one) for one in ids)))
        messages.extend(result(one, f"result of {position}") for position, one in enumerate(ids))
    assert problem(view_of(*messages)) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON)
def test_a_json_object_is_what_the_standard_says(value: object) -> None:
    text = json.dumps(value)
    strict = not any(word in text for word in ("NaN", "Infinity")) or _parses_strictly(text)
    assert is_json_object(text) == (isinstance(value, dict) and strict)


def _parses_strictly(text: str) -> bool:
    def refuse(_name: str) -> float:
        raise ValueError

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


# -- compaction


@st.composite
def histories(draw: st.DrawFn) -> list[HistoryMessage]:
    """Turns of a prompt, some calls with their results, an answer; the newest one may be at any point of its life."""
    messages: list[HistoryMessage] = []
    for turn in range(draw(st.integers(1, 5))):
        messages.append(user(f"prompt {turn}"))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"c{turn}-{step}-{one}" for one in range(draw(st.integers(1, 3)))]
            messages.append(assistant("", *map(a_call, ids)))
            messages.extend(result(one, draw(st.text(max_size=5)) * 30) for one in ids)
        if draw(st.booleans()):
            messages.append(assistant("done"))
    return messages


@given(messages=histories(), keep=st.integers(0, 400))
def test_a_cut_never_parts_a_call_from_its_results_and_keeps_as_much_as_fits(
    messages: list[HistoryMessage], keep: int
) -> None:
    """K02: the kept tail began with a result, or ended in a bare call."""
    wire = WireForm()
    tokens = [estimated_tokens(chat) if (chat := wire.message(one)) else 0 for one in messages]
    cut = compaction.retained_from(messages, tokens, keep)
    assert 0 <= cut < len(messages)  # something stays: a request needs a question
    assert messages[cut].role != "tool"
    kept = messages[cut:]
    asked = {call.id for one in kept for call in one.tool_calls}
    assert {one.tool_call_id for one in kept if one.role == "tool"} == asked
    safe = [index for index, one in enumerate(messages) if one.role != "tool"]
    fitting = [index for index in safe if sum(tokens[index:]) <= keep]
    assert cut == (fitting[0] if fitting else safe[-1])


def test_nothing_is_left_out_of_nothing() -> None:
    assert compaction.retained_from([], [], 100) == 0


@given(messages=histories(), room=st.integers(0, 3000))
def test_the_request_for_a_summary_is_bounded_and_well_formed(messages: list[HistoryMessage], room: int) -> None:
    """K32: the request for a summary was itself too long."""
    (request,) = compaction.summary_request(messages, "", room)
    empty = len(str(compaction.summary_request([], "", 0)[0]["content"]))
    assert len(str(request["content"])) <= empty + room + 2 * len(messages) + 40
    assert problem([request]) is None


def test_a_summary_request_shortens_long_results_and_drops_the_oldest_first() -> None:
    messages = [user("first"), result("c1", "x" * 10_000), user("last")]
    whole = str(compaction.summary_request(messages, "before", 100_000)[0]["content"])
    assert "Summary of what came before:\nbefore" in whole
    assert "user: first" in whole and "[…]" in whole and len(whole) < 3000
    tight = str(compaction.summary_request(messages, "", 50)[0]["content"])
    assert tight.endswith("[… older messages are left out …]\n\nuser: last")


def test_the_last_request_of_the_user_stays_word_for_word() -> None:
    messages = [user("first"), user("fix the\nparser"), user("[Recovery] note", recovery={})]
    assert compaction.complete_summary(" short \n", messages) == (
        "short\n\nThe user's last request among these, word for word:\nfix the\nparser"
    )
    assert compaction.complete_summary("short", []) == "short"


def test_without_a_model_the_summary_is_what_is_known() -> None:
    text = compaction.fallback_summary([user("first"), user("second")], "earlier things", "Current goal:\n- second")
    assert text == (
        "No summary could be made; older messages were left out of view. They remain in the transcript.\n\n"
        "earlier things\n\nWhat the user asked for in them:\n- first\n- second\n\nCurrent goal:\n- second"
    )


def test_what_became_of_interrupted_actions_is_spared_until_the_model_has_seen_it() -> None:
    asked = HistoryMessage("assistant", "", (ToolCall("call_1", "Bash", "{}"),))
    told = HistoryMessage("tool", "[Recovery] …", tool_call_id="call_1", metadata={"recovered": True})
    prompt = HistoryMessage("user", "go on")
    plain = HistoryMessage("tool", "ran", tool_call_id="call_1")
    assert compaction.recovered_exchange([prompt, asked, told, prompt]) == 1
    assert compaction.recovered_exchange([prompt, asked, plain, prompt]) == 4
    seen = [asked, told, prompt, HistoryMessage("assistant", "I see."), prompt]
    assert compaction.recovered_exchange(seen) == len(seen)
