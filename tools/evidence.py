"""What became of a command whose result was never recorded: the facts on disk and in the process table.

`probe_command` only looks. `seal_command` makes "not started" certain, once, when the session is opened again.
`wait_for_outcome` and `stop_running` carry out what was then decided about a command that still runs.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from tools.command import CommandOutcome, end_marked, private_directory, read_outcome
from tools.processes import Process, Whereabouts, here, marked
from tools.supervisor import CLAIM, GRACE_S, KILL_S
from tools.verdict import Finding, Json, Verdict

LOOK_S = 0.05  # between two looks at a command that is not our child


class Claim(msgspec.Struct, frozen=True):
    """The `claim` file: who has the right to run the command. A void one says that nobody ever will."""

    supervisor: tuple[int, int] = (0, 0)  # pid, start time
    command: tuple[int, int] = (0, 0)
    boot_id: str = ""
    pid_namespace: str = ""
    host: str = ""
    void: bool = False

    @property
    def whereabouts(self) -> Whereabouts:
        return Whereabouts(self.boot_id, self.pid_namespace, self.host)


def whereabouts_of(intent: Mapping[str, Json]) -> Whereabouts:
    return Whereabouts(*(str(intent.get(name, "")) for name in Whereabouts._fields))


def read_claim(place: Path) -> Claim | None:
    """Raises OSError or msgspec.MsgspecError when there is one that cannot be read."""
    try:
        return msgspec.json.decode((place / CLAIM).read_bytes(), type=Claim)
    except FileNotFoundError:
        return None


def seal_command(intent: Mapping[str, Json], place: Path) -> None:
    """Claim the place with a void claim if nobody has: a supervisor that comes later starts nothing.

    Only where the command could have been started: after a restart of the machine a missing claim proves nothing,
    since claims are not synced. Raises OSError.
    """
    if here().differs(whereabouts_of(intent)):
        return
    private_directory(place)
    temp = place / f"{CLAIM}.{secrets.token_hex(4)}.tmp"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, msgspec.json.encode({"void": True, "sealed": time.time()}) + b"\n")
    finally:
        os.close(fd)
    with suppress(FileExistsError):
        (place / CLAIM).hardlink_to(temp)
    temp.unlink()


def probe_command(intent: Mapping[str, Json], place: Path) -> Finding:
    """Say what became of a command. Changes nothing."""
    outcome = read_outcome(place)
    if outcome is not None:
        return _ended(outcome)
    try:
        claim = read_claim(place)
    except (OSError, msgspec.MsgspecError) as error:
        return Finding(Verdict.UNKNOWN, f"it may have been started: its claim cannot be read ({error})")
    if claim is not None and claim.void:
        return Finding(Verdict.NOT_STARTED, "it was never started, and cannot start any more")
    elsewhere = here().differs(claim.whereabouts if claim else whereabouts_of(intent))
    if elsewhere:
        begun = "it was started" if claim else "nothing shows whether it was started"
        return Finding(Verdict.UNKNOWN, f"{begun}, left no outcome, and {elsewhere}")
    if claim is not None and Process(*claim.supervisor).is_alive():
        return _running([Process(*claim.command)], Process(*claim.supervisor))
    return _unsupervised(place, claim)


def probe_background(place: Path) -> Finding:
    """What became of a background command, or of what a finished one left behind, when its agent is gone.

    Changes nothing. A supervisor whose agent has died ends all that it guards; without one the mark finds survivors.
    """
    outcome = read_outcome(place)
    if outcome is None:
        if not (place / CLAIM).exists():
            return Finding(Verdict.UNKNOWN, "what was on disk of it is gone")
        return probe_command({}, place)
    survivors = marked(place.name)
    if not survivors:
        return _ended(outcome)
    claim = _local_claim(place)
    supervisor = Process(*claim.supervisor) if claim else None
    return _running(survivors, supervisor if supervisor and supervisor.is_alive() else None)


def _unsupervised(place: Path, claim: Claim | None) -> Finding:
    outcome = read_outcome(place)  # the supervisor may have written it, and ended, since we looked first
    if outcome is not None:
        return _ended(outcome)
    survivors = marked(place.name)
    if survivors:
        return _running(survivors, None)
    if claim is None:
        return Finding(
            Verdict.UNKNOWN,
            "nothing shows that it was started; that becomes certain when the session is opened",
        )
    return Finding(
        Verdict.UNKNOWN,
        "it was started, its supervisor was killed, and none of its processes is left: how far it came is not known",
        {"pid": claim.command[0]},
    )


def _running(processes: list[Process], supervisor: Process | None) -> Finding:
    pids: list[Json] = [process.pid for process in processes]
    named = ", ".join(str(pid) for pid in pids)
    if supervisor is None:
        text = f"it still runs, but its supervisor was killed: pids {named}"
        return Finding(Verdict.RUNNING, text, {"pids": pids, "supervised": False})
    text = f"it still runs under its supervisor (pid {supervisor.pid}): pid {named}"
    return Finding(Verdict.RUNNING, text, {"pids": pids, "supervised": True, "supervisor": supervisor.pid})


def _ended(outcome: CommandOutcome) -> Finding:
    facts: dict[str, Json] = {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "timed_out": outcome.timed_out,
        "why": outcome.why,
        "ended": outcome.ended,
        "seconds": round(outcome.seconds, 3),
        "stdout_bytes": outcome.stdout_bytes,
        "stderr_bytes": outcome.stderr_bytes,
    }
    left: list[Json] = [one.pid for one in outcome.left if Process(one.pid, one.start_ticks).is_alive()]
    if left:
        facts["left_pids"] = left
    clock = time.strftime("%H:%M:%S", time.localtime(outcome.ended))
    size = f"{outcome.stdout_bytes + outcome.stderr_bytes} bytes of output"
    if outcome.exit_code is not None and outcome.why == "ended":
        return Finding(Verdict.FINISHED, f"exit {outcome.exit_code} at {clock}, {size}", facts)
    reasons = {
        "timeout": f"ended by its timeout after {outcome.seconds:.0f} s",
        "stopped": "ended because it was told to stop",
        "agent_died": "ended because the agent had died",
    }
    reason = reasons.get(outcome.why, f"ended by signal {outcome.signal}")
    return Finding(Verdict.KILLED, f"{reason}, at {clock}, {size}", facts)


async def wait_for_outcome(place: Path) -> CommandOutcome | None:
    """Wait until a command that the probe found running has ended; None when its supervisor is not there to say how."""
    while True:
        alive = _who_runs(place)
        outcome = read_outcome(place)
        if outcome is not None or not alive:
            return outcome
        await asyncio.sleep(LOOK_S)


async def stop_running(place: Path) -> CommandOutcome | None:
    """End a command that the probe found running, with its whole tree; its outcome, where a supervisor can give one."""
    claim = _local_claim(place)
    if claim is not None:
        supervisor = Process(*claim.supervisor)
        supervisor.send(signal.SIGTERM)
        give_up_at = time.monotonic() + GRACE_S + KILL_S + 1
        while supervisor.is_alive() and time.monotonic() < give_up_at:  # noqa: ASYNC110 - no event of ours tells its end
            await asyncio.sleep(LOOK_S)
        supervisor.send(signal.SIGKILL)
    await end_marked(place.name)
    return read_outcome(place)


async def wait_until_stopped(place: Path) -> None:
    """Wait until the supervisor of a background command has ended it after its agent's death: a few seconds at most."""
    claim = _local_claim(place)
    give_up_at = time.monotonic() + GRACE_S + KILL_S + 1
    if claim is not None:
        while Process(*claim.supervisor).is_alive() and time.monotonic() < give_up_at:  # noqa: ASYNC110 - as above
            await asyncio.sleep(LOOK_S)


def _who_runs(place: Path) -> list[Process]:
    claim = _local_claim(place)
    if claim is not None and Process(*claim.supervisor).is_alive():
        return [Process(*claim.supervisor)]
    return marked(place.name)


def _local_claim(place: Path) -> Claim | None:
    """The claim, if the pids in it can be looked up here."""
    with suppress(OSError, msgspec.MsgspecError):
        claim = read_claim(place)
        if claim is not None and not claim.void and not here().differs(claim.whereabouts):
            return claim
    return None
