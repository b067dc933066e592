"""Every admin call against a running standalone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer
from pymq.client.admin.asking import BrokerTarget
from pymq.errors import NotFoundError, PartialError, RefusedError, UnreachableError, UsageError
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.testing.standalone import StandaloneProcess

T = TypeVar("T")
Call = Callable[[Callable[[Admin], Awaitable[Any]]], Any]


@pytest.fixture
def call(server: StandaloneProcess) -> Call:
    """Run a coroutine function with an Admin of the server."""

    def run(work: Callable[[Admin], Awaitable[T]]) -> T:
        async def session() -> T:
            async with Admin(server.namesrv) as admin:
                return await work(admin)

        return asyncio.run(session())

    return run


async def put_topic(admin: Admin, server: StandaloneProcess, topic: str, queues: int = 2) -> None:
    config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
    await admin.topics.put(server.broker, config)


async def send(server: StandaloneProcess, topic: str, count: int = 1, key: str = "") -> list[str]:
    """Send ``count`` messages to queue 0 and return their ids."""
    async with Producer("admin_test", namesrv=server.namesrv) as producer:
        queue = MessageQueue(topic, "broker-a", 0)
        results = [await producer.send(Message(topic, b"body", keys=key), queue=queue) for _ in range(count)]
    return [result.message_id for result in results]


async def commit(server: StandaloneProcess, group: str, topic: str, offset: int) -> None:
    async with PullConsumer(group, namesrv=server.namesrv) as pull:
        [queue, *_] = await pull.queues(topic)
        await pull.pull(queue, 0)
        await pull.commit(queue, offset)


def test_masters_and_selection(call: Call, server: StandaloneProcess) -> None:
    target = BrokerTarget("broker-a", "DefaultCluster", server.broker)

    async def work(admin: Admin) -> None:
        assert await admin.cluster.masters() == [target]
        assert await admin.cluster.select() == [target]
        assert await admin.cluster.select(["DefaultCluster"], ["broker-a", server.broker]) == [target]
        assert await admin.cluster.select(brokers=["h:1"]) == [BrokerTarget("", "", "h:1")]
        with pytest.raises(NotFoundError, match="DefaultCluster"):
            await admin.cluster.select(["Nowhere"])

    call(work)


def test_topic_configuration_round_trip(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        await put_topic(admin, server, "configured", 3)
        config = await admin.topics.config(server.broker, "configured")
        assert config is not None
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (3, 3, 6)
        assert (await admin.topics.configs(server.broker))["configured"] == config
        assert await admin.topics.config(server.broker, "absent") is None
        assert "configured" in await admin.topics.names()
        assert "configured" in await admin.topics.names("DefaultCluster")
        assert await admin.topics.names("Nowhere") == []
        assert {"TBW102", "DefaultCluster", "broker-a"} <= await admin.topics.system_names()

    call(work)


def test_update_touches_nothing_when_a_broker_lacks_the_topic(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        [target] = await admin.topics.targets("TBW102")
        with pytest.raises(NotFoundError, match="pymq topic create"):
            await admin.topics.update("absent", [target], write_queues=1)

    call(work)


def test_stats_groups_and_deletion(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        await put_topic(admin, server, "statistics")
        await send(server, "statistics", 3)
        await commit(server, "stat_readers", "statistics", 1)
        stats = await admin.topics.stats("statistics")
        assert [(queue.queue_id, at.min_offset, at.max_offset) for queue, at in stats.items()] == [(0, 0, 3), (1, 0, 0)]
        assert await admin.topics.groups("statistics") == ["stat_readers"]
        targets = await admin.topics.targets("statistics")
        known = await admin.topics.deleted_below("statistics", targets)
        assert known == {server.broker: 0} and await admin.topics.deleted_below("nothing", targets) == {}
        await admin.topics.delete("statistics", targets, everywhere=True, known=known)
        with pytest.raises(NotFoundError, match="statistics"):
            await admin.topics.route("statistics")

    call(work)


def test_refusals_carry_code_remark_and_address(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises(RefusedError) as caught:
            await put_topic(admin, server, "a/b")
        assert caught.value.code != 0
        assert "a/b" in caught.value.remark
        assert caught.value.address == server.broker

    call(work)


def test_group_configuration_round_trip(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        await admin.groups.put(server.broker, SubscriptionGroupConfig(group_name="configured_group", retry_max_times=3))
        config = await admin.groups.config(server.broker, "configured_group")
        assert config is not None
        assert config.retry_max_times == 3
        assert (await admin.groups.all_configs())["configured_group"] == {"broker-a": config}
        await admin.groups.delete(server.broker, "configured_group", with_offsets=True)
        assert await admin.groups.config(server.broker, "configured_group") is None

    call(work)


def test_lag_topics_resets_and_clones(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        await put_topic(admin, server, "progress")
        await send(server, "progress", 5)
        await commit(server, "runners", "progress", 2)
        queue = MessageQueue("progress", "broker-a", 0)
        assert (await admin.groups.lag("runners"))[queue].lag == 3
        assert (await admin.groups.lag("runners", "progress"))[queue].consumer_offset == 2
        assert await admin.groups.lag("unknown") == {}
        assert "progress" in await admin.groups.topics("runners")
        targets = await admin.cluster.masters()
        moved = await admin.groups.reset_offsets("runners", "progress", targets, timestamp_ms=0)
        assert moved[queue] == 0
        assert (await admin.groups.reset_offsets("runners", "progress", targets, timestamp_ms=-1))[queue] == 5
        one = await admin.groups.reset_offsets("runners", "progress", targets, timestamp_ms=0, queue_id=0, offset=4)
        assert one[queue] == 4
        assert (await admin.groups.lag("runners"))[queue].lag == 1
        with pytest.raises(NotFoundError, match="absent"):
            await admin.groups.reset_offsets("runners", "absent", targets, timestamp_ms=0)
        await admin.groups.put(server.broker, SubscriptionGroupConfig(group_name="followers"))
        await admin.groups.clone_offsets(server.broker, "runners", "followers", "progress")
        assert (await admin.groups.lag("followers"))[queue].consumer_offset == 4
        assert (await admin.groups.correction_offsets(server.broker, "progress", "runners", []))[0] == 4
        spans = await admin.groups.time_spans(server.broker, "runners", "progress")
        assert {span.message_queue.queue_id for span in spans} <= {0, 1}

    call(work)


def test_a_group_without_members_is_offline(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        assert await admin.groups.connections(server.broker, "nobody_here") is None
        assert await admin.brokers.producer_connections(server.broker, "nobody_here") == []
        with pytest.raises(RefusedError):
            await admin.groups.running_info(server.broker, "nobody_here", "client")

    call(work)


def test_producers_are_listed_while_they_live(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        await put_topic(admin, server, "produced")
        async with Producer("listed_producers", namesrv=server.namesrv, instance_name="me") as producer:
            await producer.send(Message("produced", b"body"))
            async with asyncio.timeout(10):  # the heartbeat runs concurrently with the send
                online: list[Any] = []
                while not online:
                    online = await admin.brokers.producer_connections(server.broker, "listed_producers")
            assert [one.client_id for one in online] == [producer.client_id]
            assert [one.client_id for one in (await admin.brokers.producers(server.broker))["listed_producers"]] == [
                producer.client_id
            ]

    call(work)


def test_messages_by_each_way(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        await put_topic(admin, server, "findable")
        [unique] = await send(server, "findable", key="k1 k2")
        [found] = await admin.messages.by_unique_key("findable", unique)
        assert (found.content(), found.broker_name) == (b"body", "broker-a")
        assert (await admin.messages.by_offset_id(found.offset_message_id)).message_id == unique
        assert [one.message_id for one in await admin.messages.by_key("findable", "k2")] == [unique]
        assert await admin.messages.by_key("findable", "k3") == []
        with pytest.raises(UsageError):
            await admin.messages.by_offset_id("nonsense")
        with pytest.raises(NotFoundError):
            await admin.messages.by_key("absent", "k")

    call(work)


def test_broker_state(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        await put_topic(admin, server, "state")
        await send(server, "state", 2)
        runtime = await admin.brokers.runtime_info(server.broker)
        assert runtime["brokerVersionDesc"]
        assert len(runtime["putTps"].split()) == 3
        assert (await admin.brokers.ha_status(server.broker)).master
        entries = await admin.brokers.consume_queue(server.broker, "state", 0, 0, 10)
        assert (entries.min_queue_index, entries.max_queue_index, len(entries.queue_data or [])) == (0, 2, 2)
        assert "TBW102" in await admin.brokers.system_topics(server.broker)
        assert await admin.brokers.stats(server.broker, "TOPIC_PUT_NUMS", "absent") is None
        assert (await admin.brokers.consume_stats(server.broker)).broker_addr in (server.broker, "")
        await admin.brokers.clean_expired_consume_queues(server.broker)
        await admin.brokers.clean_unused_topics(server.broker)
        await admin.brokers.delete_expired_commit_log(server.broker)

    call(work)


def test_settings_change_by_the_allow_list_only(call: Call, server: StandaloneProcess) -> None:
    async def work(admin: Admin) -> None:
        assert (await admin.brokers.config(server.broker))["brokerName"] == "broker-a"
        await admin.brokers.update_config(server.broker, {"maxBatchNums": "1000"})
        assert (await admin.brokers.config(server.broker))["maxBatchNums"] == "1000"
        for changes in ({"brokerName": "other"}, {"maxBatchNums": "many"}, {"nonsense": "1"}):
            with pytest.raises(RefusedError):
                await admin.brokers.update_config(server.broker, changes)
        with pytest.raises(UsageError, match="name=value"):
            await admin.brokers.update_config(server.broker, {"maxBatchNums": "1\nbrokerName=other"})
        assert "listenPort" in await admin.namesrv.config()
        await admin.namesrv.update_config({"orderMessageEnable": "true"})
        assert (await admin.namesrv.config(server.namesrv))["orderMessageEnable"] == "true"

    call(work)


def test_shared_values(call: Call) -> None:
    async def work(admin: Admin) -> None:
        assert await admin.namesrv.values("NOWHERE") == {}
        assert await admin.namesrv.value("SPACE", "key") is None
        await admin.namesrv.put_value("SPACE", "key", "value")
        assert await admin.namesrv.value("SPACE", "key") == "value"
        assert await admin.namesrv.values("SPACE") == {"key": "value"}
        await admin.namesrv.delete_value("SPACE", "key")
        assert await admin.namesrv.value("SPACE", "key") is None

    call(work)


def test_taking_a_broker_out_of_service_and_back(call: Call) -> None:
    async def work(admin: Admin) -> None:
        assert await admin.namesrv.wipe_write_permission("broker-a") > 0
        assert not any(data.writable for data in (await admin.topics.route("TBW102")).queue_datas)
        assert await admin.namesrv.add_write_permission("broker-a") > 0
        assert all(data.writable for data in (await admin.topics.route("TBW102")).queue_datas)

    call(work)


def test_the_next_name_server_is_asked(server: StandaloneProcess) -> None:
    async def work() -> None:
        async with Admin(f"127.0.0.1:1;{server.namesrv}") as admin:
            assert await admin.cluster.masters()
            with pytest.raises(PartialError, match=r"but not at .*127\.0\.0\.1:1 "):
                await admin.namesrv.put_value("N", "k", "v")
        async with Admin(["127.0.0.1:1", "127.0.0.1:2"]) as admin:
            with pytest.raises(UnreachableError, match="none of the 2 name servers"):
                await admin.cluster.masters()

    asyncio.run(work())
