"""Sizes, durations and times as people write them; a slip is answered with what to write instead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import EXIT_USAGE, UsageError
from pymq.units import (
    format_bytes,
    format_count,
    format_duration_ms,
    parse_duration_ms,
    parse_size_bytes,
    parse_time_ms,
)

NOW_MS = 1_767_225_600_000


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1073741824", 1 << 30),
        ("4MB", 4 << 20),
        ("4m", 4 << 20),
        (" 1.5 KiB ", 1536),
        ("2GiB", 2 << 30),
        ("1T", 1 << 40),
        ("7B", 7),
        ("0.1KB", 102),
        ("9007199254740993", 2**53 + 1),
        ("999999999999999999", 10**18 - 1),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("15", 15),
        ("15ms", 15),
        ("1.001s", 1001),
        ("15m", 900_000),
        ("1.5H", 5_400_000),
        (" 3 d ", 259_200_000),
        ("0.9ms", 0),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


SLIPS = ["", " ", "x", "-1", "+1", "1e3", "1,5", ".5", "5.", "1 2", "0x10", "٣", "²", "1_000", "NaN", "inf", "9" * 19]


@pytest.mark.parametrize("text", [*SLIPS, "5PB", "5s", "5iB5", "9" * 5000])
def test_an_invalid_size_names_the_allowed_forms(text: str) -> None:
    with pytest.raises(
        UsageError, match="is not a size: write a number and B, KB, MB, GB or TB, for example 64MB"
    ) as slip:
        parse_size_bytes(text)
    assert repr(text) in str(slip.value) and slip.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("text", [*SLIPS, "5w", "5min", "5MB", "9" * 5000])
def test_an_invalid_duration_names_the_allowed_forms(text: str) -> None:
    with pytest.raises(
        UsageError, match="is not a duration: write a number and ms, s, m, h or d, for example 15m"
    ) as slip:
        parse_duration_ms(text)
    assert repr(text) in str(slip.value)


@given(st.integers(0, 10**15))
def test_whole_milliseconds_are_exact_in_seconds(duration_ms: int) -> None:
    assert parse_duration_ms(f"{duration_ms // 1000}.{duration_ms % 1000:03d}s") == duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        (" now ", NOW_MS),
        ("-15m", NOW_MS - 900_000),
        ("-0", NOW_MS),
        ("- 1d", NOW_MS - 86_400_000),
        ("0", 0),
        ("1767225600", NOW_MS),
        ("1767225600000", NOW_MS),
        ("99999999999", 99_999_999_999_000),
        ("100000000000", 100_000_000_000),
        ("2026-01-01T00:00Z", NOW_MS),
        ("2026-01-01T02:00:00.007+02:00", NOW_MS + 7),
        ("2026-01-01 00:00:00.0079+00:00", NOW_MS + 7),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_points_in_time(text: str, expected: int) -> None:
    assert parse_time_ms(text, NOW_MS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01", NOW_MS + 5 * 3_600_000),
        ("2025-12-31T19:00", NOW_MS),
        ("2026-07-01T00:00:00", 1_782_878_400_000),  # daylight saving
        ("2026-07-01T00:00:00Z", 1_782_864_000_000),
    ],
)
def test_a_time_without_a_zone_is_local(text: str, expected: int, new_york: None) -> None:
    assert parse_time_ms(text, NOW_MS) == expected


@given(st.datetimes(timezones=st.timezones()), st.integers(0, 999))
def test_milliseconds_of_iso_times_are_exact(moment: Any, ms: int) -> None:
    from datetime import UTC, datetime

    try:
        moment = moment.replace(microsecond=ms * 1000).astimezone(UTC)
    except OverflowError:
        return
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_time_ms(moment.isoformat(), 0) == expected
    assert expected % 1000 == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01",
        "2026-01-01T25:00",
        "²",
        "٣",
        "9" * 19,
        "9" * 5000,
        "0001-01-01T00:00+14:00",
        "+5m",
    ],
)
def test_an_invalid_point_in_time_names_the_allowed_forms(text: str) -> None:
    with pytest.raises(
        UsageError, match="is not a point in time: write -15m, now, epoch milliseconds, or 2026-01-31T12:00"
    ):
        parse_time_ms(text, NOW_MS)


@pytest.mark.parametrize("text", ["-", "--5m", "-5x", "-now"])
def test_an_invalid_time_ago_names_the_allowed_forms(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration: write a number and ms, s, m, h or d"):
        parse_time_ms(text, NOW_MS)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (1536, "1.5 KB"),
        (1 << 20, "1.0 MB"),
        (-1536, "-1.5 KB"),
        (1 << 40, "1.0 TB"),
        (5 << 50, "5120.0 TB"),
    ],
)
def test_bytes_as_text(count: int, expected: str) -> None:
    assert format_bytes(count) == expected


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (1999, "1s"),
        (60_000, "1m"),
        (86_400_000, "1d"),
        (93_784_000, "1d 2h 3m 4s"),
        (3_601_000, "1h 1s"),
    ],
)
def test_durations_as_text(duration_ms: int, expected: str) -> None:
    assert format_duration_ms(duration_ms) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0 brokers"), (1, "1 broker"), (2, "2 brokers")])
def test_counts_as_text(count: int, expected: str) -> None:
    assert format_count(count, "broker") == expected


def test_a_time_without_a_zone_is_in_the_zone_that_was_given() -> None:
    two_hours_east = timezone(timedelta(hours=2))
    assert parse_time_ms("1970-01-01T02:00:01", 0, two_hours_east) == 1000
    assert parse_time_ms("1970-01-01T02:00:01Z", 0, two_hours_east) == 7_201_000
    assert parse_time_ms("-1s", 5000, two_hours_east) == 4000
