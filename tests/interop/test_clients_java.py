"""The official Java clients 4.9.8 and 5.3.3, the latter with both header codecs, against the server under test."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from pymq.client.admin import Admin
from pymq.client.admin.traces import Traces
from pymq.model.trace import SUCCESS, TraceKind
from tests.interop.conftest import Broker, RunClient
from tests.interop.support.maven import compiled
from tests.interop.support.programs import ProgramRun
from tests.interop.support.tools import require

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
]


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: variant.name)
def java_run(request: pytest.FixtureRequest, run_client: RunClient) -> ProgramRun:
    variant: Variant = request.param
    (java,) = require("java")
    classes = compiled("client", variant.artifact_set)
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    flags += ["-Duser.home={directory}", "-Drocketmq.client.logRoot={directory}/logs", *variant.flags]
    return run_client(variant.name, [java, *flags, "-cp", classes, "interop.Main"], SCENARIOS, {})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(java_run: ProgramRun, server: Broker, scenario: str) -> None:
    java_run.check(scenario)


def test_pymq_reads_the_traces_of_java(java_run: ProgramRun, server: Broker) -> None:
    java_run.check("trace")
    message_id = java_run.output.results["trace"].detail

    async def read() -> Traces:
        async with Admin(server.namesrv) as admin:
            return await admin.traces.of_message(message_id)

    traces = asyncio.run(read())
    assert traces.problems == []
    by_kind = {one.record.kind: one.record for one in traces.found}
    assert by_kind.keys() == {TraceKind.PUBLISHED, TraceKind.DELIVERED, TraceKind.CONSUMED}
    published, consumed = by_kind[TraceKind.PUBLISHED], by_kind[TraceKind.CONSUMED]
    assert (published.tags, published.keys, published.success) == ("TagA", "trace-key", True)
    assert published.offset_message_id and published.body_length == len("follow me")
    assert (consumed.success, consumed.context_code) == (True, SUCCESS)
    assert consumed.request_id == by_kind[TraceKind.DELIVERED].request_id
