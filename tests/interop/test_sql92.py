"""SQL92 between the Java clients and PyMQ's broker, and between ``pymq tail`` and an Apache broker."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

from tests.interop.conftest import Broker, RunClient
from tests.interop.support import probe
from tests.interop.support.apache import ApacheServer
from tests.interop.support.maven import compiled
from tests.interop.support.programs import ProgramRun
from tests.interop.support.pymq_server import REPOSITORY
from tests.interop.support.tools import own_places, require

SCENARIOS = ["sql_push", "sql_lite_pull", "sql_pull", "sql_wrong"]
COMMAND_TIMEOUT_S = 180
UPDATE_BROKER_CONFIG = 25


@pytest.fixture(scope="module", params=["client-4.9.8", "client-5.3.3", "client-5.5.0"])
def java_run(request: pytest.FixtureRequest, run_client: RunClient) -> ProgramRun:
    (java,) = require("java")
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    flags += [*own_places("{directory}"), "-Drocketmq.client.logRoot={directory}/logs"]
    command = [java, *flags, "-cp", compiled("client", request.param), "interop.Main"]
    return run_client(f"sql-{request.param}", command, SCENARIOS, {})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_consumers(java_run: ProgramRun, server: Broker, scenario: str) -> None:
    java_run.check(scenario)


def pymq(namesrv: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pymq", *arguments, "--namesrv", namesrv]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)


def switch_sql(broker: str, value: str) -> None:
    reply = probe.call(broker, UPDATE_BROKER_CONFIG, body=f"enablePropertyFilter={value}\n".encode())
    assert reply.code == 0, reply.remark


def test_tail_by_sql_on_apache(apache: ApacheServer) -> None:
    topic = f"sql-{uuid.uuid4().hex[:8]}"
    probe.create_topic(apache.namesrv, apache.broker, topic)
    for size in range(4):
        assert pymq(apache.namesrv, "send", topic, f"m{size}", "--property", f"size={size}").returncode == 0
    probe.wait_for_messages(apache.broker, topic, 4)
    done = pymq(apache.namesrv, "tail", topic, "-F", "--from", "start", "--sql", "size > 0 AND size <> 2", "-o", "raw")
    assert sorted(done.stdout.split()) == ["m1", "m3"], done.stderr


def test_a_broker_with_sql_switched_off_is_named_with_its_setting(apache: ApacheServer) -> None:
    topic = f"sql-{uuid.uuid4().hex[:8]}"
    probe.create_topic(apache.namesrv, apache.broker, topic)
    assert pymq(apache.namesrv, "send", topic, "m").returncode == 0
    try:
        switch_sql(apache.broker, "false")
        done = pymq(apache.namesrv, "tail", topic, "-F", "--from", "start", "--sql", "size > 0")
    finally:
        switch_sql(apache.broker, "true")
    assert done.returncode == 5 and "set enablePropertyFilter=true in its broker.conf" in done.stderr
