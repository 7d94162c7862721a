"""What the typed lines do: prompts in, work shown, one session at a time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace

from agent.errors import AgentError
from agent.host import CodeAgent
from agent.permissions import Mode
from agent.recovery.investigate import Investigated
from agent.recovery.policies import Choice, Policy, choice_by_policy
from agent.recovery.settle import DecisionNeeded
from agent.state import RunResult
from agent.terminal.approve import TerminalApprover
from agent.terminal.assemble import (
    Assembly,
    assemble,
    find_session,
    for_session,
    places_of,
    sessions_here,
    workspace_of,
)
from agent.terminal.clock import clock_time
from agent.terminal.commands import HELP, Command, Decision, parse_command, parse_decision
from agent.terminal.faults import explain
from agent.terminal.headless import open_agent, policy_of, report_lines
from agent.terminal.options import NEWEST, Options
from agent.terminal.paint import Paint
from agent.terminal.recovery_screen import draft_lines, evidence_lines, summary_lines
from agent.terminal.renderer import ScreenRenderer
from agent.terminal.result import resume_command, transcript_path
from agent.terminal.screen import Leave, Screen
from agent.terminal.stream_view import StreamView
from memory.errors import MemoryFault
from memory.events import End

ENDS = {0: End.COMPLETED, signal.SIGINT: End.INTERRUPTED, signal.SIGTERM: End.TERMINATED, signal.SIGHUP: End.HANGUP}


class TerminalDecider:
    """What the user said of each interrupted action, else the default: a prompt is the user's act."""

    def __init__(self, policy: Policy | None) -> None:
        self._policy = policy
        self.said: dict[str, Choice] = {}

    async def decide(self, item: Investigated) -> Choice | None:
        said = self.said.get(item.action.action_id)
        if said is not None:
            return said
        return item.choices[0] if self._policy is None else choice_by_policy(self._policy, item.finding.verdict)


class Repl:
    """The lines of one terminal and what answers them. Its agent changes with `/resume` and `/new`."""

    def __init__(self, options: Options, screen: Screen) -> None:
        self._options = options
        self._screen = screen
        paint = Paint(lambda: screen.columns, color="NO_COLOR" not in os.environ)
        stream = StreamView(lambda: screen.columns, paint)
        self._renderer = ScreenRenderer(stream, paint, screen.commit, screen.refresh)
        self._approver = TerminalApprover(paint, screen.commit)
        policy = policy_of(options, Policy.ASK)
        self._policy = None if policy is Policy.ASK else policy
        self._decider = TerminalDecider(self._policy)
        self._queue: deque[tuple[str, str]] = deque()  # (queue id, text)
        self._job: asyncio.Task[None] | None = None
        self._assembly: Assembly
        self._agent: CodeAgent
        self._prepared: asyncio.Task[None]

    async def open_first(self) -> None:
        """Open the session that the command line means. Raises what keeps it from being opened."""
        options = self._options
        if options.resume == NEWEST:
            options = replace(options, resume=await self._picked(options))
        self._assembly = assemble(options, dict(os.environ), self._approver)
        self._agent = open_agent(self._assembly, options, [self._renderer])
        self._prepared = asyncio.create_task(self._prepare())
        self._screen.commit("\n".join(self._assembly.settings.notes))
        self._greet()

    async def close(self, signal_number: int) -> None:
        """End what runs, in order, and say how to come back. `signal_number`: as `Leave` has it."""
        end = ENDS[signal_number]
        self._prepared.cancel()
        if self._job is not None:
            self._agent.interrupt(end if end is not End.COMPLETED else End.INTERRUPTED)
            await asyncio.wait({self._job})
        await self._agent.close(end.value)
        await self._agent.services.provider.close()
        path = transcript_path(self._agent)
        if path is not None:
            self._screen.commit(f"Resume with: {resume_command(self._agent)}\n  (transcript {path})")

    async def _prepare(self) -> None:
        """Import the heavy part of the provider while the user types; a fault of it is told at the first request."""
        with suppress(AgentError):
            await asyncio.to_thread(self._assembly.services.provider.prepare)

    # -- lines

    async def take(self, line: str) -> None:
        """Act on one typed line."""
        if self._approver.asks:
            taken = self._approver.take(line)
            self._screen.commit(f"› {line}" if taken else "Please answer y, n or a (or press Ctrl+C).")
            return
        command = parse_command(line)
        decision = parse_decision(line, self._agent.uncertain) if self._agent.owes else None
        if command is not None:
            await self._command(command)
        elif isinstance(decision, str):
            self._screen.commit(decision)
        elif decision is not None:
            self._decide(decision)
        elif not line.strip():
            self._continue()
        elif self._job is not None:
            self._queue.append((self._agent.queue_input(line), line))
            self._screen.commit(f"(queued) {line}")
        else:
            self._screen.commit(f"› {line}")
            self._start(self._agent.run(line, decider=self._decider))

    def _continue(self) -> None:
        if self._job is None and self._agent.can_continue:
            self._screen.commit("(continuing the interrupted run)")
            self._start(self._agent.continue_run(decider=self._decider))

    def _decide(self, decision: Decision) -> None:
        item = self._agent.uncertain[decision.number - 1]
        if decision.choice is Choice.SHOW:
            self._screen.commit("\n".join(evidence_lines(item)))
            return
        self._decider.said[item.action.action_id] = decision.choice
        self._screen.commit(f"[{decision.number}] {decision.choice.value}, as soon as you go on")

    async def _command(self, command: Command) -> None:
        match command.name:
            case "help":
                self._screen.commit(HELP)
            case "exit" | "quit":
                self._screen.leave(Leave())
            case "recover":
                self._screen.commit("\n".join(report_lines(self._agent)) or "Nothing was left open.")
            case "tasks":
                tasks = [f"{one.title}: {one.state().text}" for one in self._agent.background.all]
                self._screen.commit("\n".join(tasks) or "Nothing was started in the background.")
            case "mode":
                self._set_mode(command.argument)
            case "name" if command.argument:
                self._agent.rename(command.argument)
                self._screen.commit(f"This session is now called {command.argument}.")
            case "resume" | "new":
                await self._switch(command)
            case _:
                self._screen.commit(f"/{command.name} is not understood. {HELP}")

    def _set_mode(self, word: str) -> None:
        if word in set(Mode):
            self._agent.gate.mode = Mode(word)
        names = ", ".join(mode.value for mode in Mode)
        self._screen.commit(f"Mode: {self._agent.gate.mode.value} (of {names}).")

    async def _switch(self, command: Command) -> None:
        """Open another session; the one at hand stays as it is when that cannot be done."""
        if self._job is not None:
            self._screen.commit("Something is at work: press Ctrl+C first.")
            return
        try:
            if command.name == "new":
                assembly = replace(self._assembly, target=None)
            else:
                places = places_of(self._options, os.environ)
                word = command.argument or await self._picked(self._options)
                assembly = for_session(self._assembly, find_session(places, word), self._options)
                if assembly.target and assembly.target.session_id == self._agent.session_id:
                    self._screen.commit("This is the session at hand.")
                    return
            agent = open_agent(assembly, replace(self._options, fork=False, name=None), [self._renderer])
        except (AgentError, MemoryFault, OSError) as error:
            self._screen.commit(explain(error)[1])
            return
        await self._agent.close("left")
        self._assembly, self._agent = assembly, agent
        self._decider = TerminalDecider(self._policy)
        self._queue.clear()
        self._greet()

    async def _picked(self, options: Options) -> str:
        """The session to resume: the only one, or the one that the user picks; Enter takes the newest."""
        found = [one for one in sessions_here(places_of(options, os.environ), workspace_of(options)) if not one.problem]
        if len(found) < 2:
            return found[0].session_id if found else NEWEST
        for number, one in enumerate(found[:20], 1):
            name = f"({one.name}) " if one.name else ""
            print(f"[{number}] {clock_time(one.last_timestamp)}  {name}{one.first_prompt}  {one.session_id}")
        print("Which session? Enter takes the newest.")
        word = (await self._screen.read()).strip()
        if word.isdigit() and 1 <= int(word) <= len(found):
            return found[int(word) - 1].session_id
        return word or found[0].session_id

    # -- runs

    def _start(self, run: Coroutine[object, object, RunResult]) -> None:
        self._job = asyncio.create_task(self._drive(run))

    async def _drive(self, run: Coroutine[object, object, RunResult]) -> None:
        try:
            result = await run
        except DecisionNeeded:
            self._screen.commit("Decide the interrupted actions first (for example: 1 verify).")
            return
        finally:
            self._job = None
            self._screen.refresh()
        if result.error_message:
            self._screen.commit(result.error_message)
        if self._queue and result.end is End.COMPLETED:
            queue_id, text = self._queue.popleft()
            self._screen.commit(f"› {text}")
            self._start(self._agent.run(text, metadata={"queue_id": queue_id}, decider=self._decider))

    def interrupt(self) -> bool:
        """Interrupt what runs; False when nothing does."""
        if self._job is None:
            return False
        self._agent.interrupt(End.INTERRUPTED)
        return True

    # -- what is shown

    def rows(self) -> list[str]:
        """What stands above the prompt."""
        rows = self._renderer.status()
        return [*rows, self._approver.asks] if self._approver.asks else rows

    def _greet(self) -> None:
        agent = self._agent
        services = agent.services
        lines = [services.provider.name, f"Workspace {services.workspace}, mode {agent.gate.mode.value}. /help helps."]
        path = transcript_path(agent)
        lines.append(f"Session {agent.session_id}, transcript {path}" if path else "This session is not recorded.")
        report = agent.report
        if report is not None:
            lines += summary_lines(report.state, report.owner)
            lines += report_lines(agent)
            if report.draft is not None:
                lines += draft_lines(report.draft.text)
            self._queue.extend(report.state.queued_inputs.items())
            lines += [f"(queued before) {text}" for text in report.state.queued_inputs.values()]
            if agent.can_continue:
                lines.append("Enter continues the interrupted run; a prompt starts the next one.")
        self._screen.commit("\n".join(lines))
