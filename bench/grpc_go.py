"""Measures servers of the gRPC protocol with the load of Go's client, by TLS as it comes and by plain connections."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import process
from bench.cases import Bench, Case, Figure
from bench.control import BenchError
from bench.grpc_cases import MORE_ACKED_MAX, NORMAL, SEND_DIVISOR, fresh_group, grpc_endpoint
from bench.result import Rate
from tests.interop.support.golang import built_program
from tests.interop.support.grpc_driver import SOURCES

WARM_UP = 10_000  # Java compiles meanwhile
ANSWER_TIMEOUT_S = 120.0
CONNECTIONS = ("tls", "plain")


class GoLoad:
    """The running program; it names what it does as the interop tests' program does."""

    def __init__(self, process_: subprocess.Popen[str]) -> None:
        self._process = process_

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, what: str, count: int) -> Rate:
        """``what`` is `send` or `receive`. Raises BenchError when the program ends, or does not answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {count}\n")
        self._process.stdin.flush()
        words = process.first_line(self._process, ANSWER_TIMEOUT_S).split()
        if not words:
            _, errors = self._process.communicate()
            raise BenchError(f"Go's client failed to {what} {count} messages: {errors[-2000:]}")
        done = int(words[0])
        if done < count:
            raise BenchError(f"Go's client got {done} of {count} messages")
        return Rate(done, float(words[1]))


@contextmanager
def running(endpoint: str, topic: str, group: str, connection: str, clients: int = 1) -> Iterator[GoLoad]:
    """Run the program during the block. Raises BenchError without Go, or the modules that it needs."""
    try:
        program = built_program(SOURCES / "go", "./load")
    except pytest.skip.Exception as missing:
        raise BenchError(str(missing)) from missing
    with tempfile.TemporaryDirectory() as home:  # it logs below it
        command = [str(program), endpoint, topic, group, connection, str(clients)]
        pipe = subprocess.PIPE
        env = {**os.environ, "HOME": home}
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as running:
            try:
                yield GoLoad(running)
            finally:
                running.kill()


def grpc_send_go(bench: Bench) -> list[Figure]:
    """Sends of 1 KiB with 64 of them in flight."""
    topic, count = bench.fresh_topic("grpc", NORMAL), bench.sizes.send_messages // SEND_DIVISOR
    figures = []
    for connection in CONNECTIONS:
        with running(grpc_endpoint(bench), topic, fresh_group(bench), connection) as load:
            load.run("send", WARM_UP)
            figures += measured(bench.server.broker_pid, load, "send", count, f"gRPC send by Go, {connection}")
    return figures


def grpc_receive_go(bench: Bench) -> list[Figure]:
    """Receives of 32 messages by a simple consumer, each of which is acknowledged by a call of its own."""
    count = bench.sizes.send_messages // SEND_DIVISOR
    figures = []
    for connection in CONNECTIONS:
        topic = bench.fresh_topic("grpc", NORMAL)
        with running(grpc_endpoint(bench), topic, fresh_group(bench), connection) as load:
            load.run("send", count + WARM_UP)
            load.run("receive", WARM_UP)
            name = f"gRPC receive and ack by Go, {connection}"
            figures += measured(bench.server.broker_pid, load, "receive", count - MORE_ACKED_MAX, name)
    return figures


GRPC_GO_CASES: dict[str, Case] = {"grpc-send-go": grpc_send_go, "grpc-receive-go": grpc_receive_go}


def measured(server_pid: int, load: GoLoad, what: str, count: int, name: str) -> list[Figure]:
    """Return the rate, and the CPU of server and client a message."""
    pids = server_pid, load.pid
    before_s = [process.cpu_seconds(pid) for pid in pids]
    rate = load.run(what, count)
    server_us, client_us = (
        (process.cpu_seconds(pid) - begun_s) / rate.messages * 1e6 for pid, begun_s in zip(pids, before_s, strict=True)
    )
    return [
        Figure(f"{name}, rate", rate.per_second, "msg/s", None, higher_is_better=True),
        Figure(f"{name}, CPU", server_us, "µs/msg", None),
        Figure(f"{name}, client CPU", client_us, "µs/msg", None),
    ]
