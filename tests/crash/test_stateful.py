"""Random lives of a session (append, die, damage, open, resume) against a model of what must be known."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from memory.errors import SessionBusy
from memory.events import MessagePayload, Reason
from tests.crash.kit import REAL_DISK, Naive, NaiveWriter, Ours, OurWriter, Tell, quick_place, scaled
from tests.crash.kit_children import in_child
from tests.crash.kit_faults import DyingDisk
from tests.memory.memory_kit import Fact, transition

EXAMPLES = 60
STEPS = 30

TEXTS = st.text(st.characters(), max_size=30)  # with lone surrogates, controls and separators
PLACES = st.floats(0, 1, exclude_max=True)  # where in a file, as a share of it
JUNK = st.sampled_from([b"", b"\0" * 64, b"[]", b"17", b'"x"', b"{", b'{"event_id":"', b"\xff\xfe", b'{"payload":{}}'])


def message(number: int, text: str, *, synced: bool = False) -> Fact:
    """A message whose text tells which one it is."""
    return ("run-1", number, MessagePayload("user" if synced else "assistant", f"{number}:{text}"))


class SessionLife(RuleBasedStateMachine):
    """The model: the line of every message that was acknowledged. It must be known as long as the file holds it.

    A line that damage moved behind a later one may be known or not; nothing else may be known, and nothing twice.
    """

    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mycodeagent-", dir=quick_place()))
        self.store = self.make()
        self.writer: OurWriter | NaiveWriter | None = None
        self.lines: dict[int, bytes] = {}  # of acknowledged messages
        self.maybe: set[int] = set()  # written by a process that died before it could tell
        self.numbers = 0
        self.is_damaged = False  # since the last opening

    def make(self) -> Ours | Naive:
        return Ours(self.folder)

    def teardown(self) -> None:
        if self.writer is not None:
            self.writer.close()
        shutil.rmtree(self.folder)

    @property
    def data(self) -> bytes:
        return self.store.path.read_bytes() if self.store.path.exists() else b""

    def known(self) -> list[int]:
        """The numbers of the messages that a reader knows, in its order."""
        if isinstance(self.store, Naive):
            payloads = [json.loads(text.split(" ", 1)[1]) for text in self.store.known()]
            texts = [payload["content"] for payload in payloads if "content" in payload]
        elif self.store.path.exists():
            is_live = self.writer is not None
            texts = [one.content for one in self.store.load(live=is_live).history_messages]
        else:
            texts = []
        return [int(text.split(":")[0]) for text in texts]

    def damage(self, data: bytes) -> None:
        self.counts["damages"] += 1
        self.is_damaged = True
        self.store.path.write_bytes(data)

    # -- what processes do

    @precondition(lambda self: self.writer is None)
    @rule()
    def open(self) -> None:
        """Open and record what is new, as the agent does."""
        self.counts["openings"] += 1
        self.writer = self.store.open(REAL_DISK)
        self.writer.record(("", 0, transition(Reason.SESSION_OPENED, pid=1)))
        if isinstance(self.writer, OurWriter):
            found = self.writer.session.new_damage
            assert self.is_damaged or not found, found
            if found:
                details = [one.as_json() for one in found]
                self.writer.record(("", 0, transition(Reason.TRANSCRIPT_REPAIRED, damage=details)))
        self.is_damaged = False

    @precondition(lambda self: self.writer is not None)
    @rule(texts=st.lists(TEXTS, min_size=1, max_size=4), synced=st.booleans())
    def append(self, texts: list[str], synced: bool) -> None:
        assert self.writer is not None
        for text in texts:
            self.counts["appends"] += 1
            self.numbers += 1
            before = len(self.data)
            self.writer.record(message(self.numbers, text, synced=synced))
            self.lines[self.numbers] = self.data[before:].rstrip(b"\n")

    @precondition(lambda self: self.writer is not None)
    @rule()
    def close(self) -> None:
        assert self.writer is not None
        self.writer.close()
        self.writer = None

    @precondition(lambda self: isinstance(self.writer, OurWriter))
    @rule()
    def open_a_second_time(self) -> None:
        with pytest.raises(SessionBusy):
            self.store.open(REAL_DISK)

    @precondition(lambda self: self.writer is None)
    @rule(text=TEXTS, part=st.integers(0, 400))
    def die_within_an_append(self, text: str, part: int) -> None:
        """A process that dies by SIGKILL when a part of its record is written."""
        self.counts["deaths"] += 1
        self.numbers += 1
        fact = message(self.numbers, text)

        def act(_tell: Tell) -> None:
            self.store.open(DyingDisk(part)).record(fact)

        assert in_child(act).was_killed
        self.maybe.add(self.numbers)
        self.is_damaged = True

    # -- what becomes of the file between them

    @precondition(lambda self: self.writer is None and self.data)
    @rule(place=PLACES, bit=st.integers(0, 7))
    def flip_a_bit(self, place: float, bit: int) -> None:
        data = bytearray(self.data)
        data[int(place * len(data))] ^= 1 << bit
        self.damage(bytes(data))

    @precondition(lambda self: self.writer is None and self.data)
    @rule(place=PLACES)
    def cut_off(self, place: float) -> None:
        self.damage(self.data[: int(place * len(self.data))])

    @precondition(lambda self: self.writer is None and self.data)
    @rule(count=st.integers(1, 5000))
    def fill_the_end_with_nuls(self, count: int) -> None:
        self.damage(self.data + bytes(count))

    @precondition(lambda self: self.writer is None and self.data)
    @rule(place=PLACES, junk=JUNK)
    def put_a_line(self, place: float, junk: bytes) -> None:
        lines = self.data.split(b"\n")
        lines.insert(int(place * len(lines)), junk)
        self.damage(b"\n".join(lines))

    @precondition(lambda self: self.writer is None and self.data)
    @rule(place=PLACES)
    def take_a_line(self, place: float) -> None:
        lines = self.data.split(b"\n")
        del lines[int(place * len(lines))]
        self.damage(b"\n".join(lines))

    @precondition(lambda self: self.writer is None and self.data)
    @rule(place=PLACES, after=st.integers(1, 5))
    def repeat_a_line(self, place: float, after: int) -> None:
        lines = self.data.split(b"\n")
        index = int(place * len(lines))
        lines.insert(index + after, lines[index])
        self.damage(b"\n".join(lines))

    # -- what must be known

    @invariant()
    def everything_in_the_file_is_known_and_nothing_else(self) -> None:
        data, known = self.data, self.known()
        places = {number: data.find(line) for number, line in self.lines.items() if line in data}
        newest_first = sorted(places, reverse=True)
        in_order = {
            n for index, n in enumerate(newest_first) if all(places[n] < places[m] for m in newest_first[:index])
        }
        assert len(set(known)) == len(known), "known twice"
        assert in_order <= set(known), "in the file, and not known"
        assert set(known) <= set(places) | self.maybe, "not in the file, and known"


class NaiveLife(SessionLife):
    def make(self) -> Ours | Naive:
        return Naive(self.folder)


def run_lives(kind: type[SessionLife], examples: int) -> None:
    how = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        database=None,
        derandomize=True,
        phases=[Phase.generate] if kind is NaiveLife else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(kind, settings=how)


def test_whatever_happens_to_a_session_its_file_tells_all_it_holds(battery: Callable[[str], None]) -> None:
    SessionLife.counts.clear()
    examples = scaled(EXAMPLES)
    run_lives(SessionLife, examples)
    counts = ", ".join(f"{count:,} {what}" for what, count in SessionLife.counts.items())
    battery(f"state machine: {examples} lives of at most {STEPS} steps: {counts}")


def test_a_naive_store_fails_the_state_machine() -> None:
    with pytest.raises(AssertionError):
        run_lives(NaiveLife, 60)
