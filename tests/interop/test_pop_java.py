"""Pop consumption with the official Java clients: their calls, and their push consumers with broker-side assignment."""

from __future__ import annotations

import pytest

from tests.interop.conftest import Broker, RunClient
from tests.interop.support.maven import compiled
from tests.interop.support.programs import ProgramRun
from tests.interop.support.tools import own_places, require

SCENARIOS = ["pop_api", "pop_push"]
BINARY_SCENARIOS = ["pop_push"]
VERSIONS = ["5.3.3", "5.5.0"]


def _run(run_client: RunClient, version: str, name: str, scenarios: list[str], *more: str) -> ProgramRun:
    (java,) = require("java")
    classes = compiled("pop", f"client-{version}")
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", *more]
    flags += [*own_places("{directory}"), "-Drocketmq.client.logRoot={directory}/logs"]
    return run_client(f"java-{version}-{name}", [java, *flags, "-cp", classes, "interop.PopMain"], scenarios, {})


@pytest.fixture(scope="module", params=VERSIONS)
def java_run(request: pytest.FixtureRequest, run_client: RunClient) -> ProgramRun:
    return _run(run_client, request.param, "pop", SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(java_run: ProgramRun, server: Broker, scenario: str) -> None:
    java_run.check(scenario)


@pytest.fixture(scope="module", params=VERSIONS)
def binary_run(request: pytest.FixtureRequest, run_client: RunClient, server: Broker) -> ProgramRun:
    if server.kind != "pymq":
        pytest.skip("RocketMQ's broker refuses the codes of pops, which a binary header cuts")
    return _run(run_client, request.param, "pop-binary", BINARY_SCENARIOS, "-Drocketmq.serialize.type=ROCKETMQ")


@pytest.mark.parametrize("scenario", [f"binary-{each}" for each in BINARY_SCENARIOS])
def test_scenario_with_binary_headers(binary_run: ProgramRun, scenario: str) -> None:
    binary_run.check(scenario.removeprefix("binary-"))
