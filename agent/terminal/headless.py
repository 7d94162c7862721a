"""One shot: a prompt in, an answer on stdout, everything else on stderr."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from agent.config import Settings
from agent.errors import AgentError, ConfigError
from agent.events import OutputClosed, RuntimeEventSink
from agent.host import CodeAgent
from agent.permissions import NobodyToAsk
from agent.recovery.policies import Policy
from agent.recovery.settle import DecisionNeeded, PolicyDecider
from agent.recovery.words import told_lost
from agent.state import RunResult, Usage
from agent.terminal.assemble import Assembly, assemble
from agent.terminal.faults import end_signals, explain, write_error
from agent.terminal.options import Options, OutputFormat
from agent.terminal.progress import JsonStream, ProgressLines, write_json_line
from agent.terminal.recovery_screen import action_lines, damage_lines, decision_lines, draft_lines
from agent.terminal.result import fault_object, result_object, resume_command, transcript_path
from memory.errors import MemoryFault
from memory.events import End
from memory.lease import read_owner

SIGNALS = {signal.SIGINT: End.INTERRUPTED, signal.SIGTERM: End.TERMINATED, signal.SIGHUP: End.HANGUP}


def policy_of(options: Options, default: Policy) -> Policy:
    """Raises ConfigError."""
    if options.on_uncertain is None:
        return default
    try:
        return Policy(options.on_uncertain)
    except ValueError:
        names = ", ".join(policy.value for policy in Policy)
        raise ConfigError(f"--on-uncertain is one of {names}, not {options.on_uncertain!r}.") from None


async def run_headless(options: Options) -> int:
    """Run one prompt, or go on with an interrupted run; the exit code."""
    try:
        policy = policy_of(options, Policy.VERIFY)
        assembly = assemble(options, dict(os.environ), NobodyToAsk())
        agent = open_agent(assembly, options, _observers(options.output_format))
    except (AgentError, MemoryFault, OSError) as error:
        return _fault(error, options.output_format)
    say_notes(assembly.settings)
    _say_opened(agent, assembly)
    end = End.INTERNAL_ERROR
    try:
        result = await _run(agent, options, policy)
        end = result.end
    finally:
        await agent.close(end.value)
        await agent.services.provider.close()
        end_signals(asyncio.get_running_loop())
    return _finish(agent, result, options.output_format)


def open_agent(assembly: Assembly, options: Options, observers: Sequence[RuntimeEventSink]) -> CodeAgent:
    """A new session, a resumed one, or a fork. Raises SessionBusy, TranscriptUnavailable, OSError."""
    services, target = assembly.services, assembly.target
    if target is None:
        return CodeAgent.start(services, observers, name=options.name)
    if options.fork:
        return CodeAgent.fork_of(services, target, observers, name=options.name)
    return CodeAgent.resume(services, target, observers, owner=read_owner(target), name=options.name)


def report_lines(agent: CodeAgent) -> list[str]:
    """What a resume found, before anything is decided."""
    report = agent.report
    if report is None:
        return []
    lines = [*damage_lines(report.damage), *action_lines(agent.uncertain)]
    lines += [told_lost(one) for one in report.background]
    if report.has_restarted:
        lines.append("The machine has restarted since this session was last at work.")
    if report.changed_files:
        lines.append(f"Changed while the session was away: {', '.join(report.changed_files)}.")
    if report.missing_directory:
        lines.append(f"The directory {report.missing_directory} is gone; commands start in the workspace.")
    return lines


def say_notes(settings: Settings) -> None:
    for note in settings.notes:
        write_error(note)


def _observers(form: OutputFormat) -> list[RuntimeEventSink]:
    progress = ProgressLines(sys.stderr)
    return [progress, JsonStream()] if form is OutputFormat.STREAM_JSON else [progress]


def _say_opened(agent: CodeAgent, assembly: Assembly) -> None:
    provider = agent.services.provider
    if provider.kind == "demo":
        write_error(provider.name)
    path = transcript_path(agent)
    write_error(f"Session {agent.session_id}, transcript {path}" if path else "This session is not recorded.")
    if agent.services.workspace != assembly.launched_in:
        write_error(f"Working in {agent.services.workspace}, the session's workspace.")
    for line in report_lines(agent):
        write_error(line)
    if agent.report and agent.report.draft:
        for line in draft_lines(agent.report.draft.text):
            write_error(line)


async def _run(agent: CodeAgent, options: Options, policy: Policy) -> RunResult:
    loop = asyncio.get_running_loop()
    for number, end in SIGNALS.items():
        loop.add_signal_handler(number, agent.interrupt, end)
    decider = PolicyDecider(policy)
    try:
        if options.output_format is OutputFormat.STREAM_JSON:
            with suppress(OutputClosed):  # the prompt is recorded in any case; the events of its run say it again
                _say_session(agent)
        if options.prompt is not None:
            result = await agent.run(options.prompt, decider=decider)
        elif agent.can_continue:
            result = await agent.continue_run(decider=decider)
        else:
            message = "There is nothing to continue: no run of this session was cut short. Give a prompt."
            return RunResult("", End.COMPLETED, "", 0, Usage(), error_code="nothing_to_continue", error_message=message)
    except DecisionNeeded:
        message = "Interrupted actions are undecided: decide them on a terminal, or use --on-uncertain verify."
        return RunResult("", End.DECISION_NEEDED, "", 0, Usage(), error_code="decision_needed", error_message=message)
    except OutputClosed:
        return RunResult("", End.OUTPUT_CLOSED, "", 0, Usage())
    for line in decision_lines(agent.uncertain):
        write_error(line)
    return result


def _say_session(agent: CodeAgent) -> None:
    payload = {"transcript_path": str(transcript_path(agent)), "workspace": str(agent.services.workspace)}
    write_json_line({"type": "session", "session_id": agent.session_id, "run_id": "", "step": 0, "payload": payload})


def _finish(agent: CodeAgent, result: RunResult, form: OutputFormat) -> int:
    """Print the answer, the error and how to resume; the exit code."""
    code = 2 if result.error_code == "nothing_to_continue" else result.exit_code
    if result.error_message:
        write_error(result.error_message)
    elif result.end in (End.MAX_STEPS, End.TOKEN_BUDGET):
        write_error(f"The run was ended by its limit ({result.end.value}).")
    try:
        if form is OutputFormat.TEXT:
            if result.response:
                print(result.response, flush=True)
        else:
            write_json_line(result_object(agent, result, code))
    except (OSError, ValueError, OutputClosed):
        pass  # whoever read has seen enough; the transcript has it all
    path = transcript_path(agent)
    if path is not None:
        write_error(f"Resume with: {resume_command(agent)}   (transcript {path})")
    return code


def _fault(error: Exception, form: OutputFormat) -> int:
    code, sentence = explain(error)
    write_error(sentence)
    if form is not OutputFormat.TEXT:
        try:
            write_json_line(fault_object(code, type(error).__name__, sentence))
        except OutputClosed:
            return code
    return code
