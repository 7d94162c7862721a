"""The runs of a session: which one is next, in which world, and how the newest ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.state import RunResult, World
from memory.events import End
from memory.state import ResumeState, RunFacts


@dataclass(frozen=True)
class RunPlan:
    """A run that is about to be driven. `step` is the last one that it has done, `answer` the one that it has given."""

    run_id: str
    world: World
    step: int = 0
    answer: str | None = None


class Runs:
    """Counts on from what a transcript told; `world` says what this process would ask a model in."""

    def __init__(self, state: ResumeState | None, world: Callable[[], World]) -> None:
        self.newest: RunFacts | None = state.run if state else None
        self._count = state.runs if state else 0
        self._world = world

    def begin(self) -> RunPlan:
        """The next run."""
        self._count += 1
        return RunPlan(f"run-{self._count}", self._world())

    def go_on(self) -> RunPlan:
        """The newest run once more, in the world that it was begun in."""
        run, here = self.newest, self._world()
        if run is None:
            return self.begin()
        return RunPlan(run.run_id, World.from_json(run.world, here).carried_on_in(here), run.step, run.answer)

    def ended(self, plan: RunPlan, step: int, result: RunResult) -> None:
        """This run is the newest now."""
        answer = result.response if result.end is End.COMPLETED else None
        self.newest = RunFacts(plan.run_id, step, plan.world.as_json(), result.end.value, answer)
