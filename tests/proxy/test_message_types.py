"""Messages of each type through a proxy: in order, at a time, in a transaction, several at once."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("grpc")

from pymq.client import PullConsumer
from pymq.errors import RefusedError
from pymq.model.compression import decompress_body
from pymq.model.properties import encode_properties
from pymq.model.record import encode_batch_entry
from pymq.proxy.checks import BODY_BYTES_MAX
from pymq.proxy.conversion import properties_of, timestamp_of
from pymq.proxy.drafts import Draft
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import (
    COMMIT,
    ROLLBACK,
    SOURCE_SERVER_CHECK,
    ClientType,
    Code,
    Encoding,
    FilterType,
    MessageType,
)
from pymq.proxy.server import ProxyServer
from pymq.testing.broker import TestBroker
from pymq.wire.codes import ResponseCode
from tests.proxy.harness import RawClient, create_group, create_topic, with_client

FIFO, DELAY, TRANSACTION, NORMAL = "GrpcTypeFifo", "GrpcTypeDelay", "GrpcTypeTransaction", "GrpcTypeNormal"
PRIORITY, LITE = "GrpcTypePriority", "GrpcTypeLite"
SHORT = m.Duration(seconds=5)


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    settings = {"recallMessageEnable": "true", "transactionCheckInterval": "1000", "mappedFileSizeCommitLog": "8388608"}
    with TestBroker(**settings) as broker:
        create_topic(broker, FIFO, "FIFO", queue_count=4)
        create_topic(broker, DELAY, "DELAY")
        create_topic(broker, TRANSACTION, "TRANSACTION")
        create_topic(broker, NORMAL)
        create_topic(broker, PRIORITY, "PRIORITY", queue_count=4)
        create_topic(broker, LITE, "LITE", queue_count=4)
        create_group(broker, "GrpcTypeOrderly", consume_message_orderly=True)
        yield broker


def bodies(found: list[Any]) -> list[bytes]:
    return [message.body for message in found]


def test_a_group_of_messages_comes_in_order_and_one_batch_at_a_time(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        for number in range(4):
            sent = await client.send(FIFO, b"%d" % number, message_group="one")
            assert sent.status.code == Code.OK
        first = await client.receive(FIFO, "GrpcTypeOrderly", batch_size=2, attempt_id="attempt")
        assert bodies(first) == [b"0", b"1"]
        assert {each.system_properties.message_group for each in first} == {"one"}
        again = await client.receive(FIFO, "GrpcTypeOrderly", batch_size=2, attempt_id="attempt")
        assert bodies(again) == [b"0", b"1"], "the same attempt gets the same messages"
        assert [each.system_properties.delivery_attempt for each in again] == [1, 1]
        waiting = asyncio.ensure_future(client.receive(FIFO, "GrpcTypeOrderly", attempt_id="other"))
        for each in again:
            assert await client.ack("GrpcTypeOrderly", each) == Code.OK
        assert bodies(await waiting) == [b"2", b"3"]

    with_client(broker, work)


def test_a_higher_priority_comes_first(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        route = await client.call("QueryRoute", m.QueryRouteRequest(topic=m.Resource(name=PRIORITY)))
        assert {tuple(queue.accept_message_types) for queue in route.message_queues} == {(MessageType.PRIORITY,)}
        for priority in (0, 2, 1, 9):
            sent = await client.send(PRIORITY, b"%d" % priority, priority=priority)
            assert sent.status.code == Code.OK
        refused = await client.send(PRIORITY, b"none")
        assert refused.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert (await client.send(NORMAL, b"1", priority=1)).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        found = await client.receive(PRIORITY, "GrpcTypeByPriority", batch_size=4)
        assert bodies(found) == [b"9", b"2", b"1", b"0"]
        for message in found:
            system = message.system_properties
            assert (system.message_type, system.priority) == (MessageType.PRIORITY, int(message.body))
            assert not message.user_properties
            assert await client.ack("GrpcTypeByPriority", message) == Code.OK

    with_client(broker, work)


def test_messages_of_a_lite_topic_are_in_one_queue(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        route = await client.call("QueryRoute", m.QueryRouteRequest(topic=m.Resource(name=LITE)))
        assert {tuple(queue.accept_message_types) for queue in route.message_queues} == {(MessageType.LITE,)}
        for number in range(4):
            sent = await client.send(LITE, b"%d" % number, lite_topic=f"lite-{number % 2}")
            assert sent.status.code == Code.OK
        assert (await client.send(LITE, b"none")).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert (await client.send(NORMAL, b"1", lite_topic="a")).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert (await client.send(LITE, b"1", lite_topic="a,b")).status.code == Code.BAD_REQUEST
        found = await client.receive(LITE, "GrpcTypeOfLites", batch_size=4)
        while len(found) < 4:
            found += await client.receive(LITE, "GrpcTypeOfLites", batch_size=4)
        queues: dict[str, set[int]] = {}
        for message in found:
            system = message.system_properties
            assert system.message_type == MessageType.LITE and not message.user_properties
            queues.setdefault(system.lite_topic, set()).add(system.queue_id)
        assert {lite: len(used) for lite, used in queues.items()} == {"lite-0": 1, "lite-1": 1}

    with_client(broker, work)


def test_a_delayed_message_comes_at_its_time_and_not_after_its_recall(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        at_ms = broker.clock.now_ms() + 60_000
        kept = await client.send(DELAY, b"kept", delivery_timestamp=timestamp_of(at_ms))
        taken = await client.send(DELAY, b"taken", delivery_timestamp=timestamp_of(at_ms))
        (entry,) = taken.entries
        assert kept.entries[0].recall_handle and entry.recall_handle
        recall = m.RecallMessageRequest(topic=m.Resource(name=DELAY), recall_handle=entry.recall_handle)
        answer = await client.call("RecallMessage", recall)
        assert (answer.status.code, answer.message_id) == (Code.OK, entry.message_id)
        recall.recall_handle = "no handle"
        assert (await client.call("RecallMessage", recall)).status.code == Code.INTERNAL_SERVER_ERROR
        recall.topic.name = NORMAL
        answer = await client.call("RecallMessage", recall)
        assert answer.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        await asyncio.to_thread(broker.clock.advance, minutes=2)
        found = await client.receive(DELAY, "GrpcTypeDelayed")
        assert bodies(found) == [b"kept"]
        system = found[0].system_properties
        assert (system.message_type, system.delivery_timestamp) == (MessageType.DELAY, timestamp_of(at_ms))

    with_client(broker, work)


async def end(client: RawClient, transaction_id: str, resolution: int, source: int = 1) -> int:
    request = m.EndTransactionRequest(
        topic=m.Resource(name=TRANSACTION), transaction_id=transaction_id, resolution=resolution, source=source
    )
    return int((await client.call("EndTransaction", request)).status.code)


def test_a_transaction_is_committed_rolled_back_or_asked_about(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        settings = m.Settings(client_type=ClientType.PRODUCER)
        settings.publishing.topics.add(name=TRANSACTION)
        stream = await client.settle(settings)
        ids = {}
        for body in (b"commit", b"rollback", b"orphan"):
            sent = await client.send(TRANSACTION, body, message_type=MessageType.TRANSACTION, tag="t")
            ids[body] = sent.entries[0].transaction_id
        assert await end(client, ids[b"commit"], COMMIT) == Code.OK
        assert await end(client, ids[b"rollback"], ROLLBACK) == Code.OK
        assert await end(client, ids[b"rollback"], ROLLBACK) == Code.INTERNAL_SERVER_ERROR, "it is unknown by now"
        assert await end(client, " ", COMMIT) == Code.INVALID_TRANSACTION_ID
        (committed,) = await client.receive(TRANSACTION, "GrpcTypeHalf")
        assert (committed.body, await client.ack("GrpcTypeHalf", committed)) == (b"commit", Code.OK)
        await asyncio.to_thread(broker.clock.advance, minutes=1)
        question = (await stream.read()).recover_orphaned_transaction_command
        assert question.transaction_id == ids[b"orphan"]
        assert (question.message.body, question.message.system_properties.tag) == (b"orphan", "t")
        assert not question.message.system_properties.HasField("receipt_handle")
        assert await end(client, question.transaction_id, COMMIT, SOURCE_SERVER_CHECK) == Code.OK
        assert bodies(await client.receive(TRANSACTION, "GrpcTypeHalf")) == [b"orphan"]
        stream.cancel()

    with_client(broker, work)


def test_a_message_of_another_type_is_refused(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        code = Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert (await client.send(FIFO)).status.code == code
        assert (await client.send(NORMAL, message_group="g")).status.code == code
        assert (await client.send(NORMAL, message_type=MessageType.TRANSACTION)).status.code == code

    with_client(broker, work)


async def send_all(client: RawClient, messages: list[Any]) -> Any:
    return await client.call("SendMessage", m.SendMessageRequest(messages=messages))


def test_several_messages_of_a_request_are_one_entry_and_come_apart(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        several = [client.message(NORMAL, b"%d" % i, tag="several") for i in range(3)]
        sent = await send_all(client, several)
        ids = [each.system_properties.message_id for each in several]
        assert (sent.status.code, [entry.message_id for entry in sent.entries]) == (Code.OK, [",".join(ids)])
        found = await client.receive(NORMAL, "GrpcTypeSeveral")
        assert bodies(found) == [b"0", b"1", b"2"]
        assert [each.system_properties.message_id for each in found] == ids

    with_client(broker, work)


def test_messages_that_brokers_keep_apart_have_an_entry_each(broker: TestBroker) -> None:
    create_topic(broker, "GrpcTypeMixed", "MIXED", queue_count=8)

    async def work(client: RawClient, server: ProxyServer) -> None:
        at = timestamp_of(broker.clock.now_ms() + 60_000)
        several = [
            client.message("GrpcTypeMixed", b"a", message_group="a"),
            client.message("GrpcTypeMixed", b"delayed", delivery_timestamp=at),
            client.message("GrpcTypeMixed", b"half", message_type=MessageType.TRANSACTION),
            client.message("GrpcTypeMixed", b"half too", message_type=MessageType.TRANSACTION),
            client.message("GrpcTypeMixed", b"b", message_group="b"),
            client.message("GrpcTypeMixed", b"a again", message_group="a"),
        ]
        sent = await send_all(client, several)
        assert sent.status.code == Code.OK
        assert [entry.message_id for entry in sent.entries] == [each.system_properties.message_id for each in several]
        assert [bool(entry.recall_handle) for entry in sent.entries] == [False, True, False, False, False, False]
        recall = m.RecallMessageRequest(topic=m.Resource(name="GrpcTypeMixed"))
        recall.recall_handle = sent.entries[1].recall_handle
        assert (await client.call("RecallMessage", recall)).status.code == Code.OK
        assert len(server.service.transactions) == 2, "also those behind the first message"
        found = await client.receive("GrpcTypeMixed", "GrpcTypeMixed")
        assert sorted(bodies(found)) == [b"a", b"a again", b"b"], "a delayed message waits, and so do half messages"
        queues = {each.body: each.system_properties.queue_id for each in found}
        assert queues[b"a"] == queues[b"a again"] != queues[b"b"]

    with_client(broker, work)


def test_all_messages_of_a_request_have_the_type_of_the_topic(broker: TestBroker) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        for second in ({"message_group": "g"}, {"message_type": MessageType.TRANSACTION}):
            sent = await send_all(client, [client.message(NORMAL), client.message(NORMAL, **second)])
            assert sent.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert len(server.service.transactions) == 0

    with_client(broker, work)


def test_a_batch_has_the_size_of_one_message(broker: TestBroker) -> None:
    create_topic(broker, "GrpcTypeSizes")

    async def work(client: RawClient, _: ProxyServer) -> None:
        first = client.message("GrpcTypeSizes", b"first")
        second = client.message("GrpcTypeSizes", b"x")
        entries = [
            encode_batch_entry(each.body, encode_properties(properties_of(Draft(each)))) for each in (first, second)
        ]
        second.body = bytes(BODY_BYTES_MAX - sum(map(len, entries)) + 2)
        assert (await send_all(client, [first, second])).status.code == Code.MESSAGE_BODY_TOO_LARGE
        second.body = second.body[1:]
        assert (await send_all(client, [first, second])).status.code == Code.OK

    with_client(broker, work)


def test_a_failure_in_the_midst_of_a_request_ends_it_with_a_status_for_each(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker, "GrpcTypeFailing", "FIFO")

    async def work(client: RawClient, server: ProxyServer) -> None:
        send = server.service.publishing._backend.send

        async def failing(outgoing: Any, queue: Any) -> Any:
            if outgoing.body == b"1":
                raise RefusedError(ResponseCode.SYSTEM_BUSY, "busy")
            return await send(outgoing, queue)

        monkeypatch.setattr(server.service.publishing._backend, "send", failing)
        several = [client.message("GrpcTypeFailing", b"%d" % i, message_group=f"{i % 2}") for i in range(3)]
        sent = await send_all(client, several)
        codes = [entry.status.code for entry in sent.entries]
        assert codes == [Code.OK, Code.TOO_MANY_REQUESTS, Code.TOO_MANY_REQUESTS]
        assert sent.status.code == Code.MULTIPLE_RESULTS
        assert bodies(await client.receive("GrpcTypeFailing", "GrpcTypeFailing")) == [b"0"]
        failed = await send_all(client, several[1:])
        assert (failed.status.code, len(failed.entries)) == (Code.TOO_MANY_REQUESTS, 0)

    with_client(broker, work)


@pytest.mark.parametrize("count", [1, 2])
def test_compressed_bodies_are_read_by_clients_of_both_protocols(broker: TestBroker, count: int) -> None:
    topic, text = f"GrpcTypePacked{count}", b"a compressed body " * 1000
    create_topic(broker, topic)

    async def work(client: RawClient, _: ProxyServer) -> None:
        packed = client.message(topic, gzip.compress(text), body_encoding=Encoding.GZIP)
        plain = client.message(topic, b"plain", body_encoding=Encoding.IDENTITY)
        sent = await send_all(client, [plain, packed][-count:])
        assert sent.status.code == Code.OK
        for language, unpack in (("JAVA", zlib.decompress), ("HTTP", gzip.decompress), ("RUST", None)):
            reader = RawClient(client.address)
            reader.metadata = [("x-mq-client-id", language), ("x-mq-language", language)]
            found = await reader.receive(topic, f"GrpcTypePacked-{language}")
            for each in found:
                digest = hashlib.md5(each.body, usedforsecurity=False).hexdigest().upper()
                assert each.system_properties.body_digest.checksum == digest
                encoding = Encoding.IDENTITY if unpack is None else Encoding.GZIP
                assert each.system_properties.body_encoding == encoding
            assert [each.body if unpack is None else unpack(each.body) for each in found] == [b"plain", text][-count:]
            await reader.close()
        async with PullConsumer("GrpcTypePackedClassic", namesrv=broker.namesrv) as consumer:
            read = [
                message.body if not message.sys_flag else decompress_body(message.body, message.sys_flag)
                for queue in await consumer.queues(topic)
                for message in (await consumer.pull(queue, 0)).messages()
            ]
        assert read == [b"plain", text][-count:]
        wrong = client.message(topic, text, body_encoding=Encoding.GZIP)
        assert (await send_all(client, [wrong])).status.code == Code.MESSAGE_CORRUPTED

    with_client(broker, work)
    tail = [sys.executable, "-m", "pymq", "tail", topic, "--namesrv", broker.namesrv, "--from", "start"]
    tail += ["--count", str(count), "--output", "jsonl"]
    lines = subprocess.run(tail, check=True, capture_output=True, text=True).stdout.splitlines()
    assert text.decode() in [json.loads(line)["body"] for line in lines]


def test_filters_by_tag_and_by_sql(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        for number, tag in enumerate(("red", "green", "blue")):
            message = client.message(NORMAL, tag.encode(), tag=tag)
            message.user_properties["number"] = str(number)
            await client.call("SendMessage", m.SendMessageRequest(messages=[message]))
        tags = m.FilterExpression(type=FilterType.TAG, expression="red || blue")
        found = await client.receive(NORMAL, "GrpcTypeTags", filter_expression=tags)
        assert sorted(bodies(found)) == [b"blue", b"red"]
        sql = m.FilterExpression(type=FilterType.SQL, expression="number >= 1")
        found = await client.receive(NORMAL, "GrpcTypeSql", filter_expression=sql)
        assert sorted(bodies(found)) == [b"blue", b"green"]
        for wrong, code in (
            (m.FilterExpression(type=FilterType.SQL, expression="number >"), Code.INTERNAL_SERVER_ERROR),
            (m.FilterExpression(type=FilterType.TAG, expression="||"), Code.ILLEGAL_FILTER_EXPRESSION),
        ):
            assert (await client.received(NORMAL, "GrpcTypeSql", 9.0, filter_expression=wrong))[0] == code

    with_client(broker, work)
