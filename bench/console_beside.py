"""Sends beside a console: what they take while someone looks at a page each second, and while nobody does, in turns."""

import http.client
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bench import process
from bench.cases import QUEUES, Figure
from bench.control import Control
from bench.latency import LatencyLoad
from bench.standalone import PyMQBroker

RATE = 1_000  # sends a second
TURN_S = 60  # in which each sample comes as often as it should: a console that stood still takes all of them at once
TURN_COUNT = 4  # of each kind
PAGE_S = 1.0
P99_TARGET, COST_TARGET = 1.25, 1.05
TOPIC = "bench_beside"


class Turn(NamedTuple):
    """What sends took: from a send to its arrival in a long poll, and the broker's CPU time a message."""

    p50_ms: float
    p99_ms: float
    cost_us: float


def sends_beside(name: str, server: PyMQBroker, console_pid: int, url: str, paths: Sequence[str]) -> list[Figure]:
    """Measures sends with the console, its samples and a page each second, and with a console that stands still."""
    with Control(server.broker) as control:
        control.create_topic(TOPIC, QUEUES)
    alone, beside = list[Turn](), list[Turn]()
    for number in range(1 + TURN_COUNT):
        with _stopped(console_pid):
            first = _turn(server, f"alone-{number}")
        with _visited(url, paths):
            second = _turn(server, f"beside-{number}")
        if number:  # the first turns warm up
            alone.append(first)
            beside.append(second)
    p99 = statistics.median(there.p99_ms / here.p99_ms for here, there in zip(alone, beside, strict=True))
    cost = statistics.median(there.cost_us / here.cost_us for here, there in zip(alone, beside, strict=True))
    return [
        Figure(f"{name}: sends alone, p50", statistics.median(turn.p50_ms for turn in alone), "ms", None),
        Figure(f"{name}: sends alone, p99", statistics.median(turn.p99_ms for turn in alone), "ms", None),
        Figure(f"{name}: sends beside pages, p99", statistics.median(turn.p99_ms for turn in beside), "ms", None),
        Figure(f"{name}: p99 of sends beside pages, of that alone", p99, "", P99_TARGET),
        Figure(f"{name}: broker CPU of a send alone", statistics.median(turn.cost_us for turn in alone), "us", None),
        Figure(f"{name}: broker CPU of a send beside pages, of that alone", cost, "", COST_TARGET),
    ]


def _turn(server: PyMQBroker, group: str) -> Turn:
    load = LatencyLoad(server.broker, TOPIC, QUEUES, group, RATE)
    begun_ns = process.scheduled_ns(server.broker_pid)
    try:
        result = load.run(RATE * TURN_S, skip=RATE)
    finally:
        load.close()
    used_us = (process.scheduled_ns(server.broker_pid) - begun_ns) / 1000
    return Turn(result.p50_ms, result.p99_ms, used_us / (RATE * TURN_S))


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """Let a process stand still within the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def _visited(url: str, paths: Sequence[str]) -> Iterator[None]:
    """Ask for a page each second within the block, from another process."""
    command = [sys.executable, "-m", "bench.console_beside", url, *paths]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as visitor:
        try:
            yield
        finally:
            visitor.terminate()


def _visit(url: str, paths: Sequence[str]) -> None:
    number = 0
    while True:
        connection = http.client.HTTPConnection(url.partition("://")[2])
        connection.request("GET", f"/at/default/{paths[number % len(paths)]}")
        connection.getresponse().read()
        connection.close()
        number += 1
        time.sleep(PAGE_S)


if __name__ == "__main__":
    _visit(sys.argv[1], sys.argv[2:])
