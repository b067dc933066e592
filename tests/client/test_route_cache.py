"""The queues and addresses that a route yields."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from pymq.client.name_servers import NameServers, parse_name_servers
from pymq.client.route_cache import RouteCache, read_queues, write_queues
from pymq.clock import SystemClock
from pymq.errors import NotFoundError, UnreachableError, UsageError
from pymq.model.message import MessageQueue
from pymq.model.route import BrokerData, QueueData, TopicRoute
from pymq.net.client import RemotingClient
from pymq.wire.codes import RequestCode
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer


def broker(name: Any, addresses: Any) -> Any:
    return BrokerData(cluster="C", broker_name=name, broker_addrs=addresses)


def queues(name: Any, read: int = 2, write: int = 2, perm: int = 6) -> Any:
    return QueueData(broker_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm)


ROUTE = TopicRoute(
    queue_datas=[
        queues("b", read=1, write=3),
        queues("a"),
        queues("ro", perm=4),
        queues("wo", perm=2),
        queues("slave"),
    ],
    broker_datas=[broker(name, {0: f"{name}:1"}) for name in ("a", "b", "ro", "wo")]
    + [broker("slave", {1: "slave:2"})],
)


def names(result: Any) -> Any:
    return [(queue.broker_name, queue.queue_id) for queue in result]


def test_name_servers_default_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert parse_name_servers(None) == ["a:1", "b:2"]
    assert parse_name_servers("c:3") == ["c:3"]
    for empty in ("", " "):
        monkeypatch.setenv("NAMESRV_ADDR", empty)
        assert parse_name_servers(None) == ["127.0.0.1:9876"]
    monkeypatch.delenv("NAMESRV_ADDR")
    assert parse_name_servers(None) == ["127.0.0.1:9876"]


def test_a_producer_uses_writable_masters_sorted() -> None:
    assert names(write_queues("T", ROUTE)) == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("wo", 0), ("wo", 1)]


def test_a_consumer_uses_readable_brokers_slaves_included() -> None:
    assert names(read_queues("T", ROUTE)) == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("ro", 0),
        ("ro", 1),
        ("slave", 0),
        ("slave", 1),
    ]


def test_an_order_configuration_replaces_the_write_queues() -> None:
    route = TopicRoute(queue_datas=ROUTE.queue_datas, broker_datas=ROUTE.broker_datas, order_topic_conf="b:2;a:1")
    assert names(write_queues("T", route)) == [("b", 0), ("b", 1), ("a", 0)]


@pytest.mark.parametrize("given", ["a:1;b:2", "a:1, b:2", ["a:1", "b:2"], "a:1;;b:2;"])
def test_name_server_lists(given: Any) -> None:
    assert parse_name_servers(given) == ["a:1", "b:2"]


def test_an_empty_name_server_list_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_name_servers([])


def run(scenario: Any, body: Any) -> None:
    async def main() -> None:
        server = await FakeServer().start()
        server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda command: body(command))
        remoting = RemotingClient(clock=SystemClock())
        changed: list[Any] = []
        cache = RouteCache(NameServers(server.address, remoting, random.Random(1)), changed.append)
        try:
            await scenario(server, cache, changed)
        finally:
            await remoting.close()
            await server.stop()

    asyncio.run(main())


JAVA_ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"m:1",1:"s:2"},"brokerName":"a","cluster":"C"}],'
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":1,"topicSynFlag":0}]}'
)


def test_routes_with_bare_broker_ids_are_read() -> None:
    async def scenario(server: FakeServer, cache: Any, changed: Any) -> None:
        queue = MessageQueue("T", "a", 0)
        assert await cache.read_address(queue) == "m:1"
        assert await cache.read_address(queue, 1) == "s:2"
        assert await cache.read_address(queue, 7) == "m:1"
        assert await cache.write_address(queue) == "m:1"
        assert changed == ["T"]
        await cache.refresh()
        assert changed == ["T"], "the same route again is no change"
        with pytest.raises(UnreachableError, match="ghost"):
            await cache.read_address(MessageQueue("T", "ghost", 0))

    run(scenario, lambda command: Reply(body=JAVA_ROUTE))


def test_an_unknown_topic_is_not_found() -> None:
    async def scenario(server: FakeServer, cache: Any, changed: Any) -> None:
        with pytest.raises(NotFoundError, match="Ghost"):
            await cache.route("Ghost")

    run(scenario, lambda command: Reply(17, "no route"))
