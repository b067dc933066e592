"""Times of bodies as Spark has them: microseconds, in the years 1 to 9999."""

from __future__ import annotations

from typing import Final

from pymq.spark.bodies.body_format import BadBodyError

TIME_MIN_US: Final = -62_135_596_800_000_000
TIME_MAX_US: Final = 253_402_300_799_999_999
DATE_MIN_DAYS: Final = -719_162
DATE_MAX_DAYS: Final = 2_932_896
_OUTSIDE = "is outside the years 1 to 9999"


def checked_us(time_us: int) -> int:
    """Return the time. Raises BadBodyError for one that Spark can't show."""
    if not TIME_MIN_US <= time_us <= TIME_MAX_US:
        raise BadBodyError(f"the time {time_us} µs {_OUTSIDE}")
    return time_us


def from_ms(time_ms: int) -> int:
    """Return ms as µs. Raises BadBodyError, as :func:`checked_us`."""
    return checked_us(time_ms * 1000)


def from_ns(time_ns: int) -> int:
    """Return ns as µs, without the rest. Raises BadBodyError, as :func:`checked_us`."""
    return checked_us(time_ns // 1000)


def checked_days(days: int) -> int:
    """Return a date, in days since 1970. Raises BadBodyError for one that Spark can't show."""
    if not DATE_MIN_DAYS <= days <= DATE_MAX_DAYS:
        raise BadBodyError(f"the date of day {days} {_OUTSIDE}")
    return days
