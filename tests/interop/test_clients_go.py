"""The official Go client (rocketmq-client-go v2) against the server under test."""

from __future__ import annotations

import pytest

from tests.interop.conftest import Broker, RunClient
from tests.interop.support.golang import built_program
from tests.interop.support.programs import ProgramRun
from tests.interop.support.traces import check_traces

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
    "transaction",
    "transaction_check",
    "request_reply",
    "trace",
    "timer",
]


@pytest.fixture(scope="module")
def go_run(run_client: RunClient) -> ProgramRun:
    # Broadcasting consumers keep their offsets below HOME.
    return run_client("go", [str(built_program())], SCENARIOS, {"HOME": "{directory}"}, known_retry_topic=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(go_run: ProgramRun, scenario: str) -> None:
    go_run.check(scenario)


def test_pymq_reads_the_traces_of_go(go_run: ProgramRun, server: Broker) -> None:
    go_run.check("trace")
    check_traces(server.namesrv, go_run.output.results["trace"].detail, "follow me")
