"""A disk without room from any record on: nothing more is done, and after room was made the same process goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from agent.host import CodeAgent
from agent.recovery.policies import Policy
from agent.recovery.settle import PolicyDecider
from agent.state import RunResult
from memory.events import End
from tests.kit.in_process import FailingDisk, Someone, call_ids, is_record, run, until_crash
from tests.kit.script import Call, Reply, Script, say
from tests.kit.transcript import outcomes, transitions

SCRIPT: Script = {
    "change it": [
        Reply(
            "now the change",
            calls=(
                Call("Read", {"file_path": "a.txt"}),
                Call("Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}),
                Call("Write", {"file_path": "b.txt", "content": "b"}),
            ),
        ),
        say("all done"),
    ],
    "and now": [say("went on")],
}


class Room:
    """A disk that has no room from its n-th record on, until room is made."""

    def __init__(self, records: int) -> None:
        self.is_full = True
        self.disk = FailingDisk(is_refused=self._refuses)
        self._records = records

    def _refuses(self, data: bytes) -> bool:
        return self.is_full and is_record(data) and self.disk.records > self._records


def someone(folder: Path) -> Someone:
    one = Someone(folder, SCRIPT)
    one.file("a.txt", "old\n")
    return one


def assert_live_and_recorded_agree(one: Someone, agent: CodeAgent) -> None:
    state = one.load(agent.session_id)
    records = one.records(agent.session_id)
    decided = Counter(str(details["action_id"]) for details in transitions(records, "recovery_decided"))
    assert set(decided.values()) <= {1}
    assert list(agent.history_manager.messages) == list(state.history_messages)
    assert (one.provider.invalid, state.uncertain_actions, state.missing_results) == ([], (), ())
    assert all(count == 1 for action, count in outcomes(records).items() if action not in decided)
    assert all(not count for action, count in outcomes(records).items() if action in decided)
    told = Counter(str(r.payload.get("tool_call_id")) for r in records if r.is_message("tool"))
    assert told == Counter(call_ids(state))


def test_a_disk_that_is_full_from_any_record_on_ends_the_run_and_the_next_prompt_goes_on(tmp_path: Path) -> None:
    whole = someone(tmp_path / "whole")
    run(whole.start(), "change it")
    ended = [r.event_type for r in whole.records(whole.only_session())].index("terminal")
    for records in range(1, ended + 1):
        room = Room(records)
        one = someone(tmp_path / str(records)).with_services(disk=room.disk)
        agent = one.start()

        async def talk(agent: CodeAgent = agent, room: Room = room) -> tuple[RunResult, RunResult]:
            first = await agent.run("change it")
            room.is_full = False
            second = await agent.run("and now")
            await agent.close("completed")
            return first, second

        first, second = asyncio.run(talk())
        assert (first.end, first.exit_code) == (End.TRANSCRIPT_ERROR, 7) or records == ended, records
        assert (second.end, second.response) == (End.COMPLETED, "went on"), records
        assert_live_and_recorded_agree(one, agent)
        started = [r.payload["tool_name"] for r in one.records(agent.session_id) if r.is_action("started")]
        assert ((one.workspace / "a.txt").read_text() == "new\n") <= ("Edit" in started)


def test_a_settlement_without_room_from_any_record_on_is_done_once_when_there_is_room(tmp_path: Path) -> None:
    decider = PolicyDecider(Policy.REDO_SAFE)
    whole = someone(tmp_path / "whole")
    run(whole.start(), "change it")
    records_of_whole = whole.records(whole.only_session())
    started = next(i for i, record in enumerate(records_of_whole, 1) if record.is_action("started", "Edit"))
    for records in range(1, 8):
        one = someone(tmp_path / str(records))
        dying = CodeAgent.start(one.with_services(disk=FailingDisk(crash_after=started)).services, ())
        until_crash(dying, dying.run("change it"))
        room = Room(records)
        agent = one.with_services(disk=room.disk).resume(one.only_session())

        async def talk(agent: CodeAgent = agent, room: Room = room) -> list[RunResult]:
            results = [await agent.run("and now", decider=decider) for _ in range(2)]
            room.is_full = False
            results.append(await agent.run("and now", decider=decider))
            await agent.close("completed")
            return results

        results = asyncio.run(talk())
        assert [result.end for result in results[:2]] == [End.TRANSCRIPT_ERROR] * 2, records
        assert (results[2].end, results[2].response) == (End.COMPLETED, "went on"), records
        assert_live_and_recorded_agree(one, agent)
