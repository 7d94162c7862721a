"""The fold over the records of a session: each one changes what is known, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from memory.blobs import BlobStore, text_in
from memory.calls import ActionFacts, CallLedger
from memory.checkpoint import CompactCheckpoint
from memory.codec import decode_payload
from memory.draft import Draft, read_draft
from memory.events import (
    BlobRef,
    CheckpointPayload,
    HistoryMessage,
    ImageRef,
    JsonObject,
    LifecyclePayload,
    MessagePayload,
    Reason,
    TerminalPayload,
    Text,
    ToolCall,
    ToolStatus,
    TranscriptEvent,
    TransitionPayload,
    image_refs,
    list_in,
)
from memory.layout import SessionFiles
from memory.reader import Damage, DamageKind, TranscriptReader
from memory.session_memory import SessionMemoryManager
from memory.snapshot import KEY as FACTS_KEY
from memory.snapshot import CheckpointFacts, FoldSnapshot
from memory.state import MissingResult, ResumeState, RunFacts, RuntimeFacts, UncertainAction
from memory.store import Ending

_RUN_NUMBER = re.compile(r"run-([1-9]\d{0,8})")
_BASH_NUMBER = re.compile(r"bash-([1-9]\d{0,8})")
BACKGROUND_CHARACTERS_MAX = 300  # of a command's text: enough to name it

NOT_RUN_TEXT = "Not run: the session was interrupted before this call started. It had no effect."
UNKNOWN_TEXT = (
    "Interrupted: this call was started and no result was recorded, so what became of it is not known. "
    "Check its effects before you repeat it."
)
LOST_RESULT_TEXT = "The result of this call is lost: the transcript is damaged at this place."
ORPHAN_TEXT = "[Recovery] The result of a tool call whose request is missing from the transcript:\n"


class SessionFold:
    """The state after the records so far."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._ledger = CallLedger()
        self._history: list[HistoryMessage] = []
        self._messages_before = 0
        self._checkpoint: CompactCheckpoint | None = None
        self._asking: HistoryMessage | None = None  # the assistant message whose calls are being answered
        self._asked_at = ("", 0)
        self._answers: dict[str, HistoryMessage] = {}
        self._arguments: dict[str, str] = {}  # of calls, by action where known; for the uncertain ones
        self._run_id = ""
        self._runs = 0
        self._run_step = 0
        self._world: JsonObject = {}
        self._ended: str | None = None
        self._answer: str | None = None
        self._answered_step = 0
        self._steps = 0
        self._runtime = RuntimeFacts()
        self._files_changed: dict[str, None] = {}
        self._opened: JsonObject = {}
        self._acted_boot_id = ""
        self._name: str | None = None
        self._memory = SessionMemoryManager()
        self._recorded_damage: dict[tuple[str, int], Damage] = {}
        self._told_damage: set[tuple[str, int]] = set()
        self._queued: dict[str, str] = {}
        self._last_seq = 0
        self._last_timestamp: str | None = None
        self._missing_blobs: list[Damage] = []

    def ingest(self, event: TranscriptEvent) -> None:
        self._last_seq, self._last_timestamp = event.seq, event.timestamp or self._last_timestamp
        payload = decode_payload(event)
        if payload is None:
            return
        if event.run_id:
            self._enter_run(event)
        match payload:
            case MessagePayload():
                self._message(event, payload)
            case TransitionPayload():
                self._transition(event, payload)
            case LifecyclePayload():
                self._lifecycle(event, payload)
            case CheckpointPayload():
                self._compacted(payload)
            case TerminalPayload():
                self._ended = payload.reason
        self._memory.ingest_event(event, payload)

    def _enter_run(self, event: TranscriptEvent) -> None:
        if event.run_id != self._run_id:
            number = _RUN_NUMBER.fullmatch(event.run_id)
            if number and self._run_id and int(number[1]) <= self._runs:
                return  # a decision about an action of an earlier run does not begin that run again
            self._run_id, self._run_step, self._world, self._ended, self._answer = event.run_id, 0, {}, None, None
            self._answered_step = 0
            self._runs = max(self._runs, int(number[1])) if number else self._runs + 1
        self._run_step = max(self._run_step, event.step)

    # -- messages

    def _message(self, event: TranscriptEvent, payload: MessagePayload) -> None:
        message = HistoryMessage(
            role=payload.role,
            content=self._text(payload.content, event),
            tool_calls=tuple(ToolCall(c.id, c.name, self._text(c.arguments, event)) for c in payload.tool_calls),
            tool_call_id=payload.tool_call_id,
            action_id=payload.action_id,
            metadata=payload.metadata,
            seq=event.seq,
            images=self._images(image_refs(list_in(payload.metadata, "images")), event),
        )
        if payload.role == "tool":
            self._tool_message(event, message, has_content=payload.content is not None)
            return
        self._close_calls()
        self._history.append(message)
        if payload.role == "assistant":
            self._ledger.forget_settled()
            self._asking, self._asked_at = (
                (message, (event.run_id, event.step)) if message.tool_calls else (None, ("", 0))
            )
            if not payload.metadata.get("interrupted"):
                self._steps += 1
                self._answer = message.content if not message.tool_calls else None
            self._answered_step = max(self._answered_step, event.step)
        elif payload.role == "user":
            self._user_message(payload.metadata)

    def _user_message(self, metadata: JsonObject) -> None:
        recovery = metadata.get("recovery")
        self._acted_boot_id = str(self._opened.get("boot_id", ""))
        self._queued.pop(str(metadata.get("queue_id")), None)
        if isinstance(recovery, dict):
            for found in list_in(recovery, "damage"):
                match found:
                    case [str(kind), int(offset)]:
                        self._told_damage.add((kind, offset))
            for path in list_in(recovery, "changed_files"):
                self._runtime.read_cache.pop(str(path), None)
            for bash_id in list_in(recovery, "background"):
                self._runtime.background.pop(str(bash_id), None)
        else:
            self._answer = None

    def _tool_message(self, event: TranscriptEvent, message: HistoryMessage, *, has_content: bool) -> None:
        call_id = message.tool_call_id or ""
        action = self._ledger.answered(event.run_id, call_id)
        if not has_content:
            result = action.result if action else None
            text = LOST_RESULT_TEXT if result is None else self._text(result, event)
            message = replace(message, content=text, images=self._images(action.images if action else (), event))
        if self._asking and any(call.id == call_id for call in self._asking.tool_calls):
            self._answers.setdefault(call_id, message)
        else:
            self._orphan(
                HistoryMessage("user", ORPHAN_TEXT + message.content, metadata={"recovery": {}}, seq=event.seq)
            )

    def _orphan(self, message: HistoryMessage) -> None:
        """A result without its request: never between an assistant message and the results of its calls."""
        if all(answer for _call, answer in self._pairs()):
            self._close_calls()
        place = len(self._history) - 1 if self._asking else len(self._history)
        self._history.insert(place, message)

    # -- from a checkpoint on

    def checkpoint_facts(self) -> CheckpointFacts:
        """What a checkpoint must hold besides the messages that it retains, so that a fold can start there."""
        snapshot: JsonObject = msgspec.to_builtins(self._snapshot())
        return CheckpointFacts(self._memory.as_json(), self._runtime.as_json(), {FACTS_KEY: snapshot})

    def _snapshot(self) -> FoldSnapshot:
        return FoldSnapshot(
            messages=self._messages_before + len(self._history) + len(self._pairs()),
            run_id=self._run_id,
            run_step=self._run_step,
            world=self._world,
            ended=self._ended,
            answer=self._answer,
            answered_step=self._answered_step,
            runs=self._runs,
            steps=self._steps,
            files_changed=list(self._files_changed),
            opened=self._opened,
            acted_boot_id=self._acted_boot_id,
            name=self._name,
            recorded_damage=list(self._recorded_damage.values()),
            told_damage=sorted(self._told_damage),
            queued=self._queued,
            open_actions=list(self._ledger.uncertain()),
            arguments={a.action_id: self._arguments.get(a.action_id, "") for a in self._ledger.uncertain()},
        )

    def restore(self, snapshot: FoldSnapshot, event: TranscriptEvent, checkpoint: CheckpointPayload) -> None:
        """Take in a checkpoint after the messages that it retains: all else that is known comes from its snapshot."""
        self._last_seq, self._last_timestamp = event.seq, event.timestamp
        self._run_id, self._run_step = snapshot.run_id, max(snapshot.run_step, event.step)
        self._world, self._ended = snapshot.world, snapshot.ended
        self._answer, self._answered_step = snapshot.answer, snapshot.answered_step
        self._runs, self._steps = snapshot.runs, snapshot.steps
        self._files_changed = dict.fromkeys(snapshot.files_changed)
        self._opened, self._acted_boot_id, self._name = snapshot.opened, snapshot.acted_boot_id, snapshot.name
        self._recorded_damage = {damage.key: damage for damage in snapshot.recorded_damage}
        self._told_damage, self._queued = set(snapshot.told_damage), dict(snapshot.queued)
        self._runtime = RuntimeFacts.from_json(self._blobs.resolved(checkpoint.runtime_state))
        self._memory.restore(self._blobs.resolved(checkpoint.session_memory))
        self._ledger.reopen(snapshot.open_actions)
        self._arguments.update(snapshot.arguments)
        self._close_calls()
        self._messages_before = snapshot.messages - len(self._history)
        self._compacted(checkpoint)

    def _close_calls(self) -> None:
        """The next message begins: every call gets its one answer, in call order."""
        for call, answer in self._pairs():
            self._history.append(answer or self._substitute(call))
        self._asking, self._answers = None, {}

    def _pairs(self) -> Sequence[tuple[ToolCall, HistoryMessage | None]]:
        """The calls with their answers. Answers are written in call order: one missing before another is lost."""
        calls = self._asking.tool_calls if self._asking else ()
        answers = [self._answers.get(call.id) for call in calls]
        last = max((index for index, answer in enumerate(answers) if answer), default=0)
        lost = [self._substitute(call) if index < last else None for index, call in enumerate(calls)]
        return [(call, answer or instead) for call, answer, instead in zip(calls, answers, lost, strict=True)]

    def _substitute(self, call: ToolCall) -> HistoryMessage:
        """What stands for a tool message that the file does not hold, though later messages are there."""
        action = self._ledger.of_call(self._asked_at[0], call)
        images = action.images if action else ()
        if action is None or (action.started_at is None and action.outcome is None):
            text = NOT_RUN_TEXT
        elif action.outcome is None:
            text = UNKNOWN_TEXT
        else:
            text = self._text(action.result, None)
        seq = self._asking.seq if self._asking else 0
        return HistoryMessage("tool", text, (), call.id, metadata={"recovered": True}, seq=seq, images=images)

    # -- the rest

    def _transition(self, event: TranscriptEvent, payload: TransitionPayload) -> None:
        details = self._blobs.resolved(payload.details)
        match payload.reason:
            case Reason.SESSION_OPENED:
                self._opened = details
                self._name = str(details["name"]) if details.get("name") else self._name
                if "directories" in details:  # every opening names all of them
                    self._runtime.directories = [str(one) for one in list_in(details, "directories")]
            case Reason.SESSION_NAMED:
                self._name = str(details.get("name") or "") or None
            case Reason.FORKED:
                runtime = details.get("runtime_state")
                self._runtime = RuntimeFacts.from_json(runtime if isinstance(runtime, dict) else {})
            case Reason.RUN_STARTED:
                self._world = details
            case Reason.INPUT_QUEUED:
                self._queued[str(details.get("queue_id"))] = self._text(text_in(payload.details, "text"), event)
            case Reason.USER_INPUT:
                self._ended = None  # `continue`: the run goes on behind its terminal record
                self._acted_boot_id = str(self._opened.get("boot_id", ""))
                self._queued.pop(str(details.get("dropped")), None)
            case Reason.TRANSCRIPT_REPAIRED | Reason.TRANSCRIPT_GAP:
                self._found_before(details)
            case Reason.RECOVERY_DECIDED:
                self._ledger.decide(details)
            case _:
                pass

    def _found_before(self, details: JsonObject) -> None:
        for found in list_in(details, "damage"):
            try:
                damage = msgspec.convert(found, Damage)
            except msgspec.ValidationError:  # of another version
                continue
            self._recorded_damage[damage.key] = damage

    def _lifecycle(self, event: TranscriptEvent, payload: LifecyclePayload) -> None:
        action = self._ledger.ingest(event, payload)
        if payload.status == ToolStatus.REQUESTED and self._asking:
            for call in self._asking.tool_calls:
                if call.id == payload.tool_call_id and isinstance(call.arguments, str):
                    self._arguments[action.action_id] = call.arguments
        if payload.permission and payload.permission.get("answer") == "always":
            self._runtime.grants.append(str(self._blobs.resolved(payload.permission).get("rule")))
        for state in payload.file_states:
            path = str(state.get("path"))
            self._runtime.remember_read(state)
            if not payload.replay_safe and payload.status == ToolStatus.COMPLETED:
                self._files_changed[path] = None
        if payload.cwd is not None:
            self._runtime.cwd = payload.cwd
        if payload.status == ToolStatus.COMPLETED:
            self._todos(action)
        if payload.background is not None:
            self._background(action, payload.background)
        if action.outcome is not None:
            self._arguments.pop(action.action_id, None)

    def _todos(self, action: ActionFacts) -> None:
        """A todo list is the arguments of the last completed call that had one."""
        arguments = self._arguments.get(action.action_id)
        if arguments is None or '"todos"' not in arguments:
            return
        found = _json_object(arguments).get("todos")
        if isinstance(found, list):
            self._runtime.todos = [todo for todo in found if isinstance(todo, dict)]

    def _background(self, action: ActionFacts, found: JsonObject) -> None:
        """A command runs on in the background, or the model was told that it has come to its end there."""
        bash_id = str(found.get("bash_id"))
        if found.get("ended"):
            self._runtime.background.pop(bash_id, None)
            return
        command = str(_json_object(self._arguments.get(action.action_id, "")).get("command", ""))
        facts = {"action_id": action.action_id, "command": command[:BACKGROUND_CHARACTERS_MAX]}
        self._runtime.background[bash_id] = {**found, **facts}
        if number := _BASH_NUMBER.fullmatch(bash_id):
            self._runtime.background_count = max(self._runtime.background_count, int(number[1]))

    def _compacted(self, payload: CheckpointPayload) -> None:
        self._close_calls()
        kept = [message for message in self._history if message.seq >= payload.retain_start_seq]
        while kept and kept[0].role == "tool":  # a result whose request is left out would make a request invalid
            del kept[0]
        self._messages_before += len(self._history) - len(kept)
        self._history = kept
        self._checkpoint = CompactCheckpoint(
            payload.checkpoint_id,
            self._blobs.text(payload.summary),
            payload.retain_start_seq,
            payload.messages_compacted,
        )

    def _text(self, text: Text | None, event: TranscriptEvent | None) -> str:
        if isinstance(text, BlobRef) and self._blobs.get(text.blob) is None:
            self._blob_is_missing("text", text.blob, text.bytes, event)
        return self._blobs.text(text)

    def _images(self, images: tuple[ImageRef, ...], event: TranscriptEvent) -> tuple[ImageRef, ...]:
        for image in images:
            if not self._blobs.has(image.blob):
                self._blob_is_missing("image", image.blob, image.bytes, event)
        return images

    def _blob_is_missing(self, what: str, name: str, size: int, event: TranscriptEvent | None) -> None:
        seq = event.seq if event else 0
        text = f"the {what} {name[:12]} of record {seq} is missing"
        self._missing_blobs.append(Damage(DamageKind.BLOB_MISSING, 0, seq, size, text=text))

    # -- the end

    def state(self, files: SessionFiles, reader: TranscriptReader) -> ResumeState:
        missing = self._missing_results()
        found = [*reader.damage, *self._missing_blobs]
        keys = {damage.key for damage in found}
        before = [damage for key, damage in self._recorded_damage.items() if key not in keys]
        return ResumeState(
            session_id=files.session_id,
            history_messages=(*self._history, *(answer for _call, answer in self._pairs() if answer)),
            messages_before=self._messages_before,
            checkpoint=self._checkpoint,
            run=self._run(),
            runs=self._runs,
            steps=self._steps,
            runtime_state=self._runtime,
            uncertain_actions=tuple(self._uncertain(action) for action in self._ledger.uncertain()),
            missing_results=missing,
            files_changed=tuple(self._files_changed),
            opened=self._opened,
            acted_boot_id=self._acted_boot_id,
            name=self._name,
            memory=self._memory,
            damage=tuple(sorted([*before, *found], key=lambda damage: damage.offset)),
            recorded_damage=frozenset(self._recorded_damage),
            told_damage=frozenset(self._told_damage),
            draft=self._draft(files),
            queued_inputs=dict(self._queued),
            last_seq=self._last_seq,
            last_timestamp=self._last_timestamp,
            ending=Ending.of(reader),
        )

    def _missing_results(self) -> tuple[MissingResult, ...]:
        run_id, step = self._asked_at
        return tuple(
            MissingResult(call, run_id, step, self._ledger.of_call(run_id, call))
            for call, answer in self._pairs()
            if answer is None
        )

    def _run(self) -> RunFacts | None:
        if not self._run_id:
            return None
        return RunFacts(self._run_id, self._run_step, self._world, self._ended, self._answer)

    def _uncertain(self, action: ActionFacts) -> UncertainAction:
        return UncertainAction(
            tool_name=action.tool_name,
            tool_call_id=action.tool_call_id,
            action_id=action.action_id,
            run_id=action.run_id,
            step=action.step,
            started_at=action.started_at or "",
            payload=action.intent,
            arguments=self._arguments.get(action.action_id),
            replay_allowed=action.replay_safe,
        )

    def _draft(self, files: SessionFiles) -> Draft | None:
        """The draft, unless its answer has a record: the crash then came between the record and its emptying."""
        draft = read_draft(files.draft)
        if draft is None or draft.run_id != self._run_id or draft.step <= self._answered_step:
            return None
        return draft


def _json_object(text: str) -> JsonObject:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
