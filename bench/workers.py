"""Machines of workers: sends, batches and reads with one broker alone and with several side by side.

Each worker has a load generator of its own, a process, so a machine needs two cores for each worker. With fewer,
compare the CPU of a message: the rate is that of all cores together, generators included.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench import process
from bench.backlog import BacklogLoad
from bench.cases import QUEUES, Figure, Sizes
from bench.control import Control
from bench.sends import SendLoad, SendPlan
from bench.standalone import PyMQBroker

WORKERS_SEND, WORKERS_BATCH, WORKERS_CONSUME = "workers-send", "workers-batch", "workers-consume"
WORKERS_CASES = (WORKERS_SEND, WORKERS_BATCH, WORKERS_CONSUME)
START_AFTER_S = 0.5  # so that all generators begin together
TOPIC = "bench_workers"
BATCH = 32

Load = Callable[[str, int, float], tuple[int, float, float]]


class Machine(PyMQBroker):
    """A standalone with workers; with one it is a broker alone."""

    def __init__(self, directory: Path, command: list[str], count: int) -> None:
        super().__init__(directory, command)
        self.addresses: list[str] = []
        self._settings += ["--workers", str(count)] if count > 1 else []

    def take_ready(self, ready: dict[str, Any]) -> None:
        super().take_ready(ready)
        self.addresses = [row["broker"] for row in ready.get("workers", [{"broker": ready["broker"]}])]

    @property
    def pids(self) -> list[int]:
        """The process and, with workers, theirs."""
        return process.family(self.broker_pid)


def measure_workers(name: str, command: list[str], directory: Path, sizes: Sizes, count: int) -> list[Figure]:
    """Measures one case with one broker and with ``count`` workers."""
    load = {WORKERS_SEND: _send, WORKERS_BATCH: _send_batches, WORKERS_CONSUME: _consume}[name]
    messages = sizes.backlog_messages if name == WORKERS_CONSUME else sizes.send_messages
    figures, rates = list[Figure](), list[float]()
    for number in (1, count):
        rate, cpu_us, ready_s, memory = _run(Machine(directory / f"{name}-{number}", command, number), load, messages)
        rates.append(rate)
        text = f"{name}, {number} worker{'s' if number > 1 else ''}"
        figures += [
            Figure(f"{text}: rate", rate, "msg/s", None, True),
            Figure(f"{text}: broker CPU", cpu_us, "us/msg", None),
            Figure(f"{text}: ready", ready_s, "s", 0.5),
            Figure(f"{text}: idle, memory of a process", memory / 1e6, "MB", None),
        ]
    return [*figures, Figure(f"{name}, rate of {count} workers, of that of 1", rates[1] / rates[0], "", None, True)]


def worker_count() -> int:
    """Returns the number that leaves a core to each load generator, at least 2."""
    return max(2, len(os.sched_getaffinity(0)) // 2)


def _run(machine: Machine, load: Load, messages: int) -> tuple[float, float, float, float]:
    machine.start()
    try:
        time.sleep(1)
        memory = process.resident_bytes(machine.broker_pid) / len(machine.pids)
        for address in machine.addresses:
            with Control(address) as control:
                control.create_topic(TOPIC, QUEUES)
        with ProcessPoolExecutor(len(machine.addresses), get_context("spawn")) as pool:
            begun_s = sum(map(process.own_cpu_seconds, machine.pids))
            at_s = time.time() + START_AFTER_S + 0.5 * len(machine.addresses)
            done = list(
                pool.map(load, machine.addresses, [messages] * len(machine.addresses), [at_s] * len(machine.addresses))
            )
            used_s = sum(map(process.own_cpu_seconds, machine.pids)) - begun_s
        total = sum(count for count, _, _ in done)
        seconds = max(end for _, _, end in done) - min(begin for _, begin, _ in done)
        return total / seconds, used_s / total * 1e6, machine.ready_s, memory
    finally:
        machine.stop()


def _send(address: str, messages: int, at_s: float) -> tuple[int, float, float]:
    return _drive(SendLoad(address, SendPlan(TOPIC, QUEUES)), messages, at_s)


def _send_batches(address: str, messages: int, at_s: float) -> tuple[int, float, float]:
    plan = SendPlan(TOPIC, QUEUES, batch=BATCH, connections=2, in_flight=16)
    return _drive(SendLoad(address, plan), messages, at_s)


def _drive(load: SendLoad, messages: int, at_s: float) -> tuple[int, float, float]:
    try:
        time.sleep(max(0.0, at_s - time.time()))
        begin_s = time.time()
        rate = load.run(messages)
        return rate.messages, begin_s, time.time()
    finally:
        load.close()


def _consume(address: str, messages: int, at_s: float) -> tuple[int, float, float]:
    _send_batches(address, messages, at_s)
    load = BacklogLoad(address, TOPIC, QUEUES, "bench_workers")
    try:
        begin_s = time.time()
        rate = load.run()
        return rate.messages, begin_s, time.time()
    finally:
        load.close()
