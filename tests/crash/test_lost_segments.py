"""Every segment of every workload's log removed in turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.lost_segments import check_lost_segments
from tests.crash.workloads import workload

WORKLOADS = ("segment-roll", "retention", "batches", "recovery", "lost-segments", "special")


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_segment_is_removed(name: str, tell: Callable[[object], None]) -> None:
    count = check_lost_segments(workload(name))
    assert count
    tell(f"{count} losses")
