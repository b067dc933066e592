"""Pop consumption with the official Java client 5.3.3: its calls, and its push consumer with broker-side assignment."""

from __future__ import annotations

import pytest

from tests.interop.conftest import Broker, RunClient
from tests.interop.support.maven import compiled
from tests.interop.support.programs import ProgramRun
from tests.interop.support.tools import own_places, require

SCENARIOS = ["pop_api", "pop_push"]
BINARY_SCENARIOS = ["pop_push"]


def _run(run_client: RunClient, name: str, scenarios: list[str], *more: str) -> ProgramRun:
    (java,) = require("java")
    classes = compiled("pop", "client-5.3.3")
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", *more]
    flags += [*own_places("{directory}"), "-Drocketmq.client.logRoot={directory}/logs"]
    return run_client(name, [java, *flags, "-cp", classes, "interop.PopMain"], scenarios, {})


@pytest.fixture(scope="module")
def java_run(run_client: RunClient) -> ProgramRun:
    return _run(run_client, "java-5.3.3-pop", SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(java_run: ProgramRun, server: Broker, scenario: str) -> None:
    java_run.check(scenario)


@pytest.fixture(scope="module")
def binary_run(run_client: RunClient, server: Broker) -> ProgramRun:
    if server.kind != "pymq":
        pytest.skip("RocketMQ's broker refuses the codes of pops, which a binary header cuts")
    return _run(run_client, "java-5.3.3-pop-binary", BINARY_SCENARIOS, "-Drocketmq.serialize.type=ROCKETMQ")


@pytest.mark.parametrize("scenario", [f"binary-{each}" for each in BINARY_SCENARIOS])
def test_scenario_with_binary_headers(binary_run: ProgramRun, scenario: str) -> None:
    binary_run.check(scenario.removeprefix("binary-"))
