"""Timer messages and crashes: each is delivered when it is due, none early, and few twice."""

from __future__ import annotations

import pytest

from tests.crash.timer_runs import run


@pytest.mark.parametrize("seed", range(8))
def test_after_kills_each_timer_comes_once_due_and_none_that_was_recalled(seed: int) -> None:
    run(seed, loses_power=False)


@pytest.mark.parametrize("seed", range(6))
def test_after_power_losses_no_timer_that_was_on_the_disk_is_lost(seed: int) -> None:
    run(seed, loses_power=True)
