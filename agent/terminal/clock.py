"""Times as people read them."""

from __future__ import annotations

from datetime import datetime


def clock_time(timestamp: str | None) -> str:
    """A record's time as the user's clock shows it, with the date when that is not today's."""
    try:
        moment = datetime.fromisoformat(timestamp or "").astimezone()
    except ValueError:
        return timestamp or "at an unknown time"
    today = datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S") if moment.date() == today else moment.strftime("%Y-%m-%d %H:%M:%S")
