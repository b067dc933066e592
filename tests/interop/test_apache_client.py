"""Every scenario of PyMQ's client library against a real Apache RocketMQ 5.3.3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.client.loop_scenarios import LOOP_SCENARIOS
from tests.client.pop_scenarios import POP_SCENARIOS
from tests.client.scenarios import SCENARIOS
from tests.client.sending_scenarios import SENDING_SCENARIOS
from tests.client.way_scenarios import WAY_SCENARIOS
from tests.interop.support.apache import ApacheServer


@pytest.mark.parametrize(
    "scenario",
    [*SCENARIOS, *POP_SCENARIOS, *LOOP_SCENARIOS, *SENDING_SCENARIOS, *WAY_SCENARIOS],
    ids=lambda scenario: scenario.__name__,
)
def test_scenario(
    scenario: Callable[[str, Path], Coroutine[Any, Any, None]], apache: ApacheServer, tmp_path: Path
) -> None:
    asyncio.run(scenario(apache.namesrv, tmp_path))
