"""`CodeAgent`: one agent with its session, its tools and its context, assembled; and the acts of its user."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent.context.engine import ContextEngine
from agent.context.history import HistoryManager
from agent.context.prompt import read_project_rules
from agent.errors import ConfigError
from agent.events import CompositeRuntimeEventSink, Observation, RuntimeEvent, RuntimeEventSink
from agent.fork import write_fork
from agent.model_turn import ModelTurn
from agent.permissions import PermissionGate, Rule
from agent.recovery.investigate import Investigated, Investigator
from agent.recovery.lost import find_lost
from agent.recovery.report import RecoveryReport, as_it_was, touched
from agent.recovery.settle import Decider, DecisionNeeded, Desk, Settlement
from agent.runner import RuntimeRunner
from agent.runs import Runs
from agent.services import EventIds, Services
from agent.sinks import TraceRuntimeEventSink, TranscriptRuntimeEventSink
from agent.state import Limits, RunResult, Usage, World
from agent.subagent import STEPS_MAX, Children, FilesChanged, run_child
from agent.tool_runner import ToolRunner
from agent.toolbox import TaskService, Toolbox
from memory.blobs import BlobStore
from memory.errors import TranscriptUnavailable
from memory.events import End, EventType, JsonObject, Payload, Reason, TransitionPayload
from memory.layout import SESSION_PREFIX, SUBAGENT_PREFIX, SessionFiles
from memory.lease import Owner, boot_id
from memory.recorder import timestamp
from memory.resume import ResumeLoader
from memory.session import RecordedSession
from memory.session_memory import SessionMemoryManager
from memory.snapshot import CheckpointFacts
from tools.command import CommandRunner
from tools.task import TaskOrder, TaskReport


@dataclass(frozen=True)
class ParentLink:
    """Whose child a subagent is."""

    session_id: str
    tool_call_id: str
    action_id: str


class CodeAgent:
    """One agent. Made by `start`, `resume` or `fork_of`; given back by `close`."""

    def __init__(
        self,
        services: Services,
        session_id: str,
        session: RecordedSession | None,
        observers: Sequence[RuntimeEventSink],
        *,
        read_only: bool = False,
        parent: ParentLink | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.services = services
        self.session_id = session_id
        self.session = session
        self.name: str | None = session.state.name if session and session.state else None
        self.history_manager = HistoryManager()
        self.context_tokens = services.context_tokens
        self.clock = services.clock
        self.report: RecoveryReport | None = None
        self._parent = parent
        self._owner = owner
        self._memory = session.memory if session else SessionMemoryManager()
        self._scratch = None if session else Path(tempfile.mkdtemp(prefix="mycodeagent-"))
        self._blobs = session.blobs if session else BlobStore(self._place("blobs"), services.disk)
        self.context_engine = ContextEngine(self.history_manager, self._blobs.get)
        self._children = Children(services.folder if session else None, services.disk, lambda: self.tool_registry)
        tasks = None if parent else TaskService(self._spawn, self._new_child_id, self._children.look)
        commands = CommandRunner(environment=services.environment, secrets=services.secrets, python=services.python)
        self._toolbox = Toolbox(
            services.workspace,
            services.disk,
            commands,
            self._keep,
            tasks,
            read_only=read_only,
            keep_image=self._keep_image if services.sees_images else None,
            extra_roots=services.extra_roots,
        )
        self.background = self._toolbox.background
        self.tool_registry = self._toolbox.registry
        self.gate = PermissionGate(services.mode, services.approver, allow=services.allow, deny=services.deny)
        self.tool_runner = ToolRunner(
            self.tool_registry,
            self.gate,
            services.cleaner,
            place=self._place,
            new_action_id=lambda: self.new_id("act"),
            monotonic=services.monotonic,
        )
        self.model_turn = ModelTurn(services.provider, services.cleaner, jitter=services.jitter)
        self.runtime_event_sink = self._sink(observers)
        self._observers = observers
        self._investigator = Investigator(session_id, self.tool_registry, self._place, self._children.of)
        self._settlement: Settlement | None = None
        self._owes = False  # what a crash left open is not settled yet
        self._runs = Runs(session.state if session else None, self._world)
        self._runner: RuntimeRunner | None = None
        self._acting: asyncio.Task[object] | None = None
        self._why_interrupted = End.INTERRUPTED
        self._is_closed = False

    # -- making one

    @classmethod
    def start(
        cls,
        services: Services,
        observers: Sequence[RuntimeEventSink],
        *,
        name: str | None = None,
        session_id: str | None = None,
        read_only: bool = False,
        parent: ParentLink | None = None,
    ) -> CodeAgent:
        """Begin a new session.

        Raises:
            TranscriptUnavailable: it cannot be recorded.
        """
        session_id = session_id or SESSION_PREFIX + services.new_hex()
        session = None
        if services.folder is not None:
            session = _open(services, services.folder.session(session_id))
        with _given_back_on_failure(session):
            agent = cls(services, session_id, session, observers, read_only=read_only, parent=parent)
            agent.name = name
            agent._opened()
        return agent

    @classmethod
    def resume(
        cls,
        services: Services,
        files: SessionFiles,
        observers: Sequence[RuntimeEventSink],
        *,
        owner: Owner | None = None,
        name: str | None = None,
        read_only: bool = False,
        parent: ParentLink | None = None,
    ) -> CodeAgent:
        """Open a session again, in the same file, and rebuild it; `report` says what was found.

        `owner` is the owner note as it was before: who held the session when it was cut short.

        Raises:
            SessionBusy: another process holds it.
            TranscriptUnavailable: it cannot be written.
            OSError: it cannot be read.
        """
        session = _open(services, files)
        with _given_back_on_failure(session):
            agent = cls(services, files.session_id, session, observers, read_only=read_only, parent=parent, owner=owner)
            agent.resume_transcript()
            agent._opened()
            if name:
                agent.rename(name)
        return agent

    @classmethod
    def fork_of(
        cls, services: Services, parent: SessionFiles, observers: Sequence[RuntimeEventSink], *, name: str | None = None
    ) -> CodeAgent:
        """Begin a new session with the history of another, which may be in use."""
        blobs = BlobStore(parent.blobs, services.disk)
        state = ResumeLoader(parent, blobs).load_session(live=True)
        folder = services.folder
        if folder is None:
            raise ValueError("a fork is a recorded session")
        files = folder.session(SESSION_PREFIX + services.new_hex())
        session = _open(services, files)
        try:
            write_fork(session.recorder, session.blobs, state, blobs, timestamp(services.clock()))
        finally:
            session.close()
        return cls.resume(services, files, observers, name=name)

    # -- resume

    def resume_transcript(self) -> RecoveryReport:
        """Rebuild everything from the transcript and look at what was cut short. Writes no record and asks nobody."""
        if self.session is None or self.session.state is None:
            raise ValueError("there is no transcript to resume")
        state = self.session.state
        self._toolbox.add_directories(state.runtime_state.directories)
        self._investigator.seal(state.uncertain_actions)
        self._children.seal(state.uncertain_actions)
        items = self._investigator.investigate(state.uncertain_actions)
        changed = [path for path in state.apply_to_host(self) if path not in touched(items)]
        self.tool_registry.import_read_cache(as_it_was(items, state))
        missing = self._toolbox.restore(state.runtime_state.cwd, state.runtime_state.todos)
        for grant in state.runtime_state.grants:
            with suppress(ConfigError):  # of a version that writes rules in another way: the user is asked again
                self.gate.grant(Rule.parse(grant))
        lost = find_lost(state.runtime_state, self._place)
        own = [one.command for one in lost if not one.is_of_parent]
        self.background.restore(own, state.runtime_state.background_count)
        restarted = bool(state.acted_boot_id) and state.acted_boot_id != boot_id()
        names = [self._shown(path) for path in changed]
        self.report = RecoveryReport(state, self.session.damage, tuple(names), restarted, missing, self._owner, lost)
        desk = Desk(
            emit=self.emit,
            next_seq=self.next_seq,
            history=self.history_manager,
            tool_runner=self.tool_runner,
            registry=self.tool_registry,
            investigator=self._investigator,
            place=self._place,
            blobs=self.session.blobs,
            new_action_id=lambda: self.new_id("act"),
        )
        self._settlement = Settlement(
            desk,
            state,
            items,
            damage=self.session.damage,
            changed_files=changed,
            has_restarted=restarted,
            lost=lost,
            missing_directory=missing,
        )
        self._owes = True
        return self.report

    @property
    def uncertain(self) -> list[Investigated]:
        """The uncertain actions that this process found, with the decisions taken since."""
        return list(self._settlement.items) if self._settlement else []

    @property
    def owes(self) -> bool:
        """Is something that a crash left open not settled yet? The next prompt, or `continue_run`, settles it."""
        return self._owes

    @property
    def can_continue(self) -> bool:
        """Is there a run that was cut short, or ended without an answer? One whose prompt was not recorded is none."""
        run = self._runs.newest
        if run is None or run.ended == End.COMPLETED:
            return False
        return run.answer is not None or self.history_manager.awaits_answer

    # -- the user acts

    async def run(
        self, prompt: str, *, metadata: JsonObject | None = None, decider: Decider | None = None
    ) -> RunResult:
        """Start the next run with a prompt. What a crash left open is settled before.

        Raises:
            DecisionNeeded: an interrupted action is undecided; nothing was written or asked.
        """
        return await self._act(self.services.cleaner.clean(prompt), metadata, decider)

    async def continue_run(self, *, decider: Decider | None = None) -> RunResult:
        """Go on with the interrupted run, without a user message. Raises as `run` does."""
        return await self._act(None, None, decider)

    async def _act(self, prompt: str | None, metadata: JsonObject | None, decider: Decider | None) -> RunResult:
        self._acting = asyncio.current_task()
        self.tool_runner.begin_run()
        try:
            if self.session is not None:
                self._write_late(self.session)
            await self._settle(decider, keep_draft=prompt is not None)
        except asyncio.CancelledError:
            return self._ended_before(self._why_interrupted)
        except TranscriptUnavailable as error:
            return self._ended_before(End.TRANSCRIPT_ERROR, str(error))
        finally:
            self._acting = None  # the run has its own way to be interrupted, and afterwards our caller goes on
        plan = self._runs.begin() if prompt is not None else self._runs.go_on()
        self._runner = runner = RuntimeRunner(self, plan.run_id, plan.world, self.services.limits, step=plan.step)
        try:
            result = await runner.run(prompt, metadata=metadata, answer=plan.answer)
        finally:
            self._runner = None
        self._runs.ended(plan, runner.step, result)
        return result

    async def _settle(self, decider: Decider | None, *, keep_draft: bool) -> None:
        if self._settlement is None or not self._owes:
            return
        if decider is not None:
            await self._settlement.decide(decider)
        elif any(item.is_open for item in self._settlement.items):
            raise DecisionNeeded
        await self._settlement.write(keep_draft=keep_draft)
        if self.session is not None:
            with suppress(OSError):
                self.session.draft.clear()
        self._owes = False

    def interrupt(self, end: End) -> None:
        """End what is going on, in order. Safe to call again and again, from a signal handler of the loop."""
        self._why_interrupted = end
        if self._runner is not None:
            self._runner.interrupt(end)
        elif self._acting is not None and not self._acting.done():
            self._acting.cancel()

    def queue_input(self, text: str) -> str:
        """Record what the user sent while the agent works; the id that its prompt will carry."""
        queue_id = self.new_id("queue")
        details: JsonObject = {"queue_id": queue_id, "text": self.services.cleaner.clean(text)}
        self._transition(Reason.INPUT_QUEUED, details)
        return queue_id

    def rename(self, name: str) -> None:
        self.name = name
        self._transition(Reason.SESSION_NAMED, {"name": name})

    async def close(self, reason: str) -> None:
        """End what still runs, say so in the transcript, give the session back. Never raises."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._toolbox.close()
        with suppress(TranscriptUnavailable):
            self._transition(Reason.SESSION_CLOSED, {"reason": reason, "name": self.name})
        if self.session is not None:
            self.session.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    # -- what a run needs (RunHost)

    def new_id(self, kind: str) -> str:
        return f"{kind}-{self.services.new_hex()}"

    def next_seq(self) -> int:
        return self.session.store.last_seq + 1 if self.session else 0

    def session_memory(self) -> str:
        return self._memory.in_view.render()

    def checkpoint_facts(self) -> CheckpointFacts:
        if self.session is not None:
            return self.session.checkpoint_facts()
        grants = [str(rule) for rule in self.gate.granted]
        return CheckpointFacts(self._memory.as_json(), self._toolbox.runtime_state(grants), {})

    def tool_definitions(self, names: tuple[str, ...]) -> list[Mapping[str, object]]:
        return [*self.tool_registry.definitions(names)]

    def emit(self, run_id: str, step: int, event_type: str, payload: Payload | Observation) -> int:
        return self.runtime_event_sink.emit(RuntimeEvent(self.session_id, run_id, step, str(event_type), payload))

    # -- inside

    def _world(self) -> World:
        return World(
            workspace=str(self.services.workspace),
            model=self.services.model,
            provider=self.services.provider.kind,
            mode=self.gate.mode.value,
            date=self.clock().strftime("%Y-%m-%d"),
            project_rules=self.services.cleaner.clean(read_project_rules(self.services.workspace)),
            tools=tuple(self.tool_registry.names),
            directories=tuple(self._toolbox.directories),
            sees_images=self.services.sees_images,
        )

    def _ended_before(self, end: End, message: str | None = None) -> RunResult:
        code = "transcript_unavailable" if message else None
        return RunResult("", end, "", 0, Usage(), error_code=code, error_message=message)

    def _sink(self, observers: Sequence[RuntimeEventSink]) -> CompositeRuntimeEventSink:
        if self.session is None:
            return CompositeRuntimeEventSink((), tuple(observers))
        durable = TranscriptRuntimeEventSink(self.session.recorder, self.session.draft)
        return CompositeRuntimeEventSink((durable,), (TraceRuntimeEventSink(self.session.trace), *observers))

    def _opened(self) -> None:
        owner = Owner.current()
        details: JsonObject = {
            "workspace": str(self.services.workspace),
            "cwd": str(self._toolbox.bash.cwd),
            "version": self.services.version,
            "host": owner.host,
            "pid": owner.pid,
            "boot_id": owner.boot_id,
            "pid_namespace": owner.pid_namespace,
        }
        if self._toolbox.directories:
            details["directories"] = self._toolbox.directories
        if self._parent is not None:
            details["parent_session"] = self._parent.session_id
            details["parent_call"] = self._parent.tool_call_id
            details["parent_action"] = self._parent.action_id
        if self.name:
            details["name"] = self.name
        self._transition(Reason.SESSION_OPENED, details)
        if self.session is not None and self.session.new_damage:
            found = self.session.new_damage
            only_gaps = all(one.kind == "gap" for one in found)
            reason = Reason.TRANSCRIPT_GAP if only_gaps else Reason.TRANSCRIPT_REPAIRED
            self._transition(reason, {"damage": [one.as_json() for one in found]})
        if self.session is not None:
            self.session.store.sync()

    def _transition(self, reason: Reason, details: JsonObject) -> None:
        payload = TransitionPayload(reason.value, details=details)
        self.emit("", 0, EventType.STATE_TRANSITION, payload)

    def _write_late(self, session: RecordedSession) -> None:
        """Records that found no room come first; what could not even be kept is named."""
        late = session.store.write_late()
        if late.lost:
            self._transition(Reason.TRANSCRIPT_GAP, {"lost": late.lost, "damage": []})

    def _place(self, action_id: str) -> Path:
        if self.session is not None:
            return self.session.files.output(action_id)
        assert self._scratch is not None
        return self._scratch / action_id

    def _keep(self, data: bytes) -> str | None:
        """Keep an old file content for a revert, unless it holds the key."""
        if self.session is None or self.services.cleaner.holds_secret(data):
            return None
        return self.session.blobs.put(data)

    def _keep_image(self, data: bytes) -> str | None:
        """Keep what the model is to see, in a session without a transcript too, unless it holds the key."""
        if self.services.cleaner.holds_secret(data):
            return None
        with suppress(OSError):
            return self._blobs.put(data)
        return None

    def _shown(self, path: str) -> str:
        with suppress(ValueError):
            return str(Path(path).relative_to(self.services.workspace))
        return path

    # -- subagents

    def _new_child_id(self) -> str:
        return SUBAGENT_PREFIX + self.services.new_hex()

    async def _spawn(self, order: TaskOrder) -> TaskReport:
        changed = FilesChanged()
        limits = Limits(STEPS_MAX, self.services.limits.tokens_max)
        # What the user has said since (`/mode`, "always") counts for a child too.
        services = replace(
            self.services,
            limits=limits,
            mode=self.gate.mode,
            allow=self.gate.allowed,
            extra_roots=self._toolbox.extra_roots,
        )
        link = ParentLink(self.session_id, order.action.tool_call_id, order.action.action_id)
        observers = (changed, *self._observers)
        read_only = order.subagent_type == "explore"
        if order.resumes and services.folder is not None:
            files = services.folder.session(order.child_session_id)
            child = CodeAgent.resume(services, files, observers, read_only=read_only, parent=link)
        else:
            child = CodeAgent.start(
                services, observers, session_id=order.child_session_id, read_only=read_only, parent=link
            )
        report, result = await run_child(child, order, changed)
        self.tool_runner.denials.extend(result.permission_denials)
        self.tool_runner.unanswered = self.tool_runner.unanswered or result.unanswered
        return report


def _open(services: Services, files: SessionFiles) -> RecordedSession:
    return RecordedSession.open(files, services.disk, clock=services.clock, new_event_id=EventIds(services.new_hex()))


@contextmanager
def _given_back_on_failure(session: RecordedSession | None) -> Iterator[None]:
    """A session that could not be opened to its end is free at once: the terminal stays where it was and may retry."""
    try:
        yield
    except BaseException:
        if session is not None:
            session.close()
        raise
