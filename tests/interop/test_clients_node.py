"""The Node client ali-ons (a 3.4.9-era dialect: old header, raw numbers in extFields) against the server under test."""

from __future__ import annotations

import pytest

from tests.interop.conftest import RunClient
from tests.interop.support.nodejs import SOURCES, modules_directory
from tests.interop.support.programs import ProgramRun
from tests.interop.support.tools import require

SCENARIOS = [
    "sync_send",
    "consume",
    "tag_filter",
    "clustering",
    "broadcasting",
    "retry",
    "delay_level",
    "compressed",
    "offsets_survive",
]


@pytest.fixture(scope="module")
def node_run(run_client: RunClient) -> ProgramRun:
    (node,) = require("node")
    env = {"INTEROP_MODULES": str(modules_directory()), "HOME": "{directory}"}
    return run_client("node", [node, str(SOURCES / "client.js")], SCENARIOS, env, known_retry_topic=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(node_run: ProgramRun, scenario: str) -> None:
    node_run.check(scenario)
