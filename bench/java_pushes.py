"""The push consumer of Java's client 5.3.3 on a backlog, with JSON and with binary headers."""

import subprocess
from pathlib import Path

from bench import process
from bench.apache import jars
from bench.cases import QUEUES, Bench, Case, Figure
from bench.control import BenchError
from bench.sends import SendLoad, SendPlan

_PROGRAM = Path(__file__).with_name("JavaPush.java")
_TIMEOUT_S = 300.0


def java_push(bench: Bench) -> list[Figure]:
    """Measures the broker while the consumer, with its default settings, reads a backlog from 8 queues."""
    figures = []
    for header in ("JSON", "ROCKETMQ"):
        topic = _backlog(bench)
        process.settle_cpu(1.0)
        before = process.cpu_seconds(bench.server.broker_pid)
        rate, client_us = _read(bench.server.namesrv, topic, bench.sizes.backlog_messages, header)
        cpu_s = process.cpu_seconds(bench.server.broker_pid) - before
        broker_us = cpu_s / bench.sizes.backlog_messages * 1e6
        figures += [
            Figure(f"java-push {header}, rate", rate, "msg/s", None, True),
            Figure(f"java-push {header}, broker CPU", broker_us, "us/msg", 1.5),
            Figure(f"java-push {header}, client CPU", client_us, "us/msg", None),
        ]
    return figures


def _backlog(bench: Bench) -> str:
    """Return a new topic with a backlog."""
    topic = bench.fresh_topic("java")
    plan = SendPlan(topic, QUEUES, batch=32, connections=2, in_flight=16)
    fill = SendLoad(bench.server.broker, plan, bench.numbers())
    try:
        fill.run(bench.sizes.backlog_messages)
    finally:
        fill.close()
    return topic


def _read(namesrv: str, topic: str, count: int, header: str) -> tuple[float, float]:
    """Return the consumer's messages a second, and its CPU time of a message in us. Raises BenchError."""
    flags = ["-Xms512m", "-Xmx512m", f"-Drocketmq.serialize.type={header}", "-Drocketmq.client.logLevel=OFF"]
    command = ["java", *flags, "-cp", f"{jars()}/*", str(_PROGRAM), namesrv, topic, str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise BenchError(f"Java's push consumer did not read {count} messages within {_TIMEOUT_S:.0f} s") from late
    if done.returncode:
        raise BenchError(f"Java's push consumer failed: {done.stderr[-2000:]}")
    rate, client_us = done.stdout.split()[-2:]
    return float(rate), float(client_us)


JAVA_CASES: dict[str, Case] = {"java-push": java_push}
