"""A long recovery logs its progress once a second; a short one logs nothing."""

from __future__ import annotations

import pytest

from pymq.broker.upkeep.recovery_progress import RecoveryProgress
from pymq.clock import ManualClock
from pymq.errors import StoppedError


def test_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    progress = RecoveryProgress(clock)
    for step in range(1, 26):
        clock.advance(100)
        progress(step << 20, 100 << 20)
    assert [record.getMessage() for record in caplog.records] == [
        "recovering the store: 10 %, 10.0 MB of 100.0 MB of the log read, 10.0 MB/s",
        "recovering the store: 20 %, 20.0 MB of 100.0 MB of the log read, 10.0 MB/s",
    ]


def test_an_empty_recovery_does_not_divide_by_zero(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    progress = RecoveryProgress(clock)
    clock.advance(2000)
    progress(0, 0)
    assert "0 %" in caplog.text


def test_a_stop_ends_the_recovery_at_its_next_step() -> None:
    asked = iter([False, True])
    progress = RecoveryProgress(ManualClock(), lambda: next(asked))
    progress(16 << 20, 48 << 20)
    with pytest.raises(StoppedError, match=r"32\.0 MB of 48\.0 MB"):
        progress(32 << 20, 48 << 20)
