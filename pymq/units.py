"""Parses and formats what settings and commands say: ``4MB``, ``3d``, ``-15m``, ``2026-01-31T12:00``, ``a:1;b:2``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal

from pymq.errors import UsageError

_SIZE_FACTORS = {
    "": 1,
    "B": 1,
    "K": 1024,
    "KB": 1024,
    "M": 1024**2,
    "MB": 1024**2,
    "G": 1024**3,
    "GB": 1024**3,
    "T": 1024**4,
    "TB": 1024**4,
}
MS_PER_DAY = 86_400_000
_DURATION_FACTORS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": MS_PER_DAY}
# A number with more than 18 digits is a typing error and not a size or a time.
_NUMBER_UNIT = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-zA-Z]*)\s*")
_EPOCH_NUMBER = re.compile(r"[0-9]{1,18}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_size_bytes(text: str) -> int:
    """Parse a size: ``"4MB"`` -> 4194304 (powers of 1024); a bare number is bytes. Raises UsageError."""
    match = _NUMBER_UNIT.fullmatch(text)
    factor = _SIZE_FACTORS.get(match.group(2).upper().replace("IB", "B")) if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not a size: write a number and B, KB, MB, GB or TB, for example 64MB")
    return _scaled(match.group(1), factor)


def parse_duration_ms(text: str) -> int:
    """Parse a duration: ``"3d"`` -> 259200000; units ms, s, m, h, d; a bare number is ms. Raises UsageError."""
    match = _NUMBER_UNIT.fullmatch(text)
    factor = _DURATION_FACTORS_MS.get(match.group(2).lower() or "ms") if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not a duration: write a number and ms, s, m, h or d, for example 15m")
    return _scaled(match.group(1), factor)


def parse_time_ms(text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """Parse a point in time to Unix ms: ``-15m`` (before now), ``now``, epoch ms or s, or an ISO date and time.

    ISO text without a zone is in ``zone``, without that in local time. Raises UsageError.
    """
    value = text.strip()
    if value == "now":
        return now_ms
    if value.startswith("-"):
        return now_ms - parse_duration_ms(value[1:])
    if _EPOCH_NUMBER.fullmatch(value):
        number = int(value)
        return number if number >= 100_000_000_000 else number * 1000
    try:
        time = datetime.fromisoformat(value)
        if time.tzinfo is None and zone is not None:
            time = time.replace(tzinfo=zone)
        return (time.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a point in time: write -15m, now, epoch milliseconds, or 2026-01-31T12:00[:00][+02:00]"
        ) from None


def format_bytes(count: float) -> str:
    """Format a size: 1536 -> ``"1.5 KB"``."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def format_duration_ms(duration_ms: int) -> str:
    """Format a duration: 93784000 -> ``"1d 2h 3m 4s"``; below a second in ms."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    seconds = duration_ms // 1000
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts)


def format_count(count: int, noun: str) -> str:
    """Format a number of things: ``"1 broker"``, ``"2 brokers"``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _scaled(number: str, factor: int) -> int:
    """Multiply exactly, because floats would turn 1.001s into 1000 ms; drop fractions of a byte or millisecond."""
    return int(Decimal(number) * factor)


def split_name_servers(text: str) -> list[str]:
    """Return the places in a list of name servers: parts between semicolons, or commas, without blanks.

    RocketMQ writes semicolons. No address and no URL of an address server has either of them.
    """
    return [place for part in text.replace(",", ";").split(";") if (place := part.strip())]
