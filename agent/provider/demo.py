"""The built-in demo model: follows simple commands, no AI.

It lets a newcomer try everything (streaming, permission questions, resume) without key and network. It answers through
the same chunks as a service does, tool-call fragments included, and holds no state: each answer follows from the last
thing that the user said and from the tool results behind it. What it understands is the table `_COMMANDS`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.provider.assembly import new_call_id
from agent.provider.base import Chunk, ModelRequest

RECOVERY_NOTE = "[Recovery]"  # user-role messages that begin so were not typed by the user
RESULT_CHARACTERS_MAX = 4_000  # of a tool result in an answer: a screenful or two
TEXT_PIECES_MAX = 40  # a long answer streams in larger pieces, not for minutes

Message = Mapping[str, object]


@dataclass(frozen=True)
class Step:
    """One tool call of a plan."""

    tool: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class Command:
    """A sentence that is understood, the calls that it leads to, and the words around the last result."""

    pattern: re.Pattern[str]
    plan: Callable[[Mapping[str, str]], list[Step]]
    summary: str  # {result} stands for what the last tool said


# -- plans: from the named parts of a sentence to tool calls


def _list_files(_parts: Mapping[str, str]) -> list[Step]:
    return [Step("Glob", {"pattern": "./*"})]


def _read(parts: Mapping[str, str]) -> list[Step]:
    return [Step("Read", {"file_path": parts["file"]})]


def _create(parts: Mapping[str, str]) -> list[Step]:
    content = parts["text"]
    return [
        Step("Write", {"file_path": parts["file"], "content": content if content.endswith("\n") else content + "\n"})
    ]


def _replace(parts: Mapping[str, str]) -> list[Step]:
    edit = {"file_path": parts["file"], "old_string": parts["old"], "new_string": parts["new"]}
    return [*_read(parts), Step("Edit", edit)]  # a file is read before it is changed


def _run(parts: Mapping[str, str]) -> list[Step]:
    return [Step("Bash", {"command": parts["command"], "description": f"Run {parts['command'][:60]}"})]


def _search(parts: Mapping[str, str]) -> list[Step]:
    literal = re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", parts["words"])
    return [Step("Grep", {"pattern": literal, "output_mode": "content"})]


def _delegate(parts: Mapping[str, str]) -> list[Step]:
    task = parts["task"]
    return [Step("Task", {"description": task[:40], "prompt": task, "subagent_type": "general"})]


def _write_plan(parts: Mapping[str, str]) -> list[Step]:
    items = [item.strip() for item in re.split(r"[;；]", parts["items"]) if item.strip()]
    todos = [
        {"content": item, "status": "pending" if place else "in_progress", "activeForm": item}
        for place, item in enumerate(items)
    ]
    return [Step("TodoWrite", {"todos": todos})]


def _command(sentence: str, plan: Callable[[Mapping[str, str]], list[Step]], summary: str) -> Command:
    return Command(re.compile(sentence, re.IGNORECASE | re.DOTALL), plan, summary)


_FILE = r"(?P<file>`[^`]+`|\"[^\"]+\"|'[^']+'|“[^”]+”|[^\s,，:：]+?)"


@dataclass(frozen=True)
class Language:
    """What is understood, and said, in one language. The first command that fits the whole sentence is followed.

    Summaries quote the tool and claim nothing themselves: a refusal reads as what it is.
    """

    polite: re.Pattern[str]  # what may stand around a command
    commands: tuple[Command, ...]
    help: str
    failed: str
    no_tool: str
    left_out: str


_ENGLISH = Language(
    polite=re.compile(r"^(please|can you|could you)[\s,]+|[\s.!?]+$", re.IGNORECASE),
    commands=(
        _command(r"(list|show)( me)?( all)?( the)? files|ls", _list_files, "Files here:\n{result}"),
        _command(
            rf"(create|write|make)( a| the)?( new)? file( named| called)? {_FILE},? "
            r"(with|containing)( the)?( text| contents?)?:? (?P<text>.+)",
            _create,
            "Write answered: {result}",
        ),
        _command(
            rf"(replace|change) (?P<old>.+?) (by|with|to) (?P<new>.+) in( the)?( file)? {_FILE}",
            _replace,
            "Edit answered: {result}",
        ),
        _command(r"(run|execute)( the command)?:? (?P<command>.+)", _run, "The command gave:\n{result}"),
        _command(r"(search|grep|look)( for)? (?P<words>.+)", _search, "The search gave:\n{result}"),
        _command(
            r"(delegate( to a sub-?agent)?:?|ask a sub-?agent to) (?P<task>.+)",
            _delegate,
            "The subagent answered:\n{result}",
        ),
        _command(r"(make a )?plan: ?(?P<items>.+)", _write_plan, "TodoWrite answered: {result}"),
        _command(rf"(read|show|open|view|cat)( me)?( the)?( file)? {_FILE}", _read, "Read answered:\n{result}"),
    ),
    help=(
        "I am the demo model: I follow simple commands and have no AI. Try one of these:\n"
        "- list files\n- read README.md\n- create a file hello.txt with the text Hello\n"
        "- replace Hello by Goodbye in hello.txt\n- run ls -la\n- search for TODO\n"
        "- ask a subagent to list files\n- plan: write a test; make it pass\n"
        "For a real model set OPENAI_API_KEY (or OPENAI_BASE_URL) and MYCODEAGENT_MODEL."
    ),
    failed="That did not work. {result}",
    no_tool="I cannot do that here: the tool {tool} is not offered.",
    left_out="\n[the rest is left out]",
)
_CHINESE = Language(
    polite=re.compile(r"^(请帮我|请你|请|帮我)[\s,，]*|[\s.。!！?？]+$"),
    commands=(
        _command(r"列出(所有|全部|当前目录的?|这里的?)?文件", _list_files, "这里的文件：\n{result}"),
        _command(
            rf"(创建|新建)(一个|一份)?(新)?文件\s*{_FILE}\s*[,，]?\s*(文件)?内容(为|是)?\s*[:：]?\s*(?P<text>.+)",
            _create,
            "Write 的回答：{result}",
        ),
        _command(
            rf"[把将]\s*(文件\s*)?{_FILE}\s*(文件)?\s*[中里](面)?的?\s*(?P<old>.+?)\s*(替换|改|换)[为成]\s*(?P<new>.+)",
            _replace,
            "Edit 的回答：{result}",
        ),
        _command(r"(运行|执行)(命令)?\s*[:：]?\s*(?P<command>.+)", _run, "命令的结果：\n{result}"),
        _command(r"(搜索|查找)\s*(?P<words>.+)", _search, "搜索的结果：\n{result}"),
        _command(
            r"(委派|交给子代理|让子代理)(给子代理)?\s*[:：]?\s*(?P<task>.+)", _delegate, "子代理的回答：\n{result}"
        ),
        _command(r"(制定)?计划\s*[:：]?\s*(?P<items>.+)", _write_plan, "TodoWrite 的回答：{result}"),
        _command(rf"(读取|查看|打开|显示)(文件)?\s*{_FILE}", _read, "Read 的回答：\n{result}"),
    ),
    help=(
        "我是演示模型：只会执行简单的命令，没有人工智能。可以试试：\n"
        "- 列出文件\n- 读取 README.md\n- 创建文件 hello.txt 内容为 你好\n"
        "- 把 hello.txt 文件中的 你好 替换为 再见\n- 运行 ls -la\n- 搜索 TODO\n"
        "- 交给子代理：列出文件\n- 计划：写测试；让它通过\n"
        "要使用真正的模型，请设置 OPENAI_API_KEY（或 OPENAI_BASE_URL）和 MYCODEAGENT_MODEL。"
    ),
    failed="没有成功。{result}",
    no_tool="这里做不到：没有提供工具 {tool}。",
    left_out="\n[其余省略]",
)

_QUOTES = (("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"), ("「", "」"), ("《", "》"))


class DemoProvider:
    """The demo model behind the provider interface.

    `pause_s` is the time between two chunks, so that streaming can be seen; `new_id` makes the ids of calls.
    """

    name = "demo model: follows simple commands, no AI"
    kind = "demo"

    def __init__(self, *, pause_s: float = 0.01, new_id: Callable[[], str] = new_call_id) -> None:
        self._pause_s = pause_s
        self._new_id = new_id

    def prepare(self) -> None:
        """Nothing is heavy here."""

    async def close(self) -> None:
        """Nothing is open here."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        answer = next_answer(request)
        for choice in self._choices(answer):
            yield _chunk([choice])
            await asyncio.sleep(self._pause_s)
        said = answer if isinstance(answer, str) else json.dumps(answer.arguments)
        yield _chunk([], usage=_usage(request, said))

    def _choices(self, answer: str | Step) -> Iterator[dict[str, object]]:
        yield _choice({"role": "assistant", "content": ""})
        if isinstance(answer, str):
            for piece in _pieces(answer):
                yield _choice({"content": piece})
            yield _choice({}, "stop")
            return
        arguments = json.dumps(answer.arguments, ensure_ascii=False)
        middle = len(arguments) // 2
        opening = {
            "index": 0,
            "id": self._new_id(),
            "type": "function",
            "function": {"name": answer.tool, "arguments": ""},
        }
        yield _choice({"tool_calls": [opening]})
        for fragment in (arguments[:middle], arguments[middle:]):
            yield _choice({"tool_calls": [{"index": 0, "function": {"arguments": fragment}}]})
        yield _choice({}, "tool_calls")


def next_answer(request: ModelRequest) -> str | Step:
    """Decide what comes next: the next call of the plan, or words."""
    if not request.tools:
        return _recap(request.messages)
    wish, results = _last_wish(request.messages)
    understood = _understood(wish)
    if understood is None:
        return (_CHINESE if re.search(r"[\u4e00-\u9fff]", wish) else _ENGLISH).help
    language, steps, summary = understood
    if results and (len(results) >= len(steps) or _is_failure(results[-1])):
        frame = language.failed if _is_failure(results[-1]) else summary
        return frame.format(result=_shown(results[-1], language))
    step = steps[len(results)]
    return step if step.tool in _offered(request.tools) else language.no_tool.format(tool=step.tool)


def _last_wish(messages: Sequence[Message]) -> tuple[str, list[str]]:
    """What the user said last, and the tool results since then."""
    results: list[str] = []
    for message in reversed(messages):
        text = _text_of(message)
        if message.get("role") == "tool":
            results.append(text)
        elif message.get("role") == "user" and not text.startswith(RECOVERY_NOTE):
            return text, results[::-1]
    return "", results[::-1]


def _understood(wish: str) -> tuple[Language, list[Step], str] | None:
    for language in (_ENGLISH, _CHINESE):
        sentence = wish.strip()
        for candidate in (sentence, language.polite.sub("", sentence)):  # as it is first: a text may end in a full stop
            for command in language.commands:
                if match := command.pattern.fullmatch(candidate):
                    parts = {name: _unquoted(value.strip()) for name, value in match.groupdict().items() if value}
                    return language, command.plan(parts), command.summary
    return None


def _unquoted(value: str) -> str:
    for opening, closing in _QUOTES:
        if len(value) >= 2 and value.startswith(opening) and value.endswith(closing):
            return value[1:-1]
    return value


def _is_failure(result: str) -> bool:
    return result.startswith("Error")


def _shown(result: str, language: Language) -> str:
    if len(result) <= RESULT_CHARACTERS_MAX:
        return result
    return result[:RESULT_CHARACTERS_MAX] + language.left_out


def _offered(tools: Sequence[Mapping[str, object]]) -> set[object]:
    functions = [tool.get("function") for tool in tools]
    return {function.get("name") for function in functions if isinstance(function, Mapping)}


def _recap(messages: Sequence[Message]) -> str:
    """Without tools a summary is wanted: the demo model lists what was asked for."""
    asked = [_text_of(message) for message in messages if message.get("role") == "user"]
    return "The user asked for:\n" + "\n".join(f"- {text[:200]}" for text in asked[:-1] or asked)


def _text_of(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


# -- chunks, as a service sends them


def _pieces(text: str) -> list[str]:
    """Cut a text into pieces of about a word, or larger ones when it is long."""
    size = max(8, len(text) // TEXT_PIECES_MAX)
    return re.findall(rf".{{1,{size}}}", text, re.DOTALL)


def _choice(delta: Mapping[str, object], finish_reason: str | None = None) -> dict[str, object]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _chunk(choices: Sequence[Mapping[str, object]], usage: Mapping[str, int] | None = None) -> Chunk:
    chunk = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "model": "demo", "choices": choices}
    return chunk if usage is None else {**chunk, "usage": usage}


def _usage(request: ModelRequest, said: str) -> dict[str, int]:
    """Tokens by the rule of thumb of four characters each: the demo model has no tokenizer."""
    characters = sum(len(_text_of(message)) for message in request.messages)
    prompt, completion = characters // 4 + 1, len(said) // 4 + 1
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
