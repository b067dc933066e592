"""Times as listings show them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pymq.operations import times


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        times._parts_of_second.cache_clear()
        yield
    time.tzset()
    times._parts_of_second.cache_clear()


def test_local_time() -> None:
    assert times.local_time(1_700_000_000_007) == "2023-11-14 23:13:20.007"
    assert times.local_time(1_690_000_000_000) == "2023-07-22 06:26:40.000"


@pytest.mark.parametrize("nothing", [None, 0, -1])
def test_no_time(nothing: int | None) -> None:
    assert times.local_time(nothing) == "-"


def test_iso_time_has_the_zone() -> None:
    assert times.iso_time(1_700_000_000_007) == "2023-11-14T23:13:20.007+01:00"
    assert times.iso_time(1_690_000_000_000) == "2023-07-22T06:26:40.000+02:00"


@pytest.mark.parametrize("absurd", [2**62, -(2**62)])
def test_times_out_of_range_are_still_shown(absurd: int) -> None:
    assert str(absurd // 1000) in times.iso_time(absurd)
