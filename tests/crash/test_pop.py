"""Popped messages and crashes: each message is acknowledged or comes again."""

from __future__ import annotations

import pytest

from tests.crash.pop_runs import OrderedRun, PriorityRun, run


@pytest.mark.parametrize("seed", range(6))
def test_after_kills_each_message_is_acknowledged_once_or_comes_again_in_time(seed: int) -> None:
    run(seed, loses_power=False)


@pytest.mark.parametrize("seed", range(6))
def test_after_power_losses_no_message_is_lost(seed: int) -> None:
    run(seed, loses_power=True)


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_after_crashes_ordered_queues_skip_nothing(seed: int, loses_power: bool) -> None:
    run(seed, loses_power=loses_power, kind=OrderedRun)


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_after_crashes_no_queue_of_a_retry_topic_is_lost(seed: int, loses_power: bool) -> None:
    run(seed, loses_power=loses_power, kind=PriorityRun)
