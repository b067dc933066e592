"""Measures servers of the gRPC protocol: PyMQ's standalone with --grpc-port, and Apache's proxy in local mode."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import process
from bench.apache import ApacheBroker
from bench.cases import Bench, Case, Figure
from bench.control import Control
from bench.grpc_load import GrpcLoad
from bench.result import Rate
from bench.standalone import PyMQBroker
from tests.interop.support.maven import class_path
from tests.ports import free_port_block

BROKER = "broker-a"
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
NORMAL = "+message.type=NORMAL"
PARKED_CONSUMERS = 2_000
PARKED_PER_GROUP = 500  # a broker parks 1,024 pops of a group at most (popPollingSize)
SETTLE_S = 3.0
PARKED_S = 12.0  # the part of the waiting time that is measured
EARLY_S = 1.0  # a receive that ends so long before its time has ended early
WARM_UP = 2_000
MORE_ACKED_MAX = 256  # a part acknowledges up to so many more than it was asked to
SEND_DIVISOR = 20  # of the messages of the plain sends


class PyMQGrpcBroker(PyMQBroker):
    """A standalone PyMQ that serves gRPC, too; ``endpoint`` is where."""

    endpoint = ""

    def _ports(self) -> list[str]:
        return [*super()._ports(), "--grpc-port", "0"]

    def take_ready(self, ready: dict[str, str]) -> None:
        super().take_ready(ready)
        self.endpoint = ready["grpc"]


class ApacheProxyBroker(ApacheBroker):
    """A name server, and one process that is proxy and broker; ``endpoint`` is where it serves gRPC."""

    endpoint = ""

    def _class_path(self) -> str:
        return class_path("proxy-5.3.3")

    def _spawn_broker(self) -> None:
        grpc_port, remoting_port = free_port_block(0, 0), free_port_block(0, 0)
        self.endpoint = f"127.0.0.1:{grpc_port}"
        settings: dict[str, object] = {"grpcServerPort": grpc_port, "remotingListenPort": remoting_port}
        settings |= {"rocketMQClusterName": "DefaultCluster", "namesrvAddr": self.namesrv}
        path = self._directory / "proxy.json"
        path.write_text(json.dumps(settings))
        main = "org.apache.rocketmq.proxy.ProxyStartup"
        self._spawn("broker", main, "-pm", "local", "-n", self.namesrv, "-bc", self._broker_conf, "-pc", str(path))


def make_grpc_server(kind: str, directory: Path, heap: str, command: list[str]) -> PyMQGrpcBroker | ApacheProxyBroker:
    """Return a server that is not started yet."""
    directory.mkdir(parents=True, exist_ok=True)
    if kind == ApacheBroker.name:
        return ApacheProxyBroker(directory, heap)
    return PyMQGrpcBroker(directory, command)


def grpc_send(bench: Bench) -> list[Figure]:
    """Sends of 1 KiB with 64 of them in flight."""
    topic, count = bench.fresh_topic("grpc", NORMAL), bench.sizes.send_messages // SEND_DIVISOR

    async def load(client: GrpcLoad) -> tuple[Rate, float]:
        await client.send(topic, WARM_UP)
        return await _measured(bench, lambda: client.send(topic, count))

    return _figures(bench, "gRPC send", load)


def grpc_receive(bench: Bench) -> list[Figure]:
    """Receives of 32 messages, each of which is acknowledged by a call of its own."""
    topic, count = bench.fresh_topic("grpc", NORMAL), bench.sizes.send_messages // SEND_DIVISOR
    group = fresh_group(bench)

    async def load(client: GrpcLoad) -> tuple[Rate, float]:
        stream = await client.settle(topic, group)  # Apache's proxy serves no client without settings
        await client.send(topic, count + WARM_UP)
        await client.receive_and_ack(topic, group, BROKER, WARM_UP)
        measured = await _measured(bench, lambda: client.receive_and_ack(topic, group, BROKER, count - MORE_ACKED_MAX))
        stream.cancel()
        return measured

    return _figures(bench, "gRPC receive and ack", load)


def grpc_parked(bench: Bench) -> list[Figure]:
    """2,000 push consumers with an open stream and a receive that waits."""
    return asyncio.run(_parked(bench, bench.fresh_topic("grpc", NORMAL)))


async def _parked(bench: Bench, topic: str) -> list[Figure]:
    groups = [fresh_group(bench) for _ in range(PARKED_CONSUMERS // PARKED_PER_GROUP)]
    pid = bench.server.broker_pid
    clients = [GrpcLoad(grpc_endpoint(bench), f"parked-{number}") for number in range(PARKED_CONSUMERS)]
    try:
        streams = [
            await client.settle(topic, groups[number // PARKED_PER_GROUP]) for number, client in enumerate(clients)
        ]
        waits = [
            asyncio.ensure_future(client.parked(topic, groups[number // PARKED_PER_GROUP], BROKER))
            for number, client in enumerate(clients)
        ]
        await asyncio.sleep(SETTLE_S)
        before_s, begun_s = process.cpu_seconds(pid), time.monotonic()
        await asyncio.sleep(PARKED_S)
        share = (process.cpu_seconds(pid) - before_s) / (time.monotonic() - begun_s) * 100
        resident = process.resident_bytes(pid) / 2**20
        ends = await asyncio.gather(*waits, return_exceptions=True)
        for stream in streams:
            stream.cancel()
    finally:
        await asyncio.gather(*[client.close() for client in clients])
    early = sum(1 for each in ends if isinstance(each, BaseException) or each < 20 - EARLY_S)
    return [
        Figure("gRPC, 2,000 parked: CPU", share, "% of a core", 5),
        Figure("gRPC, 2,000 parked: memory", resident, "MiB", 150),
        Figure("gRPC, 2,000 parked: ended early", early, "receives", 0),
    ]


GRPC_CASES: dict[str, Case] = {"grpc-send": grpc_send, "grpc-receive": grpc_receive, "grpc-parked": grpc_parked}


def grpc_endpoint(bench: Bench) -> str:
    """Return where the server serves gRPC."""
    server = bench.server
    assert isinstance(server, PyMQGrpcBroker | ApacheProxyBroker)
    return server.endpoint


def fresh_group(bench: Bench) -> str:
    """Return a new consumer group."""
    bench.runs += 1
    group = f"bench_grpc_{bench.runs}"
    make_group(bench.server.broker, group)
    return group


def make_group(address: str, group: str) -> None:
    """Make a consumer group on a broker."""
    with Control(address) as control:
        body = json.dumps({"groupName": group, "consumeEnable": True, "retryMaxTimes": 16, "retryQueueNums": 1})
        control.expect(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body.encode())


async def _measured(bench: Bench, load: Callable[[], Awaitable[Rate]]) -> tuple[Rate, float]:
    before_s = process.cpu_seconds(bench.server.broker_pid)
    rate = await load()
    return rate, (process.cpu_seconds(bench.server.broker_pid) - before_s) / rate.messages * 1e6


def _figures(bench: Bench, name: str, load: Callable[[GrpcLoad], Awaitable[tuple[Rate, float]]]) -> list[Figure]:
    async def run() -> tuple[Rate, float]:
        client = GrpcLoad(grpc_endpoint(bench))
        try:
            return await load(client)
        finally:
            await client.close()

    rate, cpu_us = asyncio.run(run())
    return [
        Figure(f"{name}, rate", rate.per_second, "msg/s", None, higher_is_better=True),
        Figure(f"{name}, CPU", cpu_us, "µs/msg", None),
    ]
