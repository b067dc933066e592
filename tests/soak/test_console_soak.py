"""A short soak of the console: ``scripts/soak --console`` runs it for hours, and counts what grows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.soak.console_soak import ConsolePlan, ConsoleSoak


@pytest.mark.slow
def test_all_that_people_do_goes_on_beside_lost_brokers(tmp_path: Path) -> None:
    plan = ConsolePlan(15, tails=4, pages_per_s=8, lost_every_s=6, sample_s=0.25, seed=3)
    result = asyncio.run(ConsoleSoak(tmp_path, plan).run())
    grown = [fault for fault in result.faults if "grew from" not in fault]  # caches fill in so short a time
    assert not grown, "\n".join([*result.lines(), *grown])
    assert result.done["pages"] > 40 and result.done["brokers lost"] and result.done["events"], result.lines()
    assert result.statuses[200] > result.statuses.total() // 3, result.lines()
