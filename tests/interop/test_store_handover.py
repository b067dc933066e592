"""Apache RocketMQ 5.3.3 and PyMQ take turns on one data directory: each serves and extends the other's files."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from pymq.client import Admin, ConsumeResult, Message, Producer, PushConsumer, StoredMessage
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from tests.client.scenarios import until
from tests.interop.support import contents, probe
from tests.interop.support.apache import SEGMENT_SIZE_BYTES, ApacheServer
from tests.interop.support.contents import Contents
from tests.interop.support.pymq_server import PymqServer

Broker = ApacheServer | PymqServer

SEND_TIMEOUT_S = 30.0
TOPIC = "handover"
GROUP = "handover-group"
ROUND_COUNT = 20


def _send_round(server: ApacheServer | PymqServer, writer: str) -> list[str]:
    bodies = [f"{writer} {number}" for number in range(ROUND_COUNT)]
    for number, body in enumerate(bodies):
        ext = {"a": "handover-producer", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(number % 4), "f": "0"}
        ext |= {"g": "1", "h": "0", "i": f"KEYS\x01{writer}-{number}\x02TAGS\x01{writer}\x02"}
        reply = probe.call(server.broker, 310, ext, body.encode())
        assert reply.code == 0, reply
    return bodies


def _check(server: ApacheServer | PymqServer, written: list[str]) -> None:
    probe.wait_for_messages(server.broker, TOPIC, len(written))
    found: list[str] = []
    for queue in range(4):
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue), "queueOffset": "0", "sysFlag": "4"}
        ext |= {"maxMsgNums": "100", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
        offset = 0
        while offset < probe.max_offset(server.broker, TOPIC, queue):
            reply = probe.call(server.broker, 11, {**ext, "queueOffset": str(offset), "subscription": "*"})
            assert reply.code == 0, reply
            found += probe.bodies(reply.body)
            offset = int(reply.ext["nextBeginOffset"])
    assert sorted(found) == sorted(written)
    for writer in {body.split()[0] for body in written}:
        ext = {"topic": TOPIC, "key": f"{writer}-7", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
        probe.wait_until(f"the index of {writer}", lambda ext=ext: probe.call(server.broker, 12, ext).code == 0)
        assert probe.bodies(probe.call(server.broker, 12, ext).body) == [f"{writer} 7"]


def _commit(server: ApacheServer | PymqServer, offset: int) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "2", "commitOffset": str(offset)}
    assert probe.call(server.broker, 15, ext).code == 0


def _committed(server: ApacheServer | PymqServer) -> int:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "2"}
    return int(probe.call(server.broker, 14, ext).ext["offset"])


def test_a_directory_moves_to_pymq_and_back(tmp_path: Path) -> None:
    first = ApacheServer(tmp_path / "first")
    try:
        probe.create_topic(first.namesrv, first.broker, TOPIC)
        written = _send_round(first, "apache")
        _check(first, written)
        _commit(first, 3)
        first.close_store()
    finally:
        first.stop()

    settings = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES)}
    middle = PymqServer(tmp_path / "middle", settings, store=first.store)
    try:
        _check(middle, written)
        assert _committed(middle) == 3
        written += _send_round(middle, "pymq")
        _check(middle, written)
        _commit(middle, 4)
    finally:
        assert middle.stop() == 0, middle.log_tail()

    last = ApacheServer(tmp_path / "last", store=first.store)
    try:
        _check(last, written)
        assert _committed(last) == 4
        written += _send_round(last, "again")
        _check(last, written)
    finally:
        last.stop()


# Small files, so that every kind fills up during the work and continues in the next one.
SMALL_FILES = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "messageDelayLevel": "1s 8s 1h",
    "flushConsumerOffsetInterval": "200",
}
SOON, LATER, NOT_TODAY = 1, 2, 3  # the delay levels
LATER_S = 8
PLAIN, DELAYED, FAILING, SHRUNK = "plain", "delayed", "failing", "shrunk"
TUNED, RETRIERS = "tuned", "retriers"
RETRY, DLQ = f"%RETRY%{RETRIERS}", f"%DLQ%{RETRIERS}"
TOPICS = [PLAIN, DELAYED, FAILING, SHRUNK, RETRY, DLQ]
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TAGS = ["", "TagA", "Grüße", "标签 🚀"]
QUEUE_COUNT = 4
CONSUMER_OFFSETS = "config/consumerOffset.json"


async def _make_topics(server: PymqServer) -> None:
    async with Admin(server.namesrv) as admin:
        for topic in (PLAIN, DELAYED, FAILING, SHRUNK):
            config = TopicConfig(topic_name=topic, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
            await admin.topics.put(server.broker, config)
        tuned = SubscriptionGroupConfig(
            group_name=TUNED,
            consume_broadcast_enable=False,
            retry_queue_nums=2,
            retry_max_times=5,
            group_sys_flag=1,
            attributes={"priority.factor": "5"},
        )
        await admin.groups.put(server.broker, tuned)


async def _write(server: Broker, writer: str) -> None:
    """Send single messages with all kinds of tags and keys, batches, compressed bodies and delayed messages."""
    async with Producer(f"{writer}-producer", namesrv=server.namesrv, compress_above_bytes=2**22) as producer:
        queues = await producer.queues(PLAIN)
        for n in range(120):
            body = f"{writer} {n} ".encode() + b"x" * (n * 37 % 900)
            keys = f"{writer}-{n} {writer}-tens-{n // 10}"
            message = Message(PLAIN, body, tags=TAGS[n % 4], keys=keys, properties={"stadt": "Köln"}, flag=n)
            await producer.send(message, queue=queues[n % QUEUE_COUNT], timeout_s=SEND_TIMEOUT_S)
        for n in range(20):
            batch = [
                Message(PLAIN, f"{writer} batch {n} {i}".encode(), tags="B", keys=f"{writer}-b{n}") for i in range(15)
            ]
            await producer.send_batch(batch, queue=queues[n % QUEUE_COUNT], timeout_s=SEND_TIMEOUT_S)
        for n in range(3):
            await producer.send(_delayed(writer, n, SOON), timeout_s=SEND_TIMEOUT_S)
        await producer.send(_delayed(writer, 0, NOT_TODAY), timeout_s=SEND_TIMEOUT_S)
    for kind in ("zlib", "lz4", "zstd"):
        async with Producer("packer", namesrv=server.namesrv, compress=kind) as producer:
            body = f"{writer} {kind} ".encode() * 2000
            await producer.send(Message(PLAIN, body, keys=f"{writer}-{kind}"), timeout_s=SEND_TIMEOUT_S)


def _delayed(writer: str, number: int, level: int) -> Message:
    return Message(DELAYED, f"{writer} level {level} {number}".encode(), keys=f"d{number}", delay_level=level)


async def _leave_pending(server: Broker, writer: str) -> float:
    """Send messages that are due after the broker's end; return the wall-clock second when the first is due."""
    due_s = time.time() + LATER_S
    async with Producer(f"{writer}-producer", namesrv=server.namesrv) as producer:
        for n in range(3):
            await producer.send(_delayed(writer, n, LATER), timeout_s=SEND_TIMEOUT_S)
    return due_s


async def _fail_twice(server: PymqServer) -> None:
    """Run a consumer that always fails: each message is retried and then given up."""

    def fail(messages: list[StoredMessage]) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER

    consumer = PushConsumer(
        RETRIERS, namesrv=server.namesrv, on_message=fail, consume_from="first", delay_level=SOON, max_reconsume_times=1
    )
    consumer.subscribe(FAILING)
    async with consumer, Producer("failing-producer", namesrv=server.namesrv) as producer:
        for n in range(3):
            await producer.send(Message(FAILING, b"never %d" % n, keys=f"never{n}", tags="N"), timeout_s=SEND_TIMEOUT_S)
        await until(lambda: _max_offset(server, DLQ) == 3, "three dead letters")


def _max_offset(server: Broker, topic: str) -> int:
    reply = probe.call(server.broker, probe.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
    return int(reply.ext["offset"]) if reply.code == 0 else 0


async def _shrink_topic(server: PymqServer) -> None:
    """Make a topic that is being shrunk and is only readable."""
    async with Producer("shrunk-producer", namesrv=server.namesrv) as producer:
        for queue in await producer.queues(SHRUNK):
            await producer.send(Message(SHRUNK, b"old", keys="n"), queue=queue, timeout_s=SEND_TIMEOUT_S)
    async with Admin(server.namesrv) as admin:
        config = TopicConfig(
            topic_name=SHRUNK,
            read_queue_nums=QUEUE_COUNT,
            write_queue_nums=2,
            perm=4,
            order=True,
            attributes={"message.type": "NORMAL"},
        )
        await admin.topics.put(server.broker, config)


def _delivered(server: Broker, writer: str, level: int) -> list[int]:
    """Wait for one writer's three messages of a level and return their store timestamps; a repeat counts once."""
    found: dict[bytes, int] = {}

    def all_there() -> bool:
        for queue in range(QUEUE_COUNT):
            records = contents.read_queue(server.broker, DELAYED, queue)
            found.update({one.body: one.store_timestamp_ms for one in records})
        return all(f"{writer} level {level} {n}".encode() in found for n in range(3))

    probe.wait_until(f"{writer}'s messages of level {level}", all_there)
    return [found[f"{writer} level {level} {n}".encode()] for n in range(3)]


def _check_kept(before: Contents, after: Contents, added_to: set[str]) -> None:
    """Check that all former contents are unchanged and in place, with additions to the named topics only."""
    missing = [place for place in before.records if place not in after.records]
    assert not missing, f"{len(missing)} messages are gone, the first is {missing[0]}"
    changed = [place for place, record in before.records.items() if after.records[place] != record]
    assert not changed, f"{len(changed)} messages have changed, the first is {changed[0]}"
    assert {place[0] for place in after.records.keys() - before.records.keys()} <= added_to
    assert {queue: low for queue, (low, _) in after.bounds.items()} == {
        queue: low for queue, (low, _) in before.bounds.items()
    }
    assert (after.topics, after.groups) == (before.topics, before.groups)


def _contents(server: Broker) -> Contents:
    return contents.read(server.broker, TOPICS, [TUNED, RETRIERS])


def _check_lookups(server: Broker, found: Contents) -> None:
    contents.check_ids(server.broker, found.records.values())
    contents.check_keys(server.broker, found.records.values())
    for tag in TAGS[1:]:
        # The broker compares hashes: all its results have the tag, as none of these hashes collide.
        reply = contents.pull(server.broker, PLAIN, TAGS.index(tag), 0, tag)
        assert {record.properties["TAGS"] for record in probe.records(reply.body)} == {tag}


def _wait_for_saved_offsets(store: Path, expected: dict[str, int]) -> None:
    def saved() -> bool:
        path = store / CONSUMER_OFFSETS
        return path.exists() and json.loads(path.read_text())["offsetTable"].get(f"{PLAIN}@{TUNED}") == expected

    probe.wait_until("the saved offsets", saved)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_directory_moves_to_java_and_back(tmp_path: Path, killed: bool) -> None:
    """PyMQ writes, Java serves and adds, PyMQ serves and adds; each ends cleanly or by SIGKILL.

    After SIGKILL both sides deliver again what the delay levels' saved offsets do not cover yet, and the Java broker,
    which saves consumer offsets 10 s after its start for the first time, may forget earlier ones. It deletes
    its active index file and rebuilds it from the segment where it begins to read: here from the first one, as no
    checkpoint is older than 3 s, so all keys are found.
    """
    first = PymqServer(tmp_path / "first", SMALL_FILES)
    try:
        asyncio.run(_make_topics(first))
        asyncio.run(_write(first, "pymq"))
        asyncio.run(_fail_twice(first))
        asyncio.run(_shrink_topic(first))
        for queue, offset in enumerate((7, 3, 0)):
            contents.commit(first.broker, TUNED, PLAIN, queue, offset)
        _delivered(first, "pymq", SOON)
        before = _contents(first)
        assert before.committed[TUNED, PLAIN, 0] == 7 and before.committed[TUNED, PLAIN, 3] is None
        assert (before.topics[SHRUNK]["writeQueueNums"], before.topics[SHRUNK]["perm"]) == (2, 4)
        _wait_for_saved_offsets(first.store, {"0": 7, "1": 3, "2": 0})
        due_s = asyncio.run(_leave_pending(first, "pymq"))
    finally:
        if killed:
            first.kill()
        else:
            assert first.stop() == 0, first.log_tail()
    # Messages that its end left pending: after SIGKILL some are delivered again.
    redelivered = {DELAYED, RETRY} if killed else {DELAYED}
    assert len(list((first.store / "commitlog").iterdir())) > 2
    assert len(list((first.store / "consumequeue" / PLAIN / "0").iterdir())) > 1
    was_pending = time.time() < due_s

    second = ApacheServer(tmp_path / "second", SMALL_FILES, store=first.store)
    try:
        came_ms = _delivered(second, "pymq", LATER)
        if was_pending:
            assert min(came_ms) >= due_s * 1000 - 1
        after = _contents(second)
        _check_kept(before, after, redelivered)
        assert after.committed == before.committed
        if not killed:
            assert after.bodies(DELAYED) == sorted(
                [*before.bodies(DELAYED), *(_delayed("pymq", n, LATER).body for n in range(3))]
            )
        _check_lookups(second, after)
        asyncio.run(_write(second, "java"))
        contents.commit(second.broker, TUNED, PLAIN, 0, 9)
        contents.commit(second.broker, TUNED, PLAIN, 3, 2)
        _delivered(second, "java", SOON)
        before = _contents(second)
        due_s = asyncio.run(_leave_pending(second, "java"))
    finally:
        if killed:
            second.stop()
        else:
            second.close_store()
    was_pending = time.time() < due_s

    third = PymqServer(tmp_path / "third", SMALL_FILES, store=first.store)
    try:
        came_ms = _delivered(third, "java", LATER)
        if was_pending:
            assert min(came_ms) >= due_s * 1000 - 1
        after_all = _contents(third)
        _check_kept(before, after_all, redelivered)
        if killed:
            assert after_all.committed[TUNED, PLAIN, 0] in (7, 9)
            assert after_all.committed[TUNED, PLAIN, 1] == 3
            assert after_all.committed[TUNED, PLAIN, 3] in (None, 2)
        else:
            assert after_all.committed == before.committed
            assert after_all.bodies(DELAYED) == sorted(
                [*before.bodies(DELAYED), *(_delayed("java", n, LATER).body for n in range(3))]
            )
        _check_lookups(third, after_all)
        asyncio.run(_write(third, "again"))
        _delivered(third, "again", SOON)
        at_last = _contents(third)
        _check_kept(after_all, at_last, {PLAIN, DELAYED})
        waiting = probe.max_offset(third.broker, SCHEDULE_TOPIC, NOT_TODAY - 1)
        assert waiting == 3, "one message a writer is still delayed"
        assert not any(b"level 3" in body for body in at_last.bodies(DELAYED))
    finally:
        assert third.stop() == 0, third.log_tail()
