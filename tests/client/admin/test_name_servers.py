"""Admin calls and clients with several name servers: some away, some with another view of the cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.client import Message, Producer
from pymq.client.admin import Admin
from pymq.client.name_servers import NameServers
from pymq.client.route_cache import RouteCache
from pymq.clock import ManualClock, SystemClock
from pymq.config import load_broker_config
from pymq.errors import NotFoundError, PartialError, RefusedError, UnreachableError
from pymq.namesrv.server import NameServer
from pymq.net.client import RemotingClient
from pymq.store.disk.memory_fs import MemoryFiles
from tests.namesrv.support import identity, report
from tests.net.test_name_server_list import AddressServer

AWAY = "127.0.0.1:1"
SMALL = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "1000", "maxIndexNum": "4000", "fastListenPort": "-1"}


class Pair:
    """Two name servers and an admin client that uses both. Only ``second`` knows a broker."""

    def __init__(self) -> None:
        self.first, self.second = NameServer(clock=ManualClock()), NameServer(clock=ManualClock())
        self.second.table.register(report(identity("known", port=9), "T", connection=object()))

    @property
    def addresses(self) -> list[str]:
        return [self.first.address, self.second.address]


def run(work: Callable[[Pair, Admin], Awaitable[None]]) -> None:
    async def scenario() -> None:
        pair = Pair()
        await pair.first.start(port=0)
        await pair.second.start(port=0)
        try:
            async with Admin(pair.addresses) as admin:
                await work(pair, admin)
        finally:
            await pair.first.stop()
            await pair.second.stop()

    asyncio.run(scenario())


def test_a_route_that_one_name_server_lacks_comes_from_the_other() -> None:
    async def work(pair: Pair, admin: Admin) -> None:
        assert [data.broker_name for data in (await admin.topics.route("T")).queue_datas] == ["known"]
        with pytest.raises(NotFoundError):
            await admin.topics.route("Nowhere")
        for seed in range(2):  # the first one asked is random
            remoting = RemotingClient(clock=ManualClock())
            routes = RouteCache(NameServers(pair.addresses, remoting, random.Random(seed)))
            try:
                assert (await routes.renew("T")).broker("known") is not None
                with pytest.raises(NotFoundError):
                    await routes.renew("Nowhere")
            finally:
                await remoting.close()

    run(work)


def test_brokers_come_from_a_name_server_that_knows_some() -> None:
    async def work(pair: Pair, admin: Admin) -> None:
        assert [target.name for target in await admin.cluster.masters()] == ["known"]

    run(work)


def test_a_change_reaches_the_servers_that_are_there_and_names_the_others() -> None:
    async def work(pair: Pair, admin: Admin) -> None:
        async with Admin([pair.first.address, AWAY, pair.second.address]) as partly:
            with pytest.raises(PartialError, match=AWAY) as caught:
                await partly.namesrv.put_value("SPACE", "key", "value")
            assert caught.value.done == pair.addresses
            assert list(caught.value.failed) == [AWAY]
            assert [server.kv.get("SPACE", "key") for server in (pair.first, pair.second)] == ["value"] * 2
            with pytest.raises(PartialError):
                await partly.namesrv.update_config({"orderMessageEnable": "true"})
            assert pair.second.config.order_message_enable
            configs = await partly.namesrv.configs()
            assert isinstance(configs[AWAY], UnreachableError)
        await admin.namesrv.update_config({"orderMessageEnable": "false"}, pair.first.address)
        assert not pair.first.config.order_message_enable
        assert pair.second.config.order_message_enable
        with pytest.raises(RefusedError, match="listenPort"):
            await admin.namesrv.update_config({"listenPort": "1"})

    run(work)


def test_a_value_that_one_name_server_lost_comes_from_the_other() -> None:
    async def work(pair: Pair, admin: Admin) -> None:
        pair.second.kv.put("SPACE", "key", "value", count_max=9)
        assert await admin.namesrv.value("SPACE", "key") == "value"
        assert await admin.namesrv.values("SPACE") == {"key": "value"}
        assert await admin.namesrv.value("SPACE", "other") is None

    run(work)


def test_clients_brokers_and_admin_calls_find_name_servers_by_an_address_server() -> None:
    async def scenario() -> None:
        pair = Pair()
        await pair.second.start(port=0)
        address_server = AddressServer()
        address_server.body = pair.second.address.encode()
        settings = {"namesrvAddr": address_server.url, "listenPort": "0", "storePathRootDir": "/store"}
        config = load_broker_config(None, {**SMALL, **settings}, env={})
        broker = Broker(config, clock=SystemClock(), files=MemoryFiles(), rng=random.Random(1))
        try:
            await broker.start()
            assert config.namesrv_addresses == [pair.second.address]
            async with Admin(address_server.url) as admin:
                assert admin.namesrv.addresses == [pair.second.address]
                assert "TBW102" in await admin.topics.names()
            async with Producer("found", namesrv=address_server.url) as producer:
                await producer.send(Message("T-found", b"x"))
        finally:
            await broker.stop()
            address_server.close()
            await pair.second.stop()
        with pytest.raises(UnreachableError, match="address server"):
            async with Admin(address_server.url):
                pass

    asyncio.run(scenario())
