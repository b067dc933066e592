"""Popped messages and crashes: each message is acknowledged or comes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.crash import lite_runs
from tests.crash.pop_runs import OrderedRun, PriorityRun, run

LITE_SEEDS = 6


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


@pytest.mark.parametrize("loses_power", [False, True])
def test_after_crashes_lite_topics_skip_nothing_and_expire_read(
    loses_power: bool, tell: Callable[[object], None]
) -> None:
    done: Counter[str] = Counter()
    for seed in range(LITE_SEEDS):
        done += lite_runs.run(seed, loses_power=loses_power)
    assert done["dead letters"] and done["lite topics expired"]
    tell(", ".join(f"{count:,} {what}" for what, count in done.most_common()))
