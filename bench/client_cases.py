"""PyMQ's own client under measurement: its rate, its CPU time and the broker's, each on one core."""

import json
import os
import subprocess
import sys

from bench import process
from bench.cases import Bench, Case, Figure
from bench.control import BenchError


def client_send(bench: Bench) -> list[Figure]:
    """Measures 64 tasks that each await every send of one producer."""
    return _measured(bench, "client-send", "awaited", bench.sizes.send_messages, 60_000)


def client_batch(bench: Bench) -> list[Figure]:
    """Measures one task that enqueues messages, which the producer sends in batches by itself."""
    return _measured(bench, "client-batch", "batched", bench.sizes.batch_messages, 300_000)


def _measured(bench: Bench, name: str, load: str, messages: int, target: float) -> list[Figure]:
    command = [sys.executable, "-m", "bench.client_sends", load, "--messages", str(messages)]
    command += ["--namesrv", bench.server.namesrv, "--topic", bench.fresh_topic("client")]
    pid = bench.server.broker_pid
    allowed = os.sched_getaffinity(pid)
    if len(allowed) > 1:
        os.sched_setaffinity(pid, allowed - {max(os.sched_getaffinity(0))})  # the client's own
    try:
        before = process.cpu_seconds(pid)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        process.settle_cpu()
        cpu_s = process.cpu_seconds(pid) - before
    finally:
        os.sched_setaffinity(pid, allowed)
    if done.returncode:
        raise BenchError(f"{name} failed: {done.stderr[-500:]}")
    found = json.loads(done.stdout)
    broker_us = cpu_s / found["sent"] * 1e6
    return [
        Figure(f"{name} rate", found["rate"], "msg/s", target, True),
        Figure(f"{name} client CPU", found["cpu_us"], "us/msg", 1e6 / target),
        Figure(f"{name} client CPU, least of all parts", found["least_cpu_us"], "us/msg", 1e6 / target),
        Figure(f"{name} broker CPU", broker_us, "us/msg", 1e6 / target),
        # What the rate would be if client and broker never worked at the same time.
        Figure(f"{name} rate of taking turns", 1e6 / (found["cpu_us"] + broker_us), "msg/s", None, True),
    ]


CLIENT_CASES: dict[str, Case] = {"client-send": client_send, "client-batch": client_batch}
