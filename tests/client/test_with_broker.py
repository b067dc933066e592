"""Every scenario of the client library against a PyMQ name server and broker in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.testing.standalone import StandaloneProcess
from tests.client.lite_scenarios import LITE_SCENARIOS, PYMQ_LITE_SCENARIOS
from tests.client.loop_scenarios import LOOP_SCENARIOS
from tests.client.pop_scenarios import POP_SCENARIOS
from tests.client.scenarios import SCENARIOS
from tests.client.sending_scenarios import SENDING_SCENARIOS
from tests.client.way_scenarios import WAY_SCENARIOS


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    checks_soon = {"transactionTimeOut": "200", "transactionCheckInterval": "300"}
    with StandaloneProcess(settings=checks_soon) as servers:
        yield servers.namesrv


@pytest.mark.parametrize(
    "scenario",
    [
        *SCENARIOS,
        *POP_SCENARIOS,
        *LITE_SCENARIOS,
        *PYMQ_LITE_SCENARIOS,
        *LOOP_SCENARIOS,
        *SENDING_SCENARIOS,
        *WAY_SCENARIOS,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_scenario(scenario: Any, namesrv: Any, tmp_path: Path) -> None:
    asyncio.run(scenario(namesrv, tmp_path))
