"""What a checkpoint carries besides its messages, so that a load need not begin at the first record."""

from __future__ import annotations

import msgspec

from memory.blobs import BlobStore
from memory.calls import ActionFacts
from memory.events import CheckpointPayload, JsonObject
from memory.reader import Damage

KEY = "facts"  # in the metadata of a checkpoint


class FoldSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a fold right before a checkpoint, as far as older records decide it."""

    messages: int  # of the whole conversation so far
    run_id: str
    run_step: int
    world: JsonObject
    ended: str | None
    answer: str | None
    answered_step: int
    runs: int
    steps: int
    files_changed: list[str]
    opened: JsonObject
    acted_boot_id: str
    name: str | None
    recorded_damage: list[Damage]
    told_damage: list[tuple[str, int]]
    queued: dict[str, str]
    open_actions: list[ActionFacts]
    arguments: dict[str, str]  # of the open actions


class CheckpointFacts(msgspec.Struct, frozen=True):
    """The three parts of a checkpoint that a fold provides."""

    session_memory: JsonObject
    runtime_state: JsonObject
    metadata: JsonObject


def snapshot_in(checkpoint: CheckpointPayload, blobs: BlobStore) -> FoldSnapshot | None:
    """The snapshot of a checkpoint; None when it has none, or one of another version: the fold then begins earlier."""
    found = checkpoint.metadata.get(KEY)
    if checkpoint.retain_start_seq <= 0 or not isinstance(found, dict):
        return None
    try:
        return msgspec.convert(blobs.resolved(found), FoldSnapshot)
    except msgspec.ValidationError:
        return None
