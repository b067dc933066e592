"""Formats points in time for listings."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache


def local_time(timestamp_ms: int | None) -> str:
    """Format Unix ms as ``2026-01-31 12:00:00.123`` in local time; ``-`` for 0 and None."""
    if not timestamp_ms or timestamp_ms < 0:
        return "-"
    day, time, _ = _parts_of_second(timestamp_ms // 1000)
    return f"{day} {time}.{timestamp_ms % 1000:03d}"


def iso_time(timestamp_ms: int) -> str:
    """Format Unix ms as ``2026-01-31T12:00:00.123+02:00``."""
    day, time, zone = _parts_of_second(timestamp_ms // 1000)
    return f"{day}T{time}.{timestamp_ms % 1000:03d}{zone}"


@lru_cache(maxsize=1024)
def _parts_of_second(timestamp_s: int) -> tuple[str, str, str]:
    """Return day, time and zone. Cached: many messages share a second, and finding the local zone is slow."""
    try:
        text = datetime.fromtimestamp(timestamp_s).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):  # a client may send any number as a time
        return f"@{timestamp_s}", "", ""
    return text[:10], text[11:19], text[19:]
