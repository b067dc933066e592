"""The same traffic through Apache's broker and PyMQ's: common metrics have the same name, type and labels."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pymq.broker.metrics.collector import BROKER_METRICS
from pymq.client import (
    ConsumeResult,
    Message,
    Producer,
    PushConsumer,
    StoredMessage,
    TransactionProducer,
    TransactionState,
)
from tests.client.scenarios import Inbox, make_topic, until
from tests.interop.support.apache import ApacheServer
from tests.interop.support.pymq_server import PymqServer
from tests.ports import free_port_block

GOOD, HOLDING = "good-group", "holding-group"
PLAIN_COUNT = 20
TIMEOUT_S = 120.0
# Labels that Apache's exporter adds.
OF_THE_EXPORTER = {"otel_scope_name"}
OURS = {metric.name: metric for metric in BROKER_METRICS if metric.name.startswith("rocketmq_")}


@dataclass
class Scraped:
    """One broker's scrape. ``types``: as declared; some names of Apache's lack the unit that the series have."""

    types: dict[str, str]
    labels: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    series: list[tuple[str, dict[str, str], float]] = field(default_factory=list)

    def type_of(self, name: str) -> str | None:
        return next(
            (self.types[each] for each in (name, re.sub("_(bytes|milliseconds)$", "", name)) if each in self.types),
            None,
        )

    def total(self, name: str, **labels: str) -> float:
        return sum(value for each, own, value in self.series if each == name and labels.items() <= own.items())


def scrape(url: str) -> Scraped:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    scraped = Scraped(dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            scraped.series.append((sample.name, sample.labels, sample.value))
            scraped.labels[sample.name] |= sample.labels.keys() - OF_THE_EXPORTER
    return scraped


@dataclass
class Subject:
    """A broker after the traffic, with its scrape and the topic used."""

    kind: str
    topic: str
    scraped: Scraped


class AsTold:
    """A listener that ends each transaction as its sender says."""

    def execute(self, message: Message, arg: Any) -> TransactionState:
        assert isinstance(arg, TransactionState)
        return arg

    def check(self, message: StoredMessage) -> TransactionState:
        return TransactionState.UNKNOWN


async def run_transactions(namesrv: str) -> None:
    """Send one message for each way in which a transaction ends or does not."""
    topic = await make_topic(namesrv)
    async with TransactionProducer("TP", listener=AsTold(), namesrv=namesrv) as producer:
        for state in TransactionState:
            await producer.send_in_transaction(Message(topic, b"x"), state)


async def run_traffic(namesrv: str, url: str) -> tuple[str, Scraped]:
    """Send transactions, and plain, delayed and failing messages to a group that takes all and one that holds them."""
    await run_transactions(namesrv)
    topic = await make_topic(namesrv)
    inbox = Inbox(lambda message: ConsumeResult.RECONSUME_LATER if message.content() == b"bad" else None)
    may_end = asyncio.Event()

    async def hold(messages: list[StoredMessage]) -> None:
        await may_end.wait()

    options: dict[str, Any] = {"consume_from": "first", "delay_level": 1, "max_reconsume_times": 1}
    good = PushConsumer(GOOD, namesrv=namesrv, on_message=inbox, **options)
    holding = PushConsumer(HOLDING, namesrv=namesrv, on_message=hold, **options)
    good.subscribe(topic)
    holding.subscribe(topic)
    count = PLAIN_COUNT + 2
    latest = Scraped({})

    def is_steady() -> bool:
        of_good = {"topic": topic, "consumer_group": GOOD}
        return (
            latest.total("rocketmq_messages_out_total", topic=topic) == 2 * count
            and latest.total("rocketmq_send_to_dlq_messages_total", consumer_group=GOOD) == 1
            and latest.total("rocketmq_consumer_inflight_messages", topic=topic, consumer_group=HOLDING) == count
            and "rocketmq_consumer_lag_messages" in latest.labels
            and latest.total("rocketmq_consumer_lag_messages", **of_good) == 0
        )

    async with Producer("P", namesrv=namesrv) as producer, good, holding:
        await until(
            lambda: len(good.assigned) >= 4 and len(holding.assigned) >= 4, "both groups to have queues", TIMEOUT_S
        )
        for _ in range(PLAIN_COUNT):
            await producer.send(Message(topic, b"x" * 100))
        await producer.send(Message(topic, b"bad"))
        await producer.send(Message(topic, b"later", delay_level=1))
        await until(lambda: len(inbox.messages) >= count + 1, "all messages, one of them twice", TIMEOUT_S)
        await good.commit()
        async with asyncio.timeout(TIMEOUT_S):
            while not is_steady():
                latest = await asyncio.to_thread(scrape, url)
        may_end.set()
    return topic, latest


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Subject, Subject]:
    """Return the subjects of Apache and of PyMQ."""

    def subject(kind: type[ApacheServer] | type[PymqServer], directory: Path) -> Subject:
        port = free_port_block(0, 0)
        settings = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}
        server = kind(directory, settings)
        try:
            url = f"http://127.0.0.1:{port}/metrics"
            topic, scraped = asyncio.run(run_traffic(server.namesrv, url))
        finally:
            server.stop()
        return Subject(server.kind, topic, scraped)

    return (
        subject(ApacheServer, tmp_path_factory.mktemp("apache")),
        subject(PymqServer, tmp_path_factory.mktemp("pymq")),
    )


def given(scraped: Scraped) -> Iterator[str]:
    return (name for name in OURS if name in scraped.labels)


def test_all_of_rocketmqs_names_are_served_by_both(subjects: tuple[Subject, Subject]) -> None:
    apache, pymq = subjects
    assert set(given(pymq.scraped)) == set(OURS)
    assert set(given(apache.scraped)) == set(OURS)


def test_their_types_are_the_same(subjects: tuple[Subject, Subject]) -> None:
    apache, pymq = subjects
    assert {name: pymq.scraped.type_of(name) for name in OURS} == {name: apache.scraped.type_of(name) for name in OURS}


def test_their_labels_are_the_same(subjects: tuple[Subject, Subject]) -> None:
    apache, pymq = subjects
    assert {name: pymq.scraped.labels[name] for name in OURS} == {name: apache.scraped.labels[name] for name in OURS}


@pytest.mark.parametrize(
    ("name", "by_group"),
    [
        ("rocketmq_messages_in_total", False),
        ("rocketmq_throughput_in_total", False),
        ("rocketmq_messages_out_total", True),
        ("rocketmq_throughput_out_total", True),
        ("rocketmq_consumer_lag_messages", True),
        ("rocketmq_consumer_inflight_messages", True),
        ("rocketmq_consumer_ready_messages", True),
        ("rocketmq_send_to_dlq_messages_total", True),
    ],
)
def test_the_same_traffic_is_the_same_figure(subjects: tuple[Subject, Subject], name: str, by_group: bool) -> None:
    groups = [{"consumer_group": GOOD}, {"consumer_group": HOLDING}] if by_group else [{}]
    apache, pymq = ([one.scraped.total(name, topic=one.topic, **group) for group in groups] for one in subjects)
    # Apache counts a delayed message's record at delivery, PyMQ at its first storage: some bytes fewer.
    is_about = name == "rocketmq_throughput_in_total"
    assert pymq == (pytest.approx(apache, rel=0.01) if is_about else apache)
    assert any(pymq) or name == "rocketmq_consumer_ready_messages"


def test_ages_have_the_same_unit(subjects: tuple[Subject, Subject]) -> None:
    """The ages are 0 for the group that consumed all; the holding group's age counts from the arrival."""
    for one in subjects:
        for group, is_behind in ((GOOD, False), (HOLDING, True)):
            labels = {"topic": one.topic, "consumer_group": group}
            age_ms = one.scraped.total("rocketmq_consumer_lag_latency_milliseconds", **labels)
            assert (0 < age_ms < 1000 * TIMEOUT_S) if is_behind else age_ms == 0, one.kind
            assert one.scraped.total("rocketmq_consumer_queueing_latency_milliseconds", **labels) == 0, one.kind


@pytest.mark.parametrize("name", ["rocketmq_producer_connections", "rocketmq_consumer_connections"])
def test_client_labels_are_the_same(subjects: tuple[Subject, Subject], name: str) -> None:
    apache, pymq = (
        sorted(
            (sorted(labels.items() - {("otel_scope_name", "broker-meter")}), value)
            for each, labels, value in one.scraped.series
            if each == name
        )
        for one in subjects
    )
    assert pymq == apache


def test_fixed_labels_and_permission(subjects: tuple[Subject, Subject]) -> None:
    for one in subjects:
        own = {"cluster": "DefaultCluster", "node_id": "broker-a", "node_type": "broker"}
        assert one.scraped.total("rocketmq_broker_permission", **own) == 6, one.kind
