"""The official Java clients 4.9.8, 5.3.3 and 5.5.0 against the server under test, the newer ones with both codecs."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.interop.conftest import Broker, RunClient
from tests.interop.support.maven import compiled
from tests.interop.support.programs import ProgramRun
from tests.interop.support.tools import own_places, require
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
    "too_large",
    "clustering",
    "member_leaves",
    "broadcasting",
    "orderly",
    "tag_filter",
    "tag_hash_collision",
    "offsets_survive",
    "from_timestamp",
    "backlog_batches",
    "retry",
    "dead_letter",
    "delay_level",
    "pull_statuses",
    "long_poll",
    "lite_pull_subscribe",
    "lite_pull_assign",
    "inner_batch",
    "timer",
    "query_by_key",
    "view_by_id",
    "search_offset",
    "request_reply",
    "transaction",
    "transaction_check",
    "trace",
]


class Variant(NamedTuple):
    """One client version with its header codec."""

    name: str
    artifact_set: str
    flags: list[str]


VARIANTS = [
    Variant("java-4.9.8", "client-4.9.8", []),
    Variant("java-5.3.3", "client-5.3.3", []),
    Variant("java-5.3.3-binary", "client-5.3.3", ["-Drocketmq.serialize.type=ROCKETMQ"]),
    Variant("java-5.5.0", "client-5.5.0", []),
    Variant("java-5.5.0-binary", "client-5.5.0", ["-Drocketmq.serialize.type=ROCKETMQ"]),
]


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: variant.name)
def java_run(request: pytest.FixtureRequest, run_client: RunClient) -> ProgramRun:
    variant: Variant = request.param
    (java,) = require("java")
    classes = compiled("client", variant.artifact_set)
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    flags += [*own_places("{directory}"), "-Drocketmq.client.logRoot={directory}/logs", *variant.flags]
    return run_client(variant.name, [java, *flags, "-cp", classes, "interop.Main"], SCENARIOS, {})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(java_run: ProgramRun, server: Broker, scenario: str) -> None:
    java_run.check(scenario)


def test_pymq_reads_the_traces_of_java(java_run: ProgramRun, server: Broker) -> None:
    java_run.check("trace")
    check_traces(server.namesrv, java_run.output.results["trace"].detail, "follow me")
