"""The agent inside the test's own process: a scripted model without HTTP, real folders, a disk that fails on demand.

What can be shown without a process, a socket or a terminal is shown with these: they take milliseconds.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from agent.errors import FailureKind, ModelFailure
from agent.events import RuntimeEvent
from agent.host import CodeAgent
from agent.permissions import Answer, Mode, NobodyToAsk, Question
from agent.provider.base import Chunk, ModelRequest
from agent.recovery.policies import Policy
from agent.recovery.settle import Decider, PolicyDecider
from agent.services import Services
from agent.state import RunResult
from memory.blobs import BlobStore
from memory.disk import Disk
from memory.layout import MemoryFolder, SessionFiles
from memory.resume import ResumeLoader
from memory.state import ResumeState
from memory.text import TextCleaner
from tests.kit.json_object import parse_object
from tests.kit.model_server import SUMMARY
from tests.kit.request import Request
from tests.kit.script import Reply, Script, Step, pick
from tests.kit.stream import chunks, closing
from tests.kit.strict import problem_of
from tests.kit.transcript import Record, read_records

T = TypeVar("T")

VERIFY = PolicyDecider(Policy.VERIFY)


class Crash(BaseException):
    """The process is gone from here on. No handler of the program may stop it."""


def failing(kind: FailureKind, message: str = "scripted fault", **how: object) -> Step:
    """A step at which the request fails before anything was shown."""
    failure = ModelFailure(kind, message, **how)  # type: ignore[arg-type]

    def step(_request: Request) -> Reply:
        raise failure

    return step


class ScriptedProvider:
    """A ModelProvider that plays a script as the model server does, and is as strict.

    Requests with tools are answered by the script and kept in `requests`, those without by `side` and kept in
    `side_requests`. `invalid` has the problems of ill-formed ones. Above `limit_tokens` (a quarter of the bytes; 0: no
    limit) a request fails as too long.
    """

    name = "scripted"
    kind = "scripted"

    def __init__(self, script: Script, *, side: Step = SUMMARY, limit_tokens: int = 0) -> None:
        self.script = script
        self.side = side
        self.limit_tokens = limit_tokens
        self.requests: list[Request] = []
        self.side_requests: list[Request] = []
        self.invalid: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        seen, of_loop = self._accept(request)
        if seen.problem is not None:
            raise ModelFailure(FailureKind.BAD_REQUEST, seen.problem)
        if 0 < self.limit_tokens < len(seen.raw) // 4:
            raise ModelFailure(FailureKind.CONTEXT_TOO_LONG, "too long")
        reply = pick(self.script, seen) if of_loop else self._summary(seen)
        ident = f"call_{len(self.requests)}_{len(self.side_requests)}"
        for sent, event in enumerate(chunks(reply, seen, ident)):
            if sent == reply.hang_after_chunks:
                await asyncio.Event().wait()
            if sent == reply.cut_after_chunks:
                raise ModelFailure(FailureKind.STREAM_BROKEN, "the scripted connection was cut", retryable=True)
            if sent == reply.end_after_chunks:
                return
            await asyncio.sleep(0)  # others get their turn, as they do while bytes come in
            yield _decoded(event)
        for event in closing(reply, seen, ident):
            if b"[DONE]" not in event:
                yield _decoded(event)

    def _summary(self, seen: Request) -> Reply:
        return self.side if isinstance(self.side, Reply) else self.side(seen)

    async def close(self) -> None:
        return None

    def prepare(self) -> None:
        return None

    def _accept(self, request: ModelRequest) -> tuple[Request, bool]:
        body = {
            "model": request.model,
            "messages": list(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"tools": list(request.tools)} if request.tools else {}),
        }
        raw = json.dumps(body, ensure_ascii=False).encode()
        kept = self.requests if request.tools else self.side_requests
        seen = Request(len(kept), raw, {}, parse_object(raw), problem_of(body))
        kept.append(seen)
        if seen.problem is not None:
            self.invalid.append(seen.problem)
        return seen, bool(request.tools)


def _decoded(event: bytes) -> Chunk:
    return parse_object(event.removeprefix(b"data: "))


class FailingDisk(Disk):
    """A disk with no room for what `is_refused` says, and a process that dies before or right after its n-th record.

    Records (lines of transcripts, of subagents too) that this disk was asked to write are counted from 1.
    """

    def __init__(
        self, *, crash_at: int = 0, crash_after: int = 0, is_refused: Callable[[bytes], bool] = lambda _data: False
    ) -> None:
        self.crash_at = crash_at
        self.crash_after = crash_after
        self.is_refused = is_refused
        self.records = 0
        self.is_dead = False

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        written = bytes(data)
        self.records += is_record(written)
        if self.is_dead or (is_record(written) and self.records == self.crash_at):
            self.is_dead = True
            raise Crash
        if self.is_refused(written):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = super().write(fd, data)
        if is_record(written) and self.records == self.crash_after:
            self.is_dead = True
            raise Crash
        return count


def is_record(data: bytes) -> bool:
    """Are these the bytes of a transcript's line?"""
    return data.startswith(b'{"event_id":"')


class Answers:
    """An approver that gives one answer to every question and keeps the questions."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answer


class Watcher:
    """Observer: keeps what happens, and acts when an event that fits comes."""

    def __init__(self, when: Callable[[RuntimeEvent], bool], act: Callable[[], object]) -> None:
        self.events: list[RuntimeEvent] = []
        self._when = when
        self._act = act

    def emit(self, event: RuntimeEvent) -> None:
        self.events.append(event)
        if self._when(event):
            self._act()


class Someone:
    """A user with a workspace and a memory folder below one directory."""

    def __init__(self, folder: Path, script: Script = (), *, side: Step = SUMMARY, limit_tokens: int = 0) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.memory = MemoryFolder(folder / "memory")
        self.provider = ScriptedProvider(script, side=side, limit_tokens=limit_tokens)
        self.services = Services(
            workspace=self.workspace,
            folder=self.memory,
            provider=self.provider,
            model="scripted",
            context_tokens=128_000,
            mode=Mode.AUTO,
            approver=NobodyToAsk(),
            cleaner=TextCleaner(),
            environment={"PATH": os.environ["PATH"]},
            secrets=(),
            jitter=lambda: 0.0,  # retries do not wait
        )

    def with_services(self, **changes: object) -> Someone:
        """Change what agents get from outside from now on; returns itself."""
        self.services = replace(self.services, **changes)  # type: ignore[arg-type]
        return self

    def file(self, name: str, text: str) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def start(self, *observers: Watcher, **more: object) -> CodeAgent:
        return CodeAgent.start(self.services, observers, **more)  # type: ignore[arg-type]

    def resume(self, session_id: str, *observers: Watcher) -> CodeAgent:
        return CodeAgent.resume(self.services, self.files(session_id), observers)

    def files(self, session_id: str) -> SessionFiles:
        return self.memory.session(session_id)

    def records(self, session_id: str) -> list[Record]:
        return read_records(self.files(session_id).transcript)

    def load(self, session_id: str) -> ResumeState:
        files = self.files(session_id)
        return ResumeLoader(files, BlobStore(files.blobs, Disk())).load_session()

    def only_session(self) -> str:
        """The id of the one session that is not a subagent's."""
        (found,) = [one for one in self.memory.transcripts() if one.startswith("session-")]
        return found


def run(agent: CodeAgent, *prompts: str, decider: Decider | None = None, reason: str = "completed") -> list[RunResult]:
    """Send prompts one after the other, close the agent, and give the results."""

    async def talk() -> list[RunResult]:
        results = [await agent.run(prompt, decider=decider) for prompt in prompts]
        await agent.close(reason)
        return results

    return asyncio.run(talk())


def go_on(agent: CodeAgent, decider: Decider | None = VERIFY) -> RunResult:
    """`continue` the interrupted run and close the agent."""

    async def talk() -> RunResult:
        result = await agent.continue_run(decider=decider)
        await agent.close("completed")
        return result

    return asyncio.run(talk())


def until_crash(agent: CodeAgent, act: Coroutine[object, object, T]) -> T | None:
    """Run an act; None when the process "died" in it. Its files are let go then, without a closing record."""

    async def talk() -> T | None:
        result = None
        with suppress(Crash):
            result = await act
        with suppress(Crash):  # what the kernel would end is ended; a dead disk takes no record of it
            await agent.close("completed")
        return result

    try:
        return asyncio.run(talk())
    finally:
        if agent.session is not None:
            agent.session.close()


def call_ids(state: ResumeState) -> Sequence[str]:
    """The ids of all calls in a history, in order."""
    return [call.id for message in state.history_messages for call in message.tool_calls]
