"""The official Go client (rocketmq-client-go v2) against the server under test."""

from __future__ import annotations

import pytest

from tests.interop.conftest import RunClient
from tests.interop.support.golang import built_program
from tests.interop.support.programs import ProgramRun

SCENARIOS = [
    "sync_send",
    "async_send",
    "oneway",
    "batch",
    "selected_queue",
    "compressed",
    "non_ascii",
    "auto_create",
    "admin",
    "clustering",
    "broadcasting",
    "orderly",
    "tag_filter",
    "offsets_survive",
    "retry",
    "delay_level",
    "pull_from",
]


@pytest.fixture(scope="module")
def go_run(run_client: RunClient) -> ProgramRun:
    # Broadcasting consumers keep their offsets below HOME.
    return run_client("go", [str(built_program())], SCENARIOS, {"HOME": "{directory}"}, known_retry_topic=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(go_run: ProgramRun, scenario: str) -> None:
    go_run.check(scenario)
