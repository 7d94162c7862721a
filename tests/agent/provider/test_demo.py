"""The demo model in both languages: scripted conversations, assembled like those of any service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

import pytest

from agent.provider.assembly import Reply, ReplyAssembler
from agent.provider.base import ChatMessage, Chunk, ModelRequest
from agent.provider.demo import RESULT_CHARACTERS_MAX, DemoProvider

NAMES = ("Read", "Edit", "Write", "Bash", "Glob", "Grep", "Task", "TodoWrite")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in NAMES]
Message = dict[str, object]
Call = tuple[str, dict[str, object]]


def chunks_of(messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = TOOLS) -> list[Chunk]:
    async def run() -> list[Chunk]:
        provider = DemoProvider(pause_s=0, new_id=lambda: "call_1")
        return [chunk async for chunk in provider.stream(ModelRequest("demo", list(map(ChatMessage, messages)), tools))]

    return asyncio.run(run())


def reply_to(messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = TOOLS) -> Reply:
    assembler = ReplyAssembler()
    for chunk in chunks_of(messages, tools):
        assembler.feed(chunk)
    return assembler.finish()


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def converse(prompt: str, *results: str) -> tuple[list[Call], str]:
    """Play the loop: answer each call with the next result. Returns the calls and the last text."""
    messages, calls = [user(prompt)], list[Call]()
    for result in (*results, None):
        reply = reply_to(messages)
        if not reply.tool_calls:
            return calls, reply.text
        assert result is not None, f"one call more than expected: {reply}"
        (call,) = reply.tool_calls
        calls.append((call.name, json.loads(call.arguments)))
        function = {"name": call.name, "arguments": call.arguments}
        asked = {"id": call.id, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": reply.text or None, "tool_calls": [asked]})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise AssertionError("no answer")


def edit(file: str, old: str, new: str) -> list[Call]:
    return [("Read", {"file_path": file}), ("Edit", {"file_path": file, "old_string": old, "new_string": new})]


def todo(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": content}


GLOB: Call = ("Glob", {"pattern": "./*"})
WRITE: Call = ("Write", {"file_path": "greet.txt", "content": "hello42\n"})
RUN: Call = ("Bash", {"command": "ls -la | wc -l", "description": "Run ls -la | wc -l"})


@pytest.mark.parametrize(
    ("prompt", "calls", "answer"),
    [
        ("list files", [GLOB], "Files here:\nRESULT"),
        ("  Please list all the files.\n", [GLOB], "Files here:\nRESULT"),
        ("read README.md", [("Read", {"file_path": "README.md"})], "Read answered:\nRESULT"),
        ("show me the file 'my notes.txt'", [("Read", {"file_path": "my notes.txt"})], "Read answered:\nRESULT"),
        ("create a file greet.txt with the text hello42", [WRITE], "Write answered: RESULT"),
        ("Create the file `greet.txt` with the content: \"hello42\"", [WRITE], "Write answered: RESULT"),
        ("replace a by b in x.py", edit("x.py", "a", "b"), "Edit answered: RESULT"),
        ('change "two words" to "by with" in x.py', edit("x.py", "two words", "by with"), "Edit answered: RESULT"),
        ("run ls -la | wc -l", [RUN], "The command gave:\nRESULT"),
        ("execute the command `ls -la | wc -l`", [RUN], "The command gave:\nRESULT"),
        ("search for f(x)", [("Grep", {"pattern": r"f\(x\)", "output_mode": "content"})], "The search gave:\nRESULT"),
        (
            "ask a subagent to list files",
            [("Task", {"description": "list files", "prompt": "list files", "subagent_type": "general"})],
            "The subagent answered:\nRESULT",
        ),
        (
            "delegate: read a.txt",
            [("Task", {"description": "read a.txt", "prompt": "read a.txt", "subagent_type": "general"})],
            "The subagent answered:\nRESULT",
        ),
        (
            "plan: write a test; make it pass;",
            [("TodoWrite", {"todos": [todo("write a test", "in_progress"), todo("make it pass", "pending")]})],
            "TodoWrite answered: RESULT",
        ),
        ("列出文件", [GLOB], "这里的文件：\nRESULT"),
        ("请帮我列出所有文件。", [GLOB], "这里的文件：\nRESULT"),
        ("读取 README.md", [("Read", {"file_path": "README.md"})], "Read 的回答：\nRESULT"),
        ("查看文件说明.txt", [("Read", {"file_path": "说明.txt"})], "Read 的回答：\nRESULT"),
        ("创建文件 greet.txt 内容为 hello42", [WRITE], "Write 的回答：RESULT"),
        ("创建一个文件greet.txt，内容为“hello42”", [WRITE], "Write 的回答：RESULT"),
        ("把 x.py 文件中的 a 替换为 b", edit("x.py", "a", "b"), "Edit 的回答：RESULT"),
        ("将x.py中的你好改成再见", edit("x.py", "你好", "再见"), "Edit 的回答：RESULT"),
        ("运行 ls -la | wc -l", [RUN], "命令的结果：\nRESULT"),
        ("执行命令：ls -la | wc -l", [RUN], "命令的结果：\nRESULT"),
        ("搜索 待办", [("Grep", {"pattern": "待办", "output_mode": "content"})], "搜索的结果：\nRESULT"),
        (
            "交给子代理：列出文件",
            [("Task", {"description": "列出文件", "prompt": "列出文件", "subagent_type": "general"})],
            "子代理的回答：\nRESULT",
        ),
        (
            "计划：写测试；让它通过",
            [("TodoWrite", {"todos": [todo("写测试", "in_progress"), todo("让它通过", "pending")]})],
            "TodoWrite 的回答：RESULT",
        ),
    ],
)  # fmt: skip
def test_a_command_becomes_calls_and_an_answer(prompt: str, calls: list[Call], answer: str) -> None:
    results = ["earlier"] * (len(calls) - 1) + ["RESULT"]
    assert converse(prompt, *results) == (calls, answer)


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [("replace a by b in x.py", "That did not work. Error: no such file"), ("读取 a", "没有成功。Error: no such file")],
)
def test_after_a_failed_call_the_rest_of_the_plan_is_dropped(prompt: str, answer: str) -> None:
    calls, text = converse(prompt, "Error: no such file")
    assert (len(calls), text) == (1, answer)


@pytest.mark.parametrize(
    ("prompt", "beginning"),
    [("What is love?", "I am the demo model"), ("", "I am the demo model"), ("你是谁？", "我是演示模型")],
)
def test_anything_else_is_answered_with_what_is_understood(prompt: str, beginning: str) -> None:
    calls, text = converse(prompt)
    assert (calls, text[: len(beginning)]) == ([], beginning)


def test_every_example_of_the_help_is_understood() -> None:
    for question in ("help", "帮助"):
        examples = [line[2:] for line in converse(question)[1].splitlines() if line.startswith("- ")]
        assert len(examples) == 8
        for example in examples:
            assert reply_to([user(example)]).tool_calls, example


def test_recovery_notes_are_not_what_the_user_said() -> None:
    """`continue` after a crash: the interrupted call has its recovered result, and a note follows."""
    call = {"id": "c", "type": "function", "function": {"name": "Glob", "arguments": '{"pattern": "./*"}'}}
    messages: list[Message] = [
        user("list files"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a.txt"},
        user("[Recovery] The program was killed."),
    ]
    assert reply_to(messages).text == "Files here:\na.txt"


def test_earlier_turns_do_not_count() -> None:
    messages: list[Message] = [
        user("list files"),
        {"role": "tool", "content": "a"},
        {"role": "assistant", "content": "Files here:\na"},
    ]
    assert [call.name for call in reply_to([*messages, user("read a")]).tool_calls] == ["Read"]


def test_content_may_be_a_list_of_parts() -> None:
    message: Message = {"role": "user", "content": [{"type": "text", "text": "list files"}]}
    assert [call.name for call in reply_to([message]).tool_calls] == ["Glob"]


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    read_only = [tool for tool in TOOLS if tool["function"] == {"name": "Read", "parameters": {}}]
    assert reply_to([user("run ls")], read_only).text == "I cannot do that here: the tool Bash is not offered."


def test_without_tools_it_tells_what_was_asked_for() -> None:
    reply = reply_to([user("list files"), user("read a"), user("Summarize.")], tools=[])
    assert (reply.text, reply.tool_calls) == ("The user asked for:\n- list files\n- read a", ())


def test_a_long_result_is_cut_and_says_so() -> None:
    _, text = converse("read a", "x" * (RESULT_CHARACTERS_MAX + 1))
    assert text == "Read answered:\n" + "x" * RESULT_CHARACTERS_MAX + "\n[the rest is left out]"


def test_braces_in_a_result_are_just_braces() -> None:
    assert converse("read a", "{result} {0} {")[1] == "Read answered:\n{result} {0} {"


def test_it_streams_like_a_service() -> None:
    def choice(delta: Mapping[str, object], finish: str | None = None) -> Chunk:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "model": "demo", "choices": choices}

    opening = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "Glob", "arguments": ""}}
    assert chunks_of([user("list files")]) == [
        choice({"role": "assistant", "content": ""}),
        choice({"tool_calls": [opening]}),
        choice({"tool_calls": [{"index": 0, "function": {"arguments": '{"pattern'}}]}),
        choice({"tool_calls": [{"index": 0, "function": {"arguments": '": "./*"}'}}]}),
        choice({}, "tool_calls"),
        {
            "id": "chatcmpl-demo",
            "object": "chat.completion.chunk",
            "model": "demo",
            "choices": [],
            "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
        },
    ]


def test_a_text_comes_in_several_pieces_however_long_it_is() -> None:
    messages: list[Message] = [user("read a"), {"role": "tool", "content": "y" * 3000}]
    assert 20 < len(chunks_of(messages)) < 50
