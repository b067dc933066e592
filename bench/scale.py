"""Large numbers on one broker: topics, connected consumers, and groups in metrics, each beside sends.

Each case has brokers of its own. What a send costs is compared, in alternation, with a broker that has one topic and no
consumers, because the speed of a shared machine drifts.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from bench import process
from bench.cases import QUEUES, Figure
from bench.console_pages import console_pages
from bench.pending_timers import pending_timers
from bench.rows import rows
from bench.standalone import PyMQBroker
from bench.tables import ask_all
from tests.hostile.harness import MIB, PULL, V2, Health, Peer, ask

START_TARGET_S = 5.0
MEMORY_TARGET_MIB = 600.0
COST_TARGET = 1.25  # times the CPU time of a send with one topic: a rate that is 20 % less
SCRAPE_TARGET_S = 1.0
HELD_UP_TARGET_MS = 5.0
BLOCK_SENDS = 5_000
BLOCK_COUNT = 6
SCRAPE_COUNT = 5
SETTLE_S = 3.0
STOP_S = 300.0  # the first stop makes a file for each queue, which the next start looks at
GROUP_MEMBERS = 50
HEARTBEAT_GROUPS = 100
HEARTBEATS_A_SECOND = 1000 / 30  # of 1,000 clients, as Java's send them
HEARTBEATS_TARGET_PERCENT = 5.0
SETTINGS = {
    "maxTopics": "21000",
    "connectionCountPerAddressMax": "10000",
    "metricsExporterType": "PROM",
    "metricsPromExporterHost": "127.0.0.1",
    "metricsPromExporterPort": "0",
}


@dataclass(frozen=True, slots=True)
class ScaleSizes:
    """How much of everything there is."""

    topics: int = 10_000
    consumers: int = 5_000
    scraped_topics: int = 2_000
    scraped_groups: int = 50
    beating: int = 1_000
    pending_timers: int = 10_000_000
    listed_topics: int = 1_000
    console_topics: int = 20_000


FULL_SCALE = ScaleSizes()
QUICK_SCALE = ScaleSizes(1_000, 500, 200, 20, 200, 100_000, 100, 1_000)


@dataclass(slots=True)
class ScaleBench:
    """Where a case keeps its brokers' files, and how large it is."""

    directory: Path
    command: list[str]
    sizes: ScaleSizes

    @contextmanager
    def broker(self, name: str) -> Iterator[PyMQBroker]:
        """Returns a broker that runs within the block."""
        server = PyMQBroker(self.directory / name, self.command, SETTINGS)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@dataclass(slots=True)
class Sends:
    """Sends of 128 bytes to the queues of topics in turn; ``costs_us`` has the broker's CPU time of one, by block.

    A block begins where the one before it ended: ``sent`` counts them.
    """

    server: PyMQBroker
    topics: list[str]
    costs_us: list[float] = field(default_factory=list)
    sent: int = 0

    def run_block(self) -> None:
        """Sends a block of messages on one connection, many at a time."""
        topics = self.topics
        frames = [
            ask(310, {**V2, "b": topics[at % len(topics)], "e": str(at // len(topics) % QUEUES)}, b"x" * 128)
            for at in range(self.sent, self.sent + BLOCK_SENDS)
        ]
        self.sent += BLOCK_SENDS
        with Peer(self.server.broker) as peer:
            before_ns = process.scheduled_ns(self.server.broker_pid)
            ask_all(peer, frames)
            self.costs_us.append((process.scheduled_ns(self.server.broker_pid) - before_ns) / 1000 / BLOCK_SENDS)


def cost_ratios(first: Sends, *others: Sends) -> list[float]:
    """Returns what a send costs each of the others, in medians of blocks, as a multiple of the first one's cost."""
    for sends in (first, *others):
        sends.run_block()  # warms up: a queue's first message costs more
        sends.costs_us.clear()
    for _ in range(BLOCK_COUNT):
        for sends in (first, *others):
            sends.run_block()
    return [statistics.median(sends.costs_us) / statistics.median(first.costs_us) for sends in others]


def many_topics(bench: ScaleBench) -> list[Figure]:
    """Measures a broker with 10,000 topics of 8 queues, each with a message: sends, memory, and the next start."""
    names = [f"bench_topic_{number}" for number in range(bench.sizes.topics)]
    with bench.broker("one") as one, bench.broker("many") as many:
        with Peer(one.broker) as peer:
            ask_all(peer, [_topic("bench_one")])
        with Peer(many.broker) as peer:
            ask_all(peer, [_topic(name) for name in names])
            for queue in range(QUEUES):
                ask_all(peer, [ask(310, {**V2, "b": name, "e": str(queue)}, b"x") for name in names])
        memory_mib = process.resident_bytes(many.broker_pid) / MIB
        many.stop(STOP_S)  # writes what the queues' files lack, which would go on beside the sends
        many.start(STOP_S)
        start_cpu_s = process.cpu_seconds(many.broker_pid)
        alone, to_one, to_all = Sends(one, ["bench_one"]), Sends(many, names[:1]), Sends(many, names)
        _, of_first = cost_ratios(alone, to_one, to_all)
        while to_all.sent < len(names) * QUEUES:
            to_all.run_block()
        process.settle_cpu(SETTLE_S)
        of_one, of_all = cost_ratios(alone, to_one, to_all)
        end_mib = process.resident_bytes(many.broker_pid) / MIB
    return [
        Figure("many-topics send to one, of its cost alone", of_one, "x", COST_TARGET),
        Figure("many-topics send to all in turn", of_all, "x", COST_TARGET),
        Figure("many-topics first send to each since the start", of_first, "x", None),
        Figure("many-topics memory before the stop", memory_mib, "MiB", MEMORY_TARGET_MIB),
        Figure("many-topics start", many.ready_s, "s", START_TARGET_S),
        Figure("many-topics start CPU", start_cpu_s, "s", None),
        Figure("many-topics memory after the start", end_mib, "MiB", MEMORY_TARGET_MIB),
    ]


def many_consumers(bench: ScaleBench) -> list[Figure]:
    """Measures a broker with 5,000 connected consumers in groups of 50, each with a pull that waits."""
    with bench.broker("one") as one, bench.broker("many") as many, ExitStack() as stack:
        for server in (one, many):
            with Peer(server.broker) as peer:
                ask_all(peer, [_topic("bench_one"), _topic("bench_idle")])
        cpu_s = process.cpu_seconds(many.broker_pid)
        for number in range(bench.sizes.consumers):
            consumer = stack.enter_context(Peer(many.broker))
            consumer.send(_heartbeat(number, _group(number)))
            pull = {**PULL, "topic": "bench_idle", "consumerGroup": _group(number), "queueId": str(number % QUEUES)}
            consumer.send(ask(11, {**pull, "sysFlag": "6", "suspendTimeoutMillis": "30000"}))
        process.settle_cpu(SETTLE_S)
        cpu_s = process.cpu_seconds(many.broker_pid) - cpu_s
        (ratio,) = cost_ratios(Sends(one, ["bench_one"]), Sends(many, ["bench_one"]))
        memory_mib = process.resident_bytes(many.broker_pid) / MIB
    return [
        Figure("many-consumers send, of its cost alone", ratio, "x", COST_TARGET),
        Figure("many-consumers memory", memory_mib, "MiB", MEMORY_TARGET_MIB),
        Figure("many-consumers CPU to connect one", cpu_s / bench.sizes.consumers * 1e6, "us", None),
    ]


def heartbeats(bench: ScaleBench) -> list[Figure]:
    """Measures the heartbeats of 1,000 connected consumers in 100 groups, which come one by one."""
    with bench.broker("beaten") as server, ExitStack() as stack:
        with Peer(server.broker) as peer:
            ask_all(peer, [_topic("bench_idle")])
        consumers = [stack.enter_context(Peer(server.broker)) for _ in range(bench.sizes.beating)]
        beats = [_heartbeat(number, f"bench_group_{number % HEARTBEAT_GROUPS}") for number in range(len(consumers))]
        rounds_us = []
        for _ in range(1 + BLOCK_COUNT):
            cpu_ns = process.scheduled_ns(server.broker_pid)
            for consumer, beat in zip(consumers, beats, strict=True):
                ask_all(consumer, [beat])
            rounds_us.append((process.scheduled_ns(server.broker_pid) - cpu_ns) / 1000 / len(consumers))
    first_us, *again_us = rounds_us
    return [
        Figure("heartbeats first, CPU", first_us, "us", None),
        Figure("heartbeats again, CPU", min(again_us), "us", None),
        Figure(
            "heartbeats of 1,000 consumers",
            statistics.median(again_us) * HEARTBEATS_A_SECOND / 1e6 * 100,
            "% of a core",
            HEARTBEATS_TARGET_PERCENT,
        ),
    ]


def scrape(bench: ScaleBench) -> list[Figure]:
    """Measures scrapes with the lag of 50 groups in 2,000 topics of 8 queues, and sends meanwhile."""
    names = [f"bench_topic_{number}" for number in range(bench.sizes.scraped_topics)]
    with bench.broker("scraped") as server:
        with Peer(server.broker) as peer:
            ask_all(peer, [_topic(name) for name in names])
            for queue in range(QUEUES):
                ask_all(peer, [ask(310, {**V2, "b": name, "e": str(queue)}, b"x") for name in names])
            for number in range(bench.sizes.scraped_groups):
                group = f"bench_group_{number}"
                ask_all(peer, [ask(200, body=json.dumps({"groupName": group}).encode())])
                commit = {"consumerGroup": group, "commitOffset": "1"}
                ask_all(
                    peer,
                    [ask(15, {**commit, "topic": name, "queueId": str(at)}) for name in names for at in range(QUEUES)],
                )
        process.settle_cpu(SETTLE_S)
        probe = ask(310, {**V2, "b": names[0], "e": "0"}, b"x")
        with Health(server.broker, probe) as quiet:
            time.sleep(SETTLE_S)
        seconds, cpu_s, lines = [], [], 0
        with Health(server.broker, probe) as health:
            for _ in range(SCRAPE_COUNT):
                begun_s, begun_cpu_s = time.monotonic(), process.cpu_seconds(server.broker_pid)
                with urlopen(f"http://{server.metrics}/metrics") as answer:
                    lines = answer.read().count(b"\n")
                seconds.append(time.monotonic() - begun_s)
                cpu_s.append(process.cpu_seconds(server.broker_pid) - begun_cpu_s)
    held_up_ms = health.percentile_ms(99) - quiet.percentile_ms(99)
    return [
        Figure("scrape", statistics.median(seconds), "s", SCRAPE_TARGET_S),
        Figure("scrape CPU", statistics.median(cpu_s), "s", None),
        Figure("scrape lines", lines, "", None, True),
        Figure("scrape, p99 of sends meanwhile above the usual", held_up_ms, "ms", HELD_UP_TARGET_MS),
    ]


def all_rows(bench: ScaleBench) -> list[Figure]:
    """Measures questions about all topics and groups at once: 1,000 topics of 8 queues, 50 groups."""
    with bench.broker("rows") as server:
        return rows(server, bench.sizes.listed_topics, bench.sizes.scraped_groups)


def console(bench: ScaleBench) -> list[Figure]:
    """Measures pages of the console: of 1,000 topics and 50 groups, and lists of 20,000 topics."""
    with bench.broker("console") as server:
        figures = console_pages(server, bench.sizes.listed_topics, bench.sizes.scraped_groups)
    with bench.broker("large-console") as server:
        return figures + console_pages(server, bench.sizes.console_topics, 1, is_large=True)


def timers(bench: ScaleBench) -> list[Figure]:
    """Measures a broker on which 10 million timers wait."""
    with bench.broker("timers") as server:
        return pending_timers(server, bench.sizes.pending_timers)


def _topic(name: str) -> bytes:
    counts = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
    rest = {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    return ask(17, {"topic": name, "defaultTopic": "TBW102", **counts, **rest})


def _group(number: int) -> str:
    return f"bench_group_{number // GROUP_MEMBERS}"


def _heartbeat(number: int, group: str) -> bytes:
    """Returns a heartbeat as Java's push consumer 5.3.3 sends it: of a topic and the group's retry topic."""
    subscriptions = [
        {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": "TAG",
            "subString": "*",
            "subVersion": 1795248959526 + number,
            "tagsSet": [],
            "topic": topic,
        }
        for topic in (f"%RETRY%{group}", "bench_idle")
    ]
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    body = {
        "clientID": f"127.0.0.1@{number}#1795248959526",
        "consumerDataSet": [consumer],
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
        "withoutSub": False,
    }
    return ask(34, body=json.dumps(body, separators=(",", ":")).encode())


SCALE_CASES: dict[str, Callable[[ScaleBench], list[Figure]]] = {
    "console": console,
    "heartbeats": heartbeats,
    "many-topics": many_topics,
    "many-consumers": many_consumers,
    "pending-timers": timers,
    "rows": all_rows,
    "scrape": scrape,
}
