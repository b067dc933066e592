"""A filter server between a real broker and a consumer's bare requests, over real sockets and worker processes."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.client import Message, MessageQueue, Producer
from pymq.clock import SystemClock
from pymq.config import load_broker_config
from pymq.filter.running import OnError
from pymq.filterserver.handlers import PENDING_BYTES, SUBSCRIPTION_LENGTH_MAX
from pymq.filterserver.server import FilterServer, FilterServerSettings
from pymq.model import sysflag
from pymq.namesrv.server import NameServer
from pymq.net.client import RemotingClient
from pymq.net.memory_budget import PARKED_REQUESTS
from pymq.store.disk.fs import RealFiles
from pymq.wire.bodies_client import ConsumerData, HeartbeatData, SubscriptionData, encode_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from tests.filterserver.records import bodies
from tests.filterserver.test_workers import HOSTILE

DEADLINE_S = 30


def make_broker(directory: Path, namesrv: str, port: int = 0) -> Broker:
    small = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}
    keys = {**small, "storePathRootDir": str(directory), "namesrvAddr": namesrv, "listenPort": str(port)}
    config = load_broker_config(None, keys, env={})
    return Broker(config, clock=SystemClock(), files=RealFiles(), rng=random.Random(3))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)


class Cluster:
    """A name server, a broker, one filter server, and a client that sends requests to them."""

    def __init__(self, directory: Path) -> None:
        self.clock = SystemClock()
        self.directory = directory
        self.namesrv = NameServer(clock=self.clock)
        self.client = RemotingClient(clock=self.clock)

    async def start(self) -> None:
        await self.namesrv.start(port=0)
        self.broker = make_broker(self.directory, self.namesrv.address)
        await self.broker.start()
        self.filter_server = await self.add_filter_server()

    async def add_filter_server(self, on_error: OnError = OnError.SKIP) -> FilterServer:
        settings = FilterServerSettings(self.broker.address, on_error=on_error)
        server = FilterServer(settings, clock=self.clock, worker_command=HOSTILE)
        await server.start()
        await until(lambda: server.address in self.registered())
        return server

    async def stop(self) -> None:
        await self.client.close()
        await self.filter_server.stop()
        await self.broker.stop()
        await self.namesrv.stop()

    def registered(self) -> list[str]:
        """Return the filter servers that a route names."""
        found = self.namesrv.table.brokers.filter_servers("broker-a")
        return found.get(self.broker.address, [])

    async def send(self, *messages: bytes) -> None:
        async with Producer("P", namesrv=self.namesrv.address) as producer:
            for body in messages:
                await producer.send(Message("T", body), queue=MessageQueue("T", "broker-a", 0))

    async def ask(self, command: Command) -> Command:
        return await self.client.invoke(self.filter_server.address, command, DEADLINE_S)

    async def bring(self, class_name: str, source: str = "", **fields: str) -> Command:
        """Send REGISTER_MESSAGE_FILTER_CLASS for the group G and the topic T."""
        raw = source.encode()
        named = {
            "consumerGroup": "G",
            "topic": "T",
            "className": class_name,
            "classCRC": str(zlib.crc32(raw) & 0x7FFFFFFF),
        }
        return await self.ask(request(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, named | fields, raw))

    async def pull(self, offset: int, *, suspend_ms: int = 0, sub_version: int = 0, group: str = "G") -> Command:
        """Pull as a Java consumer in class filter mode does."""
        flags = sysflag.PULL_CLASS_FILTER | (sysflag.PULL_SUSPEND if suspend_ms else 0)
        fields = {"consumerGroup": group, "topic": "T", "queueId": 0, "queueOffset": offset, "maxMsgNums": 32}
        fields |= {"sysFlag": flags, "commitOffset": 0, "suspendTimeoutMillis": suspend_ms, "subVersion": sub_version}
        return await self.ask(request(RequestCode.PULL_MESSAGE, {key: str(value) for key, value in fields.items()}))

    async def figures(self) -> dict[str, str]:
        answer = await self.ask(request(RequestCode.GET_BROKER_RUNTIME_INFO))
        table: dict[str, str] = json.loads(answer.body)["table"]
        return table


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[Cluster]:
    made = Cluster(directory)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def run(directory: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def work() -> None:
        async with cluster(directory) as made:
            await scenario(made)

    asyncio.run(work())


def next_offset(answer: Command) -> int:
    return int(answer.ext["nextBeginOffset"])


def test_only_matches_arrive_and_offsets_advance(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"no", b"bad", b"pass", b"no")
        assert (await made.bring("pymq.filters.hostile", "obey")).code == 0
        found = await made.pull(0)
        assert (found.code, bodies(found.body), next_offset(found)) == (0, [b"yes", b"pass"], 5)
        assert found.ext["suggestWhichBrokerId"] == "0" and found.ext["maxOffset"] == "5"
        filtered = await made.pull(4)
        assert (filtered.code, filtered.body, next_offset(filtered)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, b"", 5)
        nothing = await made.pull(5)
        assert (nothing.code, next_offset(nothing)) == (ResponseCode.PULL_NOT_FOUND, 5)
        beyond = await made.pull(99)
        assert (beyond.code, next_offset(beyond)) == (ResponseCode.PULL_OFFSET_MOVED, 5)
        waiting = asyncio.ensure_future(made.pull(5, suspend_ms=15_000))
        await made.send(b"late")
        assert bodies((await waiting).body) == [b"late"]
        table = await made.figures()
        assert table["role"] == "filter-server" and table["brokerName"] == "broker-a"
        figures = {key.rpartition(".")[2]: value for key, value in table.items() if key.startswith("filter.G.T.")}
        time_ms = figures.pop("timeMs")
        assert time_ms.isdigit()
        assert figures == {"name": "hostile", "matched": "3", "skipped": "3", "errors": "1", "batches": "3"}

    run(tmp_path, scenario)


def test_a_worker_that_dies_costs_the_queue_one_message_at_most(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        queue = [b"a", b"b", b"die", b"c", b"d"]
        await made.send(*queue)
        await made.bring("hostile", "obey")
        got: list[bytes] = []
        offset = 0
        while offset < len(queue):
            answer = await made.pull(offset)
            got += bodies(answer.body)
            assert next_offset(answer) >= offset
            offset = next_offset(answer)
        assert got == [b"a", b"b", b"c", b"d"]
        assert int((await made.figures())["workerRestarts"]) >= 1

    run(tmp_path, scenario)


def test_under_stop_a_consumer_gets_the_error_and_stays(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"bad", b"yes")
        await made.bring("stop.hostile", "obey")
        first = await made.pull(0)
        assert (first.code, bodies(first.body), next_offset(first)) == (0, [b"yes"], 1)
        stopped = await made.pull(1)
        assert stopped.code == ResponseCode.SYSTEM_ERROR and "offset 1: this one is bad" in (stopped.remark or "")
        assert "nextBeginOffset" not in stopped.ext
        await made.bring("deliver.hostile", "obey")
        assert bodies((await made.pull(1)).body) == [b"bad", b"yes"]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("class_name", "source", "fields", "why"),
    [
        ("pymq.filters.unknown", "x", {}, "no filter 'unknown'"),
        ("sql92", "a >", {}, "column"),
        ("hostile", "obey", {"classCRC": "5"}, "classCRC says 5"),
        ("hostile", "obey", {"topic": "a b"}, "a b"),
        ("tag", "x" * (128 * 1024 + 1), {}, "the limit is 131072"),
    ],
)
def test_an_unusable_class_is_refused(
    tmp_path: Path, class_name: str, source: str, fields: dict[str, str], why: str
) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes")
        answer = await made.bring(class_name, source, **fields)
        assert answer.code != 0 and why in (answer.remark or "")
        pulled = await made.pull(0)
        assert pulled.code in (ResponseCode.FILTER_DATA_NOT_EXIST, ResponseCode.SYSTEM_ERROR), pulled.remark

    run(tmp_path, scenario)


async def heartbeat(made: Cluster, class_name: str, version: int, *, class_filter_mode: bool = True) -> None:
    """Send a heartbeat as Java clients from 5.0 on do: with the name of the class, never its source."""
    subscription = SubscriptionData(
        topic="T", sub_string=class_name, class_filter_mode=class_filter_mode, sub_version=version
    )
    consumer = ConsumerData(group_name="G", subscription_data_set=[subscription])
    body = encode_body(HeartbeatData(client_id="c", consumer_data_set=[consumer]))
    answer = await made.client.invoke(made.broker.address, request(RequestCode.HEART_BEAT, body=body))
    assert answer.code == 0, answer.remark


def test_without_a_given_class_heartbeats_supply_it(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"no")
        unknown = await made.pull(0)
        assert unknown.code != 0 and unknown.body == b""
        await heartbeat(made, "*", 1, class_filter_mode=False)
        unknown = await made.pull(0, sub_version=1)
        assert unknown.code == ResponseCode.FILTER_DATA_NOT_EXIST and "is known here" in (unknown.remark or "")
        await heartbeat(made, "org.example.Hostile", 2)
        unknown = await made.pull(0, sub_version=2)
        assert unknown.code == ResponseCode.FILTER_DATA_NOT_EXIST and ":EXPRESSION" in (unknown.remark or "")
        await heartbeat(made, "pymq.filters.hostile:obey", 3)
        assert bodies((await made.pull(0, sub_version=3)).body) == [b"yes"]
        early = await made.pull(0, sub_version=4)
        assert early.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        await heartbeat(made, "sql92:TAGS IS NULL", 4)
        assert bodies((await made.pull(0, sub_version=4)).body) == [b"yes", b"no"]

    run(tmp_path, scenario)


def test_refusals_of_the_broker_are_passed_on(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.bring("hostile", "obey")
        answer = await made.pull(0)
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST and "T" in (answer.remark or "")

    run(tmp_path, scenario)


def test_it_registers_again_when_the_broker_returns(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes")
        await made.bring("hostile", "obey")
        port = made.broker.config.listen_port
        await made.broker.stop()
        gone = await made.pull(0)
        assert gone.code == ResponseCode.SERVICE_NOT_AVAILABLE and "broker" in (gone.remark or "")
        made.broker = make_broker(tmp_path, made.namesrv.address, port)
        await made.broker.start()
        await until(lambda: made.registered() == [made.filter_server.address])
        assert bodies((await made.pull(0)).body) == [b"yes"]

    run(tmp_path, scenario)


def test_figures_are_logged_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"no", b"bad")
        await made.bring("hostile", "obey")
        await made.pull(0)

    with caplog.at_level(logging.INFO, "pymq.filterserver"):
        run(tmp_path, scenario)
    assert "G read T through filter hostile: 1 matched, 1 skipped, 1 errors" in caplog.text


def test_a_stopped_second_server_leaves_the_route_at_once(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        second = await made.add_filter_server()
        assert made.registered() == sorted([made.filter_server.address, second.address])
        await second.stop()
        await until(lambda: made.registered() == [made.filter_server.address])

    run(tmp_path, scenario)


def test_waiting_requests_count_in_the_budget_and_long_subscriptions_are_refused(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        assert (await made.bring("pymq.filters.sql92", "a = 1")).code == 0
        await made.send(b"yes")  # without the topic the broker refuses the pull at once
        budget = made.filter_server.server.budget
        before = budget.held[PARKED_REQUESTS]
        waiting = asyncio.create_task(made.pull(1, suspend_ms=500))
        await until(lambda: budget.held[PARKED_REQUESTS] >= before + PENDING_BYTES)
        await waiting
        await until(lambda: budget.held[PARKED_REQUESTS] == before)
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
        fields |= {"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
        fields["subscription"] = "x" * (SUBSCRIPTION_LENGTH_MAX + 1)
        answer = await made.ask(request(RequestCode.PULL_MESSAGE, fields))
        assert answer.code == 23 and f"the limit is {SUBSCRIPTION_LENGTH_MAX}" in (answer.remark or "")

    run(tmp_path, scenario)
