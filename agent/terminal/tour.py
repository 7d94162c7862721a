"""`mycodeagent demo`: the real program is killed in the middle of an Edit and of a command, and resumed.

The tour claims nothing that it has not looked at: each claim is checked against files and transcript, and one that does
not hold makes the exit code 1.
"""

from __future__ import annotations

import re
import shlex
import signal
import textwrap
from pathlib import Path

import msgspec

from agent.terminal.tour_stage import Finished, Stage, TourFailed, decisions, lifecycles, records_of

SIZES_MB = (8, 32, 96)  # of the edited file, the next one when the kill came too late: a larger one takes longer
LINE = "line {} of a file that takes a moment to write, so that there is a moment to kill the program in\n"
OLD, NEW = "line 77 of", "LINE 77 OF"
EDIT = f'replace "{OLD}" by "{NEW}" in big.txt'
OUTPUT, EXIT_CODE = "the output of a command whose agent was dead", 3
COMMAND = f"echo begun >> effects.log; sleep 1.2; echo ended >> effects.log; echo {OUTPUT}; exit {EXIT_CODE}"
INDENT = "    "


def run_tour(*, keep: bool) -> int:
    """Give the tour; 0 when everything that it claims held. `keep` leaves its folder on the disk."""
    stage = Stage()
    try:
        tour = Tour(stage)
        try:
            tour.give()
        except (TourFailed, OSError, msgspec.MsgspecError) as error:
            tour.claim(f"the tour came to its end ({error})", False)
        _say("")
        if keep:
            _say(f"The folder of the tour is kept: {stage.folder}")
        else:
            _say("The folder of the tour is removed now; --keep leaves it.")
        if tour.broken:
            _say(f"{tour.broken} of {tour.claims} claims did NOT hold.")
        else:
            _say(f"All {tour.claims} claims held.")
        return 1 if tour.broken else 0
    finally:
        if not keep:
            stage.remove()


class Tour:
    """The scenes, in one session that is killed twice."""

    def __init__(self, stage: Stage) -> None:
        self.claims = 0
        self.broken = 0
        self._stage = stage
        self._effects = stage.workspace / "effects.log"

    def give(self) -> None:
        """Raises TourFailed, OSError or MsgspecError when it cannot go on."""
        _say("What survives kill -9: a tour with the demo model, in a temporary folder.")
        _say("The program that is started, killed and resumed below is the real one, not a copy for show.")
        transcript = self._killed_in_an_edit()
        self._killed_in_a_command(transcript)
        self._resumed(transcript)
        _say("")
        _say(f"All of it stands in {len(records_of(transcript))} lines of JSON, each with a checksum:")
        _say(f"{INDENT}{transcript}")

    def claim(self, what: str, holds: bool) -> None:
        """Say what was found to be so, or not."""
        self.claims += 1
        self.broken += not holds
        _say(f"  {'[holds]' if holds else '[DOES NOT HOLD]'} {what}")

    # -- scenes

    def _killed_in_an_edit(self) -> Path:
        """Kill the program between the record that an Edit begins and the one that it has ended."""
        _title("1. Killed in the middle of an Edit")
        big = self._stage.workspace / "big.txt"
        for megabytes in SIZES_MB:
            count = megabytes * 1024 * 1024 // len(LINE)
            before = "".join(LINE.format(number) for number in range(count)).encode()
            big.write_bytes(before)
            seen = set(self._stage.transcripts())
            killed = self._kill("--mode", "auto", "-p", EDIT, seen=seen)
            transcript = next(iter(set(self._stage.transcripts()) - seen), None)
            if transcript is None:
                raise TourFailed(f"the program ended without a session: {killed.err.strip()}")
            records = records_of(transcript)
            if lifecycles(records, "Edit", "started") and not lifecycles(records, "Edit", "completed", "failed"):
                break
            if not lifecycles(records, "Edit", "completed"):
                raise TourFailed(f"the Edit was not made: {killed.err.strip()}")
            _say(f"  The Edit of {megabytes} MB was done before the kill came: once more with a bigger file.")
        else:
            raise TourFailed("no kill came in time")
        _say(f"  SIGKILL, as soon as the transcript said that the Edit of {megabytes} MB begins.")
        self.claim("the program was killed by signal 9", killed.code == -signal.SIGKILL)
        after = before.replace(OLD.encode(), NEW.encode(), 1)
        now = big.read_bytes()
        self.claim("the file is whole: its complete old or its complete new content", now in (before, after))
        truth = "APPLIED" if now == after else "NOT APPLIED"
        _say("  What became of the Edit? The transcript cannot know it, so the file is asked:")
        verdict = self._recover()
        _say(f"  This time the kill came {'after' if truth == 'APPLIED' else 'before'} the file got its new content.")
        self.claim(f"the verdict, {truth}, is the truth", verdict == truth)
        return transcript

    def _killed_in_a_command(self, transcript: Path) -> None:
        """Resume, and kill the resumed program while a command runs."""
        _title("2. Resumed, and killed again in the middle of a command")
        before = (self._stage.workspace / "big.txt").read_bytes()
        words = ("-r", _id_of(transcript), "--mode", "auto", "-p", f"run {COMMAND}")
        _say(f"$ {shlex.join(['mycodeagent', *words])}")
        killed = self._stage.run_and_kill(*words, when=self._effects.exists)
        _quote(killed.err)
        _say("  SIGKILL, as soon as the command had begun.")
        self.claim("the program was killed by signal 9", killed.code == -signal.SIGKILL)
        names = sorted(path.name for path in self._stage.workspace.iterdir())
        self.claim("the resume changed nothing and left no temporary file", names == ["big.txt", "effects.log"])
        self.claim("the Edit was not made again", (self._stage.workspace / "big.txt").read_bytes() == before)
        _say("  The command does not need the agent: it goes on under its supervisor.")
        verdict = self._recover()
        if verdict == "RUNNING":
            self._stage.wait_until(self._stage.has_outcome, "the end of the command")
            _say("  A moment later:")
            verdict = self._recover()
        self.claim("the verdict is FINISHED, with its exit code", verdict == "FINISHED")

    def _resumed(self, transcript: Path) -> None:
        """Resume for good, and look at what the model was given."""
        _title("3. Resumed")
        words = ("-r", _id_of(transcript), "-p", "list files")
        resumed = self._stage.run(*words)
        self._show(resumed, *words)
        records = records_of(transcript)
        told = [_told(record["payload"]) for record in records if record["event_type"] == "message"]
        result = next((text for text in told if OUTPUT in text), "")
        self.claim("the resume ended well", resumed.code == 0)
        self.claim(f"the model was given the output and exit code {EXIT_CODE}", f"exit code {EXIT_CODE}" in result)
        effects = self._effects.read_text().split()
        self.claim("the command ran to its end, and once", effects == ["begun", "ended"])
        started = [len(lifecycles(records, tool, "started")) for tool in ("Edit", "Bash")]
        self.claim("nothing was started a second time", started == [1, 1])
        self.claim("each decision is a record: one for the Edit, one for the command", len(decisions(records)) == 2)
        self.claim("nothing is left to decide: the next resume asks nothing", self._recover() == "")

    # -- parts

    def _kill(self, *words: str, seen: set[Path]) -> Finished:
        """Start a new session and kill it as soon as its transcript says that an Edit begins."""

        def begins() -> bool:
            new = set(self._stage.transcripts()) - seen
            return any(lifecycles(records_of(path), "Edit", "started") for path in new)

        _say(f"$ {shlex.join(['mycodeagent', *words])}")
        return self._stage.run_and_kill(*words, when=begins)

    def _recover(self) -> str:
        """Show what `recover` prints; the verdict in it, "" when no action waits for a decision."""
        shown = self._stage.run("recover")
        self._show(shown, "recover")
        found = re.findall(r"^ {6}([A-Z ]+): ", shown.out, re.MULTILINE)
        return ", ".join(found)

    def _show(self, finished: Finished, *words: str) -> None:
        _say(f"$ {shlex.join(['mycodeagent', *words])}")
        _quote(finished.err)
        _quote(finished.out)


def _id_of(transcript: Path) -> str:
    return transcript.stem.removeprefix("transcript-")


def _told(payload: object) -> str:
    """The text of a tool message that recovery wrote."""
    content = payload.get("content") if isinstance(payload, dict) and payload.get("role") == "tool" else None
    return content if isinstance(content, str) else ""


def _title(text: str) -> None:
    _say("")
    _say(text)


def _quote(text: str) -> None:
    """What the program printed, set in."""
    if text.strip():
        _say(textwrap.indent(text.rstrip(), INDENT))


def _say(line: str) -> None:
    print(line, flush=True)
