"""What a leader of real processes acknowledged is known to the next one after a kill: tables, and a message's place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer
from pymq.client.admin.asking import BrokerTarget
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from tests.broker.raft.processes import NAME, RaftProcesses

TOPIC, GONE, GROUP = "RaftTables", "RaftTablesGone", "raft-tables"
OFFSETS = {0: 3, 1: 7}


@pytest.mark.slow
def test_acknowledged_topics_groups_and_offsets_survive_a_kill(tmp_path: Path) -> None:
    with RaftProcesses(tmp_path) as group:
        asyncio.run(_run(group))


async def _run(group: RaftProcesses) -> None:
    async with Admin(group.namesrv) as admin:
        leader = await group.until_registered(admin)
        address = f"127.0.0.1:{group.ports[leader]}"
        for topic in (TOPIC, GONE):
            await admin.topics.put(address, TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2))
        await admin.groups.put(address, SubscriptionGroupConfig(group_name=GROUP, retry_max_times=5))
        async with Producer("raft-tables-p", namesrv=group.namesrv) as producer:
            for queue_id in OFFSETS:
                queue = MessageQueue(TOPIC, NAME, queue_id)
                for number in range(10):
                    await producer.send(Message(TOPIC, b"%d" % number), queue=queue)
            once = await producer.send(Message(TOPIC, b"once"), queue=MessageQueue(TOPIC, NAME, 0))
        await admin.topics.delete(GONE, [BrokerTarget(NAME, "", address)], everywhere=False)
        async with PullConsumer(GROUP, namesrv=group.namesrv) as consumer:
            await asyncio.gather(
                *(consumer.commit(MessageQueue(TOPIC, NAME, queue_id), at) for queue_id, at in OFFSETS.items())
            )
        await asyncio.to_thread(group.kill, leader)
        leader = await group.leader(admin, besides=leader)
        address = f"127.0.0.1:{group.ports[leader]}"
        again = Message(TOPIC, b"once", properties={"UNIQ_KEY": once.message_id, "PYMQ_RESEND": "1"})
        async with Producer("raft-tables-p", namesrv=group.namesrv) as producer:
            resent = await producer.send(again, queue=MessageQueue(TOPIC, NAME, 1))
        assert (resent.queue.queue_id, resent.queue_offset) == (0, once.queue_offset)
        topics = await admin.topics.configs(address)
        assert topics[TOPIC].write_queue_nums == 2 and GONE not in topics
        groups = await admin.groups.configs(address)
        assert groups[GROUP].retry_max_times == 5
        async with PullConsumer(GROUP, namesrv=group.namesrv) as consumer:
            for queue_id, offset in OFFSETS.items():
                assert await consumer.committed(MessageQueue(TOPIC, NAME, queue_id)) == offset


@pytest.mark.slow
def test_a_topic_that_was_made_again_is_empty_on_the_next_leader(tmp_path: Path) -> None:
    """Neither its messages come back, nor those that waited for a delay."""
    with RaftProcesses(tmp_path, settings={"messageDelayLevel": "1s 5s"}) as group:
        asyncio.run(_make_again(group))


async def _make_again(group: RaftProcesses) -> None:
    async with Admin(group.namesrv) as admin:
        leader = await group.until_registered(admin)
        address = f"127.0.0.1:{group.ports[leader]}"
        queue = MessageQueue(GONE, NAME, 0)
        config = TopicConfig(topic_name=GONE, read_queue_nums=1, write_queue_nums=1)
        async with Producer("raft-again-p", namesrv=group.namesrv) as producer:
            for generation in (b"old", b"new"):
                await admin.topics.put(address, config)
                await producer.send(Message(GONE, generation), queue=queue)
                await producer.send(Message(GONE, generation + b" late", delay_level=2), queue=queue)
                if generation == b"old":
                    await admin.topics.delete(GONE, [BrokerTarget(NAME, "", address)], everywhere=False)
        await asyncio.to_thread(group.kill, leader)
        await group.leader(admin, besides=leader)
        async with PullConsumer(GROUP, namesrv=group.namesrv) as consumer:
            assert await consumer.min_offset(queue) == 0
            found: list[bytes] = []
            while b"new late" not in found:
                result = await consumer.pull(queue, len(found), 32)
                found += [message.body for message in result.messages()]
    assert found == [b"new", b"new late"], found
