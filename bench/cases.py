"""The measured cases: each takes a running broker and returns named figures with their targets."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench import frames, pops, process
from bench import inner_batches as inner
from bench.backlog import BacklogLoad
from bench.control import BenchError, Control
from bench.filtered import FilteredLoad
from bench.latency import LatencyLoad
from bench.result import Rate
from bench.sends import SendLoad, SendPlan
from bench.sql import sql_load
from bench.timers import TIMER_TOPIC, DueLoad
from bench.transactions import TransactionLoad

QUEUES = 8
SYNC_SENDERS = 64
IDLE_WAIT_S = 3.0
COMMAND_RUNS = 5


class Server(Protocol):
    """A broker under measurement."""

    name: str
    namesrv: str
    broker: str
    ready_s: float

    @property
    def broker_pid(self) -> int: ...
    @property
    def pids(self) -> list[int]: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def topic_list_command(self) -> list[str]: ...
    def environment(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of messages and seconds of each case."""

    warm_messages: int
    send_messages: int
    batch_messages: int
    backlog_messages: int
    latency_messages: int
    sync_messages: int
    idle_s: float


FULL = Sizes(150_000, 300_000, 1_000_000, 1_000_000, 20_000, 200_000, 10.0)
FULL_QUEUES, QUICK_QUEUES = 65_535, 5_000
QUICK = Sizes(20_000, 60_000, 200_000, 200_000, 3_000, 40_000, 2.0)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; ``target`` is PyMQ's goal, None without one."""

    name: str
    value: float
    unit: str
    target: float | None
    higher_is_better: bool = False


@dataclass(slots=True)
class Bench:
    """One server with the state that cases leave: created topics and used numbers of unique keys."""

    server: Server
    sizes: Sizes
    next_number: int = 0
    runs: int = 0

    def numbers(self) -> int:
        """Returns a first message number that no load on this server has used."""
        self.next_number += 1 << 30
        return self.next_number

    def fresh_topic(self, prefix: str, attributes: str = "", queues: int = QUEUES) -> str:
        self.runs += 1
        topic = f"bench_{prefix}_{self.runs}"
        with Control(self.server.broker) as control:
            control.create_topic(topic, queues, attributes)
        return topic


Case = Callable[[Bench], list[Figure]]


def send(bench: Bench) -> list[Figure]:
    """Measures single sends with a JSON header as the Java client writes it."""
    return _send(bench, "send", frames.JSON_HEADER, 160_000, 8.0)


def send_binary(bench: Bench) -> list[Figure]:
    """Measures single sends with a binary header."""
    return _send(bench, "send-binary", frames.BINARY_HEADER, 160_000, 8.0)


def _send(bench: Bench, name: str, header: int, rate_target: float, cpu_target: float) -> list[Figure]:
    plan = SendPlan(bench.fresh_topic("send"), QUEUES, header=header)
    return _measure_sends(bench, name, plan, bench.sizes.send_messages, rate_target, cpu_target)


def send_batch(bench: Bench) -> list[Figure]:
    """Measures sends in batches of 32."""
    plan = SendPlan(bench.fresh_topic("batch"), QUEUES, batch=32, connections=2, in_flight=16)
    return _measure_sends(bench, "send-batch", plan, bench.sizes.batch_messages, 500_000, 1.5)


def inner_batches(bench: Bench) -> list[Figure]:
    """Measures sends in batches of 32 to batch queues, then raw pulls of up to 32 of their records."""
    topic = bench.fresh_topic("inner", inner.ATTRIBUTES)
    plan = SendPlan(topic, QUEUES, batch=inner.BATCH, connections=2, in_flight=16)
    figures = _measure_sends(bench, "inner batches, send", plan, bench.sizes.batch_messages, 500_000, 0.5)
    load = inner.InnerBacklogLoad(bench.server.broker, topic, QUEUES, "bench_inner")
    try:
        rate, cpu_us = _read_measured(bench, load)
    finally:
        load.close()
    return [
        *figures,
        Figure("inner batches, pull rate", rate.per_second, "msg/s", None, True),
        Figure("inner batches, pull broker CPU", cpu_us, "us/msg", 0.2),
    ]


def send_sync(bench: Bench) -> list[Figure]:
    """Measures single sends of 64 senders with one in flight each; SYNC_FLUSH answers each after an fsync."""
    plan = SendPlan(bench.fresh_topic("sync"), QUEUES, connections=SYNC_SENDERS, in_flight=1)
    return _measure_sends(bench, "send-sync", plan, bench.sizes.sync_messages, 25_500, 47.7)


def send_tls(bench: Bench) -> list[Figure]:
    """Measures single sends over TLS, and without it on the same port."""
    topic = bench.fresh_topic("tls")
    count = bench.sizes.send_messages
    plain = _measure_sends(bench, "send beside TLS", SendPlan(topic, QUEUES), count, 160_000, 8.0)
    over_tls = _measure_sends(bench, "send-tls", SendPlan(topic, QUEUES, tls=True), count, 64_000, 20.0)
    return [*plain, *over_tls]


def timer_put(bench: Bench) -> list[Figure]:
    """Measures single sends of timer messages that are due in an hour; their way into the wheel counts."""
    plan = SendPlan(
        bench.fresh_topic("timers"), QUEUES, properties="TIMER_DELAY_SEC\x013600\x02", stored_in=TIMER_TOPIC
    )
    return _measure_sends(bench, "timer-put", plan, bench.sizes.send_messages, 106_000, 12.0)


def timers_due(bench: Bench) -> list[Figure]:
    """Measures how late timers come of which 100,000 are due in a minute."""
    load = DueLoad(bench.server.broker, bench.fresh_topic("due"), QUEUES)
    try:
        late = load.run(5 * bench.sizes.latency_messages)
    finally:
        load.close()
    return [
        Figure("timers-due late p50", late.p50_ms, "ms", None),
        Figure("timers-due late p99", late.p99_ms, "ms", 100.0),
        Figure("timers-due late max", late.max_ms, "ms", 100.0),
    ]


def _measure_sends(
    bench: Bench, name: str, plan: SendPlan, messages: int, rate_target: float, cpu_target: float
) -> list[Figure]:
    load = SendLoad(bench.server.broker, plan, bench.numbers())
    try:
        load.warm_up(bench.sizes.warm_messages)
        process.settle_cpu()
        before = process.cpu_seconds(bench.server.broker_pid)
        with process.pinned():
            rate = load.run(messages)
        process.settle_cpu()
        cpu_s = process.cpu_seconds(bench.server.broker_pid) - before
    finally:
        load.close()
    return [
        Figure(f"{name} rate", rate.per_second, "msg/s", rate_target, True),
        Figure(f"{name} broker CPU", cpu_s / rate.messages * 1e6, "us/msg", cpu_target),
    ]


def transactions(bench: Bench) -> list[Figure]:
    """Measures transactions: a half message, and its commit when the answer is there."""
    load = TransactionLoad(bench.server.broker, bench.fresh_topic("transactions"), QUEUES)
    try:
        load.run(bench.sizes.latency_messages)
        process.settle_cpu()
        before = process.cpu_seconds(bench.server.broker_pid)
        with process.pinned():
            rate = load.run(bench.sizes.sync_messages)
        process.settle_cpu()
        cpu_s = process.cpu_seconds(bench.server.broker_pid) - before
    finally:
        load.close()
    return [
        Figure("transactions rate", rate.per_second, "1/s", None, True),
        Figure("transactions broker CPU", cpu_s / rate.messages * 1e6, "us each", None),
    ]


def pop_ack(bench: Bench) -> list[Figure]:
    """Measures pops of up to 32 messages from 8 queues; each message is acknowledged by itself."""
    topic = bench.fresh_topic("popped")
    warm, measured = bench.sizes.latency_messages, bench.sizes.sync_messages
    fill = SendLoad(
        bench.server.broker, SendPlan(topic, QUEUES, batch=32, connections=2, in_flight=16), bench.numbers()
    )
    try:
        fill.run(warm + measured + pops.CONNECTIONS * pops.POP_COUNT * 2)
    finally:
        fill.close()
    load = pops.PopLoad(bench.server.broker, topic, "bench_pops")
    try:
        load.run(warm)
        process.settle_cpu()
        before = process.cpu_seconds(bench.server.broker_pid)
        with process.pinned():
            rate = load.run(measured)
        process.settle_cpu()
        cpu_s = process.cpu_seconds(bench.server.broker_pid) - before
    finally:
        load.close()
    return [
        Figure("pop-ack rate", rate.per_second, "msg/s", None, True),
        Figure("pop-ack broker CPU", cpu_s / rate.messages * 1e6, "us/msg", None),
    ]


def backlog(bench: Bench) -> list[Figure]:
    """Measures raw pulls of 32 messages from a backlog in 8 queues, two in flight per queue."""
    topic = bench.fresh_topic("backlog")
    fill = SendLoad(
        bench.server.broker, SendPlan(topic, QUEUES, batch=32, connections=2, in_flight=16), bench.numbers()
    )
    try:
        fill.run(bench.sizes.backlog_messages)
    finally:
        fill.close()
    process.settle_cpu(1.0)
    load = BacklogLoad(bench.server.broker, topic, QUEUES, "bench_backlog")
    try:
        rate, cpu_us = _read_measured(bench, load)
    finally:
        load.close()
    return [
        Figure("backlog rate", rate.per_second, "msg/s", 400_000, True),
        Figure("backlog broker CPU", cpu_us, "us/msg", 0.8),
    ]


def client_push(bench: Bench) -> list[Figure]:
    """Measures PyMQ's push consumer on a backlog in 8 queues, with a handler that does nothing, on a CPU of its own."""
    topic = bench.fresh_topic("push")
    fill = SendLoad(
        bench.server.broker, SendPlan(topic, QUEUES, batch=32, connections=2, in_flight=16), bench.numbers()
    )
    count = bench.sizes.send_messages
    try:
        fill.run(count)
    finally:
        fill.close()
    figures = []
    for handler, rate_target, cpu_target in (("coroutine", 150_000, 1e6 / 150_000), ("function", None, None)):
        process.settle_cpu(1.0)
        command = [sys.executable, "-m", "bench.client_pushes", handler]
        command += ["--namesrv", bench.server.namesrv, "--topic", topic, "--messages", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise BenchError(f"the push consumer failed: {done.stderr[-2000:]}")
        measured = json.loads(done.stdout)
        figures += [
            Figure(f"client-push {handler}, rate", measured["rate"], "msg/s", rate_target, True),
            Figure(f"client-push {handler}, client CPU", measured["cpu_us"], "us/msg", cpu_target),
            Figure(f"client-push {handler}, client CPU, least", measured["least_cpu_us"], "us/msg", cpu_target),
        ]
    return figures


def _read_measured(bench: Bench, load: BacklogLoad | FilteredLoad) -> tuple[Rate, float]:
    """Runs a load of pulls; returns its rate and the broker's CPU time per message in us."""
    before = process.cpu_seconds(bench.server.broker_pid)
    with process.pinned():
        rate = load.run()
    cpu_s = process.cpu_seconds(bench.server.broker_pid) - before
    return rate, cpu_s / rate.messages * 1e6


def sql(bench: Bench) -> list[Figure]:
    """Measures pulls with an SQL92 expression that matches one in 100 messages of 128 bytes with three properties."""
    load = sql_load(bench.server.broker, bench.fresh_topic("sql"), QUEUES, "bench_sql")
    try:
        load.fill(bench.sizes.backlog_messages)
        process.settle_cpu(1.0)
        first_ms = load.first_pull()
        rate, cpu_us = _read_measured(bench, load)
        pull_count = load.pull_count
        again, again_us = _read_measured(bench, load)
    finally:
        load.close()
    return [
        Figure("sql first pull", first_ms, "ms", None),
        Figure("sql rate", rate.per_second, "msg/s", 400_000, True),
        Figure("sql broker CPU", cpu_us, "us/msg", 2.5),
        Figure("sql looked at a pull", rate.messages / pull_count, "msg", None, True),
        Figure("sql again, rate", again.per_second, "msg/s", None, True),
        Figure("sql again, broker CPU", again_us, "us/msg", None),
    ]


def latency(bench: Bench) -> list[Figure]:
    """Measures the time from producer to consumer at 1,000 messages per second, with a long poll on each queue."""
    load = LatencyLoad(bench.server.broker, bench.fresh_topic("latency"), QUEUES, "bench_latency")
    try:
        with process.pinned():
            result = load.run(bench.sizes.latency_messages, skip=min(1000, bench.sizes.latency_messages // 3))
    finally:
        load.close()
    return [
        Figure("latency p50", result.p50_ms, "ms", 0.6),
        Figure("latency p99", result.p99_ms, "ms", 2.0),
    ]


def topic_list(bench: Bench) -> list[Figure]:
    """Measures the wall time of the command that lists topics, the median of five."""
    bench.fresh_topic("listed")  # without a topic the command has nothing to list
    seconds = []
    for _ in range(COMMAND_RUNS):
        begin = time.monotonic()
        done = subprocess.run(
            bench.server.topic_list_command(),
            env=bench.server.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds.append(time.monotonic() - begin)
        if done.returncode or not done.stdout.strip():
            raise BenchError(f"listing topics failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    return [Figure("topic list wall", statistics.median(seconds), "s", 0.3)]


# Cases that need SYNC_SETTINGS for their server.
SYNC_CASES: dict[str, Case] = {"send-sync": send_sync}
SYNC_SETTINGS = {"flushDiskType": "SYNC_FLUSH"}

# Cases for a server with a certificate; Apache's broker makes one for itself.
TLS_CASES: dict[str, Case] = {"send-tls": send_tls}

CASES: dict[str, Case] = {
    "send": send,
    "send-binary": send_binary,
    "send-batch": send_batch,
    "timer-put": timer_put,
    "timers-due": timers_due,
    "inner-batches": inner_batches,
    "transactions": transactions,
    "pop-ack": pop_ack,
    "backlog": backlog,
    "sql": sql,
    "latency": latency,
    "client-push": client_push,
    "topic-list": topic_list,
}


def start_and_idle(make: Callable[[Path], Server], directory: Path, sizes: Sizes, starts: int) -> list[Figure]:
    """Measures the time until ready (median of ``starts``), then memory and CPU of an idle server."""
    ready_s: list[float] = []
    for number in range(starts):
        server = make(directory / f"start-{number}")
        try:
            server.start()
            ready_s.append(server.ready_s)
            if number + 1 == starts:
                time.sleep(IDLE_WAIT_S)
                before = _cpu_of_all(server)
                begin = time.monotonic()
                time.sleep(sizes.idle_s)
                busy_share = (_cpu_of_all(server) - before) / (time.monotonic() - begin)
                memory_mb = sum(process.resident_bytes(pid) for pid in server.pids) / 1e6
        finally:
            server.stop()
    return [
        Figure("ready", statistics.median(ready_s), "s", 0.5),
        Figure("idle memory", memory_mb, "MB", 80.0),
        Figure("idle CPU", busy_share * 100, "%", 1.0),
    ]


def _cpu_of_all(server: Server) -> float:
    return sum(process.cpu_seconds(pid) for pid in server.pids)


def store_append(sizes: Sizes, rounds: int, directory: Path) -> list[Figure]:
    """Measures appends of 128-byte messages through the store's interface, in batches of 64, on one CPU."""
    # In a separate process, because this package measures brokers from outside and doesn't import the store.
    command = [sys.executable, "-m", "bench.store_append", "--rounds", str(rounds), "--dir", str(directory)]
    command += ["--messages", str(sizes.send_messages)]
    rates = _run_tool(command)
    return [
        Figure("store-append with unique keys", rates["keyed"], "msg/s", 500_000, True),
        Figure("store-append without keys", rates["plain"], "msg/s", 500_000, True),
    ]


def store_follow(sizes: Sizes, rounds: int, directory: Path) -> list[Figure]:
    """Measures following a log of 128-byte messages through the store's interface, on one CPU."""
    command = [sys.executable, "-m", "bench.store_follow", "--rounds", str(rounds), "--dir", str(directory)]
    figures = _run_tool([*command, "--messages", str(sizes.send_messages)])
    return [
        Figure("store-follow in pieces of 256 messages", figures["follow_us"], "µs CPU/msg", 1.5),
        Figure("store-follow in pieces of 1 MiB", figures["catch_up_mb_s"], "MB/s", 200.0, True),
    ]


def store_queues(sizes: Sizes, directory: Path) -> list[Figure]:
    """Measures stops and a start of a store with many queues of one message each."""
    command = [sys.executable, "-m", "bench.store_queues", "--dir", str(directory)]
    figures = _run_tool([*command, "--queues", str(QUICK_QUEUES if sizes is QUICK else FULL_QUEUES)])
    return [
        Figure("queues first stop", figures["first_stop_s"], "s CPU", None),
        Figure("queues start", figures["start_s"], "s CPU", 5.0),
        Figure("queues stop", figures["stop_s"], "s CPU", 5.0),
        Figure("queues deletion of the topic", figures["delete_s"], "s CPU", 0.1),
        Figure("queues removal of its files, by a thread", figures["removal_s"], "s CPU", None),
    ]


def _run_tool(command: list[str]) -> dict[str, float]:
    """Runs a tool of the store and returns the figures it prints, by name."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{command[2]} failed: {done.stderr[-500:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
