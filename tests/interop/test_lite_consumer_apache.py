"""PyMQ's lite consumer on a real Apache RocketMQ 5.5.0, with the scenarios that PyMQ's own broker passes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.client.lite_scenarios import LITE_SCENARIOS
from tests.interop.support.apache import Apache55Server

SCENARIO_TIMEOUT_S = 120
Scenario = Callable[[str, Path], Awaitable[None]]


@pytest.fixture(scope="module")
def apache_55(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache55Server]:
    light = {"enableLmq": "true", "enableMultiDispatch": "true"}
    server = Apache55Server(tmp_path_factory.mktemp("lite-consumer"), light)
    yield server
    server.stop()


@pytest.mark.parametrize("scenario", LITE_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario(apache_55: Apache55Server, tmp_path: Path, scenario: Scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(apache_55.namesrv, tmp_path), SCENARIO_TIMEOUT_S))
