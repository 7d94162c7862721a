"""Records without a checksum: the article's form, and what the original program writes (`schema_version` 1).

Both are read as they are and never rewritten. What differs from our records is translated here, so that nothing behind
this module knows of two forms.
"""

from __future__ import annotations

import json

import msgspec

from memory.codec import Undecodable, cleaned
from memory.events import EventType, JsonObject, TranscriptEvent

_encode = msgspec.json.Encoder().encode


def decode_foreign(line: bytes, ordinal: int) -> TranscriptEvent:
    """A line without a checksum as a record. `ordinal` stands in for a missing `seq`.

    Raises:
        Undecodable: it is no JSON object with an event type and a payload.
    """
    try:
        found = cleaned(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise Undecodable(str(error)) from error
    if not isinstance(found, dict) or not isinstance(found.get("payload"), dict):
        raise Undecodable("no object with a payload")
    kind, run_id = found.get("event_type"), found.get("run_id")
    if not isinstance(kind, str):
        raise Undecodable("no event type")
    step, seq = found.get("step"), found.get("seq")
    return TranscriptEvent(
        event_id=str(found.get("event_id") or f"evt-line-{ordinal}"),
        timestamp=str(found.get("timestamp") or ""),
        session_id=str(found.get("session_id") or ""),
        run_id=run_id if isinstance(run_id, str) else "run-1",  # "" in a record that belongs to no run
        step=step if isinstance(step, int) else 0,
        event_type=kind,
        payload=msgspec.Raw(_encode(_translated(kind, found["payload"]))),
        schema_version=1,
        seq=seq if isinstance(seq, int) else ordinal,
    )


def _translated(kind: str, payload: JsonObject) -> JsonObject:
    if kind == EventType.MESSAGE:
        return _message(payload)
    if kind == EventType.TOOL_LIFECYCLE and not isinstance(payload.get("result"), str | None):
        return {**payload, "result": _result_text(payload["result"])}
    return payload


def _message(payload: JsonObject) -> JsonObject:
    """The original keeps calls, and the id that a result answers, in the metadata."""
    metadata = payload.get("metadata")
    if not isinstance(metadata, dict):
        return {**payload, "metadata": {}}
    lifted = {key: metadata[key] for key in ("tool_calls", "tool_call_id") if key in metadata and key not in payload}
    calls = lifted.get("tool_calls")
    if isinstance(calls, list):
        lifted["tool_calls"] = [_call(call) for call in calls if isinstance(call, dict)]
    return {**payload, **lifted, "metadata": {k: v for k, v in metadata.items() if k not in lifted}}


def _call(call: JsonObject) -> JsonObject:
    arguments = call.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": str(call.get("id", "")), "name": str(call.get("name", "")), "arguments": text}


def _result_text(result: object) -> str:
    return json.dumps(result, ensure_ascii=False)
