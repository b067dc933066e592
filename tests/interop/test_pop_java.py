"""Pop consumption with the official Java client 5.3.3: its calls, and its push consumer with broker-side assignment."""

from __future__ import annotations

import pytest

from tests.interop.conftest import Broker, RunClient
from tests.interop.support.maven import compiled
from tests.interop.support.programs import ProgramRun
from tests.interop.support.tools import require

SCENARIOS = ["pop_api", "pop_push"]


@pytest.fixture(scope="module")
def java_run(run_client: RunClient) -> ProgramRun:
    (java,) = require("java")
    classes = compiled("pop", "client-5.3.3")
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    flags += ["-Duser.home={directory}", "-Drocketmq.client.logRoot={directory}/logs"]
    return run_client("java-5.3.3-pop", [java, *flags, "-cp", classes, "interop.PopMain"], SCENARIOS, {})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(java_run: ProgramRun, server: Broker, scenario: str) -> None:
    java_run.check(scenario)
