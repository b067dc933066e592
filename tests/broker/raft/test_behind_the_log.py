"""A real follower that is behind the begin of its leader's log gets that one, and keeps its own so long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pymq.broker.raft.joining_mark import FORMER_DIRECTORY
from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer
from pymq.model.tables import TopicConfig
from tests.broker.raft.processes import NAME, SEGMENT_BYTES, WAIT_S, RaftProcesses

TOPIC = "Behind"
QUEUE = MessageQueue(TOPIC, NAME, 0)
BODY_BYTES = 64 << 10


@pytest.mark.slow
def test_a_follower_behind_the_log_takes_the_leader_s(tmp_path: Path) -> None:
    with RaftProcesses(tmp_path) as group:
        asyncio.run(_run(group))


async def _send(group: RaftProcesses, first: int, count: int) -> None:
    async with Producer("behind", namesrv=group.namesrv) as producer:
        for number in range(first, first + count):
            await producer.send(Message(TOPIC, random.Random(number).randbytes(BODY_BYTES)), queue=QUEUE)


async def _run(group: RaftProcesses) -> None:
    count = 4 * SEGMENT_BYTES // BODY_BYTES
    async with Admin(group.namesrv) as admin:
        leader = await group.until_registered(admin)
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
        await admin.topics.put(group.address(leader), topic)
        await _send(group, 0, 4)
        behind = next(node for node in group.ports if node != leader)
        others = [node for node in group.ports if node != behind]
        await asyncio.to_thread(group.stop, behind)
        await _send(group, 4, count)
        for node in others:
            await asyncio.to_thread(group.stop, node)
            _forget_begin(group.root(node))
        for node in others:
            group.start(node)
        await group.leader(admin)
        group.start(behind)
        root = group.root(behind)
        mark, former = root / "config" / "raftJoining", root / FORMER_DIRECTORY
        await _until(lambda: "is set aside in" in group.output(behind) and not mark.exists() and not former.exists())
        await group.until_registered(admin)
        await _send(group, 4 + count, 1)
        async with PullConsumer("behind", namesrv=group.namesrv) as consumer:
            assert await consumer.max_offset(QUEUE) == 5 + count
    for node in group.ports:
        await asyncio.to_thread(group.stop, node)
    logs = {node: sorted(path.name for path in (group.root(node) / "commitlog").iterdir()) for node in group.ports}
    assert len({names[0] for names in logs.values()}) == 1, logs


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - a process makes it true
            await asyncio.sleep(0.05)


def _forget_begin(root: Path) -> None:
    """Remove the oldest two segments, as retention does."""
    segments = sorted((root / "commitlog").iterdir())
    assert len(segments) > 3
    for path in segments[:2]:
        path.unlink()
