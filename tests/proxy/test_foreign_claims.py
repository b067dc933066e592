"""What a client may write into handles and ids: places of other users' messages. A front passes no such claim on.

The proxy's own user may read every record. So each claim is proven at the record, or at what the proxy gave out.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")

from pymq.client import Admin, Producer
from pymq.errors import NotFoundError
from pymq.model import pop
from pymq.model.access import EVERY_NAME
from pymq.model.message import Message
from pymq.model.record import StoredMessage, encode_record
from pymq.proxy.client_backend import is_named_by
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.receipts import Handle, decode_handle, encode_handle
from pymq.proxy.server import ProxyServer
from pymq.security.acl_file import AclFile
from pymq.security.gatekeeper import Gatekeeper
from pymq.testing.broker import TestBroker
from pymq.wire.codes import RequestCode
from tests.planting import Bug, Text, follow, is_caught
from tests.proxy.harness import BROKER, RawClient, create_topic, proxy_of, run
from tests.proxy.signing import signed_metadata

MINE, PAYROLL, DELAYED, TRANSACTIONS = "Mine", "Payroll", "PayrollDelayed", "PayrollTransactions"
OWN_GROUP, OWNER_GROUP = "OwnGroup", "OwnerGroup"
ACL = f"""
accounts:
  - accessKey: intruder
    secretKey: intruder-secret
    topicPerms: [{MINE}=PUB|SUB]
    groupPerms: [{OWN_GROUP}=SUB]
  - accessKey: owner-user
    secretKey: owner-secret
    topicPerms: [{MINE}=PUB|SUB, {PAYROLL}=PUB|SUB, {DELAYED}=PUB|SUB, {TRANSACTIONS}=PUB|SUB]
    groupPerms: [{OWN_GROUP}=SUB, {OWNER_GROUP}=SUB]
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        create_topic(broker, MINE, queue_count=1)
        create_topic(broker, PAYROLL, queue_count=1)
        create_topic(broker, DELAYED, "DELAY", queue_count=1)
        create_topic(broker, TRANSACTIONS, "TRANSACTION", queue_count=1)
        yield broker


@pytest.fixture(scope="module")
def gatekeeper(tmp_path_factory: pytest.TempPathFactory) -> Gatekeeper:
    path: Path = tmp_path_factory.mktemp("acl") / "plain_acl.yml"
    path.write_text(ACL)
    path.chmod(0o600)
    return Gatekeeper(AclFile(str(path), EVERY_NAME, None).load())


Work = Callable[[RawClient, RawClient, ProxyServer], Awaitable[None]]


def with_users(broker: TestBroker, gatekeeper: Gatekeeper, work: Work) -> None:
    """Run ``work`` with a client of the intruder and one of the owner, at a proxy that checks users."""

    async def main() -> None:
        async with proxy_of(broker, gatekeeper) as (server, address):
            intruder = RawClient(address, "intruder", **signed_metadata("intruder", "intruder-secret"))
            owner = RawClient(address, "owner", **signed_metadata("owner-user", "owner-secret"))
            try:
                await work(intruder, owner, server)
            finally:
                await intruder.close()
                await owner.close()

    run(main())


def forged(broker: TestBroker, log_offset: int, offset: int = 0, flag: int = pop.NORMAL, queue_id: int = 0) -> str:
    """Return a handle of this moment that nobody gave out."""
    receipt = pop.Receipt(offset, broker.clock.now_ms(), 60_000, 0, flag, BROKER)
    return encode_handle(Handle(receipt, queue_id, offset, log_offset))


def forward(handle: str, topic: str = MINE, group: str = OWN_GROUP) -> Any:
    return m.ForwardMessageToDeadLetterQueueRequest(
        group=m.Resource(name=group), topic=m.Resource(name=topic), receipt_handle=handle, message_id="x"
    )


async def stored(broker: TestBroker, topic: str, body: bytes) -> StoredMessage:
    """Send a message past the proxy, and return its record."""

    async def send() -> StoredMessage:
        async with Producer("Past", namesrv=broker.namesrv) as producer, Admin(broker.namesrv) as admin:
            result = await producer.send(Message(topic, body))
            return await admin.messages.by_offset_id(result.offset_message_id)

    return await asyncio.to_thread(lambda: asyncio.run(send()))


async def dead_letters(broker: TestBroker, group: str) -> int:
    """Return how many dead letters a group has, on all queues."""

    async def count() -> int:
        async with Admin(broker.namesrv) as admin:
            try:
                table = await admin.topics.stats(f"%DLQ%{group}")
            except NotFoundError:
                return 0
            return sum(each.max_offset for each in table.values())

    return await asyncio.to_thread(lambda: asyncio.run(count()))


def test_a_forged_handle_moves_no_message_of_another_topic(broker: TestBroker, gatekeeper: Gatekeeper) -> None:
    async def work(intruder: RawClient, owner: RawClient, server: ProxyServer) -> None:
        secret = await stored(broker, PAYROLL, b"top secret")
        mine = await stored(broker, MINE, b"mine")
        place = secret.physical_offset
        forgeries = [
            forged(broker, place),
            forged(broker, place, secret.queue_offset),
            forged(broker, place, flag=pop.RETRY_V1),
            forged(broker, place, flag=pop.RETRY_V2),
            forged(broker, place + 7),
            forged(broker, 1 << 50),
            forged(broker, mine.physical_offset, mine.queue_offset + 1),  # of its own topic, but another message
            forged(broker, mine.physical_offset, mine.queue_offset, queue_id=1),
        ]
        before = await dead_letters(broker, OWN_GROUP)
        answers = [(await intruder.call("ForwardMessageToDeadLetterQueue", forward(each))).status for each in forgeries]
        assert [each.code for each in answers] == [Code.INVALID_RECEIPT_HANDLE] * len(forgeries)
        # The answer does not tell whether a message begins at a place.
        assert len({each.message for each in answers}) == 1
        assert await dead_letters(broker, OWN_GROUP) == before
        assert (
            await intruder.call("ForwardMessageToDeadLetterQueue", forward(forgeries[0], PAYROLL))
        ).status.code == Code.FORBIDDEN
        own = forged(broker, mine.physical_offset, mine.queue_offset)
        assert (await intruder.call("ForwardMessageToDeadLetterQueue", forward(own))).status.code == Code.OK
        assert await dead_letters(broker, OWN_GROUP) == before + 1

    with_users(broker, gatekeeper, work)


def test_a_renewed_handle_is_known_without_a_look_at_its_record(broker: TestBroker, gatekeeper: Gatekeeper) -> None:
    async def work(intruder: RawClient, owner: RawClient, server: ProxyServer) -> None:
        await stored(broker, PAYROLL, b"held")
        settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
        settings.subscription.group.name = OWNER_GROUP
        stream = await owner.settle(settings)
        found = await owner.receive(PAYROLL, OWNER_GROUP, auto_renew=True)
        handle = found[-1].system_properties.receipt_handle
        looked = broker.watch(requests=RequestCode.VIEW_MESSAGE_BY_ID)
        assert (
            await owner.call("ForwardMessageToDeadLetterQueue", forward(handle, PAYROLL, OWNER_GROUP))
        ).status.code == Code.OK
        assert looked.hit_count == 0
        # With another topic the same handle names no message.
        held = server.service.held.hold("owner", OWN_GROUP, PAYROLL, decode_handle(handle), int(time.time() * 1000))
        assert held
        assert (
            await intruder.call("ForwardMessageToDeadLetterQueue", forward(handle))
        ).status.code == Code.INVALID_RECEIPT_HANDLE
        stream.cancel()

    with_users(broker, gatekeeper, work)


@pytest.mark.slow
def test_claims_of_other_calls_reach_only_what_the_caller_may(broker: TestBroker, gatekeeper: Gatekeeper) -> None:
    """An acknowledgement, a new invisible time, a recall and the end of a transaction of another user's message."""

    async def work(intruder: RawClient, owner: RawClient, server: ProxyServer) -> None:
        settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
        settings.subscription.group.name = OWNER_GROUP
        stream = await owner.settle(settings)
        await stored(broker, PAYROLL, b"claimed")
        (message,) = await owner.receive(PAYROLL, OWNER_GROUP)
        handle = message.system_properties.receipt_handle
        # For the intruder the receipt is one of its own topic and group, where it changes nothing.
        message.topic.name = MINE
        await intruder.ack(OWN_GROUP, message)
        await intruder.change(OWN_GROUP, message, 0)
        message.topic.name = PAYROLL
        assert await intruder.ack(OWNER_GROUP, message) == Code.FORBIDDEN
        assert (await intruder.change(OWNER_GROUP, message, 0)).status.code == Code.FORBIDDEN
        assert await owner.receive(PAYROLL, OWNER_GROUP, long_polling_timeout=m.Duration()) == []  # still held
        assert await owner.ack(OWNER_GROUP, message) == Code.OK
        assert handle == message.system_properties.receipt_handle

        due = m.Timestamp(seconds=broker.clock.now_ms() // 1000 + 3600)
        sent = await owner.send(DELAYED, b"later", delivery_timestamp=due, message_type=3)
        recall = m.RecallMessageRequest(topic=m.Resource(name=MINE), recall_handle=sent.entries[0].recall_handle)
        assert (await intruder.call("RecallMessage", recall)).status.code != Code.OK
        recall.topic.name = DELAYED
        assert (await intruder.call("RecallMessage", recall)).status.code == Code.FORBIDDEN

        half = await owner.send(TRANSACTIONS, b"half", message_type=4)
        end = m.EndTransactionRequest(topic=m.Resource(name=MINE), resolution=1)
        end.message_id = end.transaction_id = half.entries[0].transaction_id
        assert (await intruder.call("EndTransaction", end)).status.code == Code.INTERNAL_SERVER_ERROR
        end.topic.name = TRANSACTIONS
        assert (await intruder.call("EndTransaction", end)).status.code == Code.FORBIDDEN
        assert (await owner.call("EndTransaction", end)).status.code == Code.OK
        stream.cancel()

    with_users(broker, gatekeeper, work)


def test_a_client_id_of_another_user_receives_nothing(broker: TestBroker, gatekeeper: Gatekeeper) -> None:
    """Else its user would take the other one's share of waits and held messages, and keep it alive."""

    async def work(intruder: RawClient, owner: RawClient, server: ProxyServer) -> None:
        settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
        settings.subscription.group.name = OWNER_GROUP
        stream = await owner.settle(settings)
        thief = RawClient(intruder.address, "owner", **signed_metadata("intruder", "intruder-secret"))
        frames = [each async for each in thief.receive_call(thief.receiving(MINE, OWN_GROUP))]
        assert [each.WhichOneof("content") for each in frames] == ["status", "delivery_timestamp"]
        assert frames[0].status.code == Code.FORBIDDEN
        pulling = m.PullMessageRequest(group=m.Resource(name=OWN_GROUP), batch_size=1)
        pulling.message_queue.topic.name = MINE
        pulling.message_queue.broker.name = BROKER
        frames = [each async for each in thief.pull_call(pulling)]
        assert [each.status.code for each in frames] == [Code.FORBIDDEN]
        await thief.close()
        stream.cancel()

    with_users(broker, gatekeeper, work)


def record(topic: str, *, queue_id: int = 2, queue_offset: int = 5, properties: str = "") -> bytes:
    host = b"\x7f\x00\x00\x01\x00\x00\x00\x01"
    return encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=0,
        body=b"b",
        properties=properties.encode(),
        flag=0,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=host,
        store_timestamp_ms=1,
        store_host=host,
    )


def test_the_record_decides_whose_message_it_is() -> None:
    handle = Handle(pop.Receipt(5, 1, 60_000, 0, pop.NORMAL, BROKER), 2, 5, 100)
    retried = handle._replace(receipt=handle.receipt._replace(retry_flag=pop.RETRY_V1))
    origin = "RETRY_TOPIC\x01{}\x02"
    cases = [
        (handle, "T", "g", record("T"), True),
        (handle, "T", "g", record("U"), False),
        (handle, "T", "g", record("T", queue_id=1), False),
        (handle, "T", "g", record("T", queue_offset=4), False),
        (handle, "T", "g", b"no record", False),
        (handle, "T", "g", record("%RETRY%g_T"), False),
        (retried, "T", "g", record("%RETRY%g_T"), True),
        (retried, "T", "g", record("T"), False),
        # Group pay with ments_T, and group pay_ments with T, share a retry topic.
        (retried, "T", "pay_ments", record("%RETRY%pay_ments_T", properties=origin.format("ments_T")), False),
        (retried, "ments_T", "pay", record("%RETRY%pay_ments_T", properties=origin.format("ments_T")), True),
    ]
    for each, topic, group, raw, expected in cases:
        assert is_named_by(each, topic, group, raw) is expected, (topic, group, raw)


CLAIM_BUGS = [
    Bug(
        "the topic is not compared",
        Text(is_named_by, "found.topic, found.queue_id", "handle.topic(group, topic), found.queue_id"),
        ("record",),
    ),
    Bug(
        "the queue is not compared",
        Text(is_named_by, "found.topic, found.queue_id", "found.topic, handle.queue_id"),
        ("record",),
    ),
    Bug("the offset is not compared", Text(is_named_by, "found.queue_offset == handle.offset", "True"), ("record",)),
    Bug("a shared retry topic is one group's", Text(is_named_by, "!= pop.NORMAL", "== -1"), ("record",)),
]


@pytest.mark.parametrize("bug", CLAIM_BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    def work(suite: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            follow(sys.modules[__name__], patch)
            test_the_record_decides_whose_message_it_is()

    assert is_caught(bug, work), bug.name
