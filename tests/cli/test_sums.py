"""Commands and the exporter ask for sums; they make them for brokers that send queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client.admin import Admin
from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.groups import GroupAdmin
from pymq.clock import SystemClock
from pymq.errors import EXIT_OK
from pymq.operations.facts import BrokerFacts, FactsCollector
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.headers.admin import ConsumerConnectionsHeader, ConsumeStatsHeader, StatsDataHeader, TopicStatsHeader
from tests.cli.conftest import Pymq

TOPIC, GROUP = "summed-up", "summing"


def figures(pymq: Pymq, server: StandaloneProcess) -> dict[str, Any]:
    """Returns what each of them shows of the group's place."""

    async def collect() -> BrokerFacts:
        async with Admin(server.namesrv) as admin:
            facts = await FactsCollector(admin, SystemClock(), with_stats=True).collect()
        assert (facts.error, facts.failures) == ("", 0)
        return facts.brokers[0]

    broker = asyncio.run(collect())
    [shown] = [row for row in pymq("top", "--once", "-d", "0.1", "-o", "json").json()["groups"] if row["name"] == GROUP]
    checked = pymq("check", "lag", "-w", "0,1ms", "-o", "json").json()["figures"]
    _, got = pymq("stats", TOPIC, "-o", "json").json()
    [listed] = [row for row in pymq("group", "list", "-o", "json").json() if row["group"] == GROUP]
    [lag] = [row for row in pymq("group", "lag", "-o", "json").json() if row["group"] == GROUP]
    return {
        "exported": broker.places[GROUP, TOPIC][:3],
        "exported has an age": broker.places[GROUP, TOPIC].age_ms > 0,
        "exported sends": broker.stats["TOPIC_PUT_NUMS", TOPIC].stats_day.sum,
        "exported pulls": broker.stats["GROUP_GET_NUMS", f"{TOPIC}@{GROUP}"].stats_day.sum,
        "top": (shown["lag"], shown["topics"], shown["behind_ms"] > 0),
        "check": [(one["label"], one["value"] > 0) for one in checked if one["label"].startswith(GROUP)],
        "checked lag": [one["value"] for one in checked if one["label"] == GROUP],
        "stats": (got["day"], got["lag"]),
        "group list": (listed["lag"], listed["members"]),
        "group lag": (lag["lag"], lag["lag_ms"] > 0),
    }


def test_sums_and_tables_of_queues_give_the_same_figures(
    pymq: Pymq, server: StandaloneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ's brokers ignore the fields that ask for sums: without these fields PyMQ's answers as they do."""
    pymq("send", TOPIC, stdin="one\ntwo\nthree\n")
    reading = ("tail", TOPIC, "--group", GROUP, "--create-group", "--commit", "--from", "start", "-F")
    assert pymq(*reading).code == EXIT_OK
    pymq("send", TOPIC, stdin="four\nfive\n")
    for method in (BrokerAdmin.consume_stats, GroupAdmin.places_at, GroupAdmin.lag):
        monkeypatch.setattr(f"{method.__module__}.{method.__qualname__}", None)  # they ask for queues
    by_sums = figures(pymq, server)
    assert by_sums == {
        "exported": (5, 3, 3),
        "exported has an age": True,
        "exported sends": 5,
        "exported pulls": 3,
        "top": (2, 1, True),
        "check": [(GROUP, True), (f"{GROUP} time", True)],
        "checked lag": [2],
        "stats": (3, 2),
        "group list": (2, 0),
        "group lag": (2, True),
    }

    def plain(consumer_group: str, **_: Any) -> ConsumeStatsHeader:
        return ConsumeStatsHeader(consumer_group=consumer_group)

    def plain_statistic(stats_name: str, stats_key: str, **_: Any) -> StatsDataHeader:
        return StatsDataHeader(stats_name=stats_name, stats_key=stats_key)

    def plain_topic(topic: str, **_: Any) -> TopicStatsHeader:
        return TopicStatsHeader(topic=topic)

    def plain_members(consumer_group: str, **_: Any) -> ConsumerConnectionsHeader:
        return ConsumerConnectionsHeader(consumer_group=consumer_group)

    for module in ("groups", "rows"):
        monkeypatch.setattr(f"pymq.client.admin.{module}.ConsumeStatsHeader", plain)
    monkeypatch.setattr("pymq.client.admin.rows.TopicStatsHeader", plain_topic)
    monkeypatch.setattr("pymq.client.admin.rows.ConsumerConnectionsHeader", plain_members)
    monkeypatch.setattr("pymq.client.admin.brokers.StatsDataHeader", plain_statistic)
    assert figures(pymq, server) == by_sums
