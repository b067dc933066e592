"""Lite topics over gRPC: subscriptions, what consumers receive and settle, and subscriptions that others end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("grpc")

from pymq.client import Admin
from pymq.model.pop import Receipt
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.receipts import Handle, decode_handle, encode_handle
from pymq.proxy.refusals import ProxyRefusal
from pymq.testing.broker import TestBroker
from tests.client.lite_scenarios import LateClock
from tests.proxy.harness import RawClient, create_group, create_topic, proxy_of, run, until

PARENT = "GrpcLiteParent"
PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD, COMPLETE_REMOVE = range(4)
SHORT = m.Duration(seconds=5)


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker(mappedFileSizeCommitLog="8388608") as broker:
        create_topic(broker, PARENT, "LITE", queue_count=4)
        bound = {"+lite.bind.topic": PARENT}
        create_group(broker, "LiteShared", retry_max_times=2, attributes={**bound, "+lite.sub.client.quota": "3"})
        create_group(broker, "LiteExclusive", attributes={**bound, "+lite.sub.model": "Exclusive"})
        yield broker


class LiteClient(RawClient):
    """A consumer of lite topics."""

    group = ""
    parent = PARENT

    async def begin(self, group: str, kind: int = ClientType.LITE_PUSH_CONSUMER) -> Any:
        """Send settings, and return the Telemetry stream."""
        self.group = group
        settings = m.Settings(client_type=kind)
        settings.subscription.group.name = group
        settings.subscription.subscriptions.add().topic.name = self.parent
        return await self.settle(settings)

    async def sync(self, action: int, *lites: str, topic: str = PARENT, group: str = "", **option: Any) -> int:
        """Change the client's lite topics, and return the code."""
        request = m.SyncLiteSubscriptionRequest(action=action, lite_topic_set=lites)
        request.topic.name, request.group.name = topic, group or self.group
        for name, value in option.items():
            setattr(request.offset_option, name, value)
        return int((await self.call("SyncLiteSubscription", request)).status.code)

    async def take(self, **fields: Any) -> list[Any]:
        return await self.receive(self.parent, self.group, long_polling_timeout=SHORT, **fields)


@asynccontextmanager
async def clients(broker: TestBroker, *ids: str) -> Any:
    """Yield clients of one proxy."""
    async with AsyncExitStack() as stack:
        _, address = await stack.enter_async_context(proxy_of(broker))
        found = [LiteClient(address, each) for each in ids]
        for each in found:
            stack.push_async_callback(each.close)
        yield found


def bodies(found: list[Any]) -> list[bytes]:
    return [message.body for message in found]


def test_a_consumer_gets_its_lite_topics_in_order_and_settles_them(broker: TestBroker) -> None:
    async def work() -> None:
        async with clients(broker, "one") as (client,):
            await client.begin("LiteShared")
            assert await client.sync(PARTIAL_ADD, "a$1", "b") == Code.OK
            for lite, body in (("a$1", b"a0"), ("a$1", b"a1"), ("other", b"o0")):
                assert (await client.send(PARENT, body, lite_topic=lite)).status.code == Code.OK
            found = await client.take()
            assert bodies(found) == [b"a0", b"a1"]
            assert [each.system_properties.lite_topic for each in found] == ["a$1"] * 2
            assert [each.system_properties.delivery_attempt for each in found] == [1, 1]
            assert (await client.change("LiteShared", found[1], 1000)).status.code == Code.OK
            assert await client.ack("LiteShared", found[0]) == Code.OK
            again = await client.take()
            assert bodies(again) == [b"a1"] and again[0].system_properties.delivery_attempt == 2
            waiting = asyncio.ensure_future(client.take())
            assert await client.ack("LiteShared", again[0]) == Code.OK
            assert (await client.send(PARENT, b"b0", lite_topic="b")).status.code == Code.OK
            (news,) = await waiting
            assert news.body == b"b0"
            gone = m.ForwardMessageToDeadLetterQueueRequest(topic=news.topic, lite_topic="b")
            gone.group.name = "LiteShared"
            gone.receipt_handle = news.system_properties.receipt_handle
            assert (await client.call("ForwardMessageToDeadLetterQueue", gone)).status.code == Code.OK
            assert await client.sync(COMPLETE_REMOVE) == Code.OK
            other = RawClient(client.address, "dead")
            (dead,) = await other.receive("%DLQ%LiteShared", "Undertaker", long_polling_timeout=SHORT)
            assert dead.body == b"b0" and dead.system_properties.lite_topic == "b"
            await other.close()

    run(work())


def test_a_proxy_whose_clock_is_behind_receives_for_its_clients(broker: TestBroker) -> None:
    async def work() -> None:
        async with proxy_of(broker, clock=LateClock()) as (_, address):
            client = LiteClient(address, "late")
            await client.begin("LiteShared")
            assert await client.sync(PARTIAL_ADD, "late") == Code.OK
            assert (await client.send(PARENT, b"0", lite_topic="late")).status.code == Code.OK
            (found,) = await client.take()
            assert found.body == b"0" and await client.ack("LiteShared", found) == Code.OK
            assert await client.sync(COMPLETE_REMOVE) == Code.OK
            await client.close()

    run(work())


def test_an_offset_option_moves_the_group(broker: TestBroker) -> None:
    async def work() -> None:
        async with clients(broker, "from") as (client,):
            await client.begin("LiteShared", ClientType.LITE_SIMPLE_CONSUMER)
            for number in range(3):
                await client.send(PARENT, b"%d" % number, lite_topic="from")
            for option, wanted in (
                ({"offset": 1}, [b"1", b"2"]),
                ({"policy": 1}, [b"0", b"1", b"2"]),
                ({"offset": 2}, [b"2"]),
                ({"tail_n": 1}, [b"1", b"2"]),
                ({"timestamp": 1}, [b"0", b"1", b"2"]),
            ):
                assert await client.sync(PARTIAL_ADD, "from", **option) == Code.OK
                assert bodies(await client.take()) == wanted, option
                assert await client.sync(COMPLETE_REMOVE) == Code.OK

    run(work())


def test_an_exclusive_consumer_hears_that_another_one_has_its_lite_topic(broker: TestBroker) -> None:
    async def work() -> None:
        async with clients(broker, "old", "new") as (old, new):
            stream = await old.begin("LiteExclusive")
            await new.begin("LiteExclusive")
            assert await old.sync(COMPLETE_ADD, "x", "y") == Code.OK
            assert await new.sync(PARTIAL_ADD, "x") == Code.OK
            command = await stream.read()
            assert command.notify_unsubscribe_lite_command.lite_topic == "x"

    run(work())


def test_a_consumer_that_leaves_has_no_subscriptions_any_more(broker: TestBroker) -> None:
    async def work() -> None:
        async with clients(broker, "leaver", "heir") as (leaver, heir):
            await leaver.begin("LiteExclusive")
            await heir.begin("LiteExclusive")
            assert await leaver.sync(COMPLETE_ADD, "left") == Code.OK
            notice = m.NotifyClientTerminationRequest()
            notice.group.name = "LiteExclusive"
            assert (await leaver.call("NotifyClientTermination", notice)).status.code == Code.OK
            await leaver.send(PARENT, b"m", lite_topic="left")

            async def inherits() -> bool:  # a whole set takes nothing away from a client that is there
                await heir.sync(COMPLETE_ADD, "left")
                found = await heir.receive(PARENT, "LiteExclusive", long_polling_timeout=m.Duration())
                return bodies(found) == [b"m"]

            await until(inherits)

    run(work())


def test_subscriptions_outlive_a_parent_that_is_made_again(broker: TestBroker) -> None:
    parent = "GrpcLiteAgain"
    create_topic(broker, parent, "LITE")
    create_group(broker, "LiteAgain", attributes={"+lite.bind.topic": parent})

    async def work() -> None:
        async with clients(broker, "again") as (client,), Admin(broker.namesrv) as admin:
            client.parent = parent
            await client.begin("LiteAgain")
            assert await client.sync(PARTIAL_ADD, "a", topic=parent) == Code.OK
            assert (await client.send(parent, b"old", lite_topic="a")).status.code == Code.OK
            (old,) = await client.take()
            targets = await admin.topics.targets(parent)
            await admin.topics.delete(parent, targets, everywhere=True)

            async def is_gone() -> bool:
                return await client.sync(PARTIAL_ADD, "b", topic=parent) == Code.TOPIC_NOT_FOUND

            await until(is_gone)
            await asyncio.to_thread(create_topic, broker, parent, "LITE")

            async def is_back() -> bool:
                return (await client.send(parent, b"new", lite_topic="a")).status.code == Code.OK

            await until(is_back)
            (new,) = await client.take()
            assert new.body == b"new" and new.system_properties.delivery_attempt == 1
            assert await client.ack("LiteAgain", new) == Code.OK
            assert await client.ack("LiteAgain", old) in (Code.OK, Code.INVALID_RECEIPT_HANDLE)
            assert (await client.send(parent, b"next", lite_topic="a")).status.code == Code.OK
            assert bodies(await client.take()) == [b"next"]

    run(work())


def test_what_can_not_be_subscribed_to_is_refused(broker: TestBroker) -> None:
    async def work() -> None:
        async with clients(broker, "refused", "plain") as (client, plain):
            stream = await client.begin("LiteShared")
            assert stream is not None
            assert await client.sync(PARTIAL_ADD, "a,b") == Code.ILLEGAL_LITE_TOPIC
            assert await client.sync(PARTIAL_ADD, *"abcd") == Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
            assert await client.sync(9, "a") == Code.BAD_REQUEST
            assert await client.sync(PARTIAL_ADD, "a", group="LiteExclusive") == Code.ILLEGAL_CONSUMER_GROUP
            assert await client.sync(PARTIAL_ADD, "a", topic="Nowhere") == Code.TOPIC_NOT_FOUND
            await plain.introduce("LiteShared")
            plain.group = "LiteShared"
            assert await plain.sync(PARTIAL_ADD, "a") == Code.UNRECOGNIZED_CLIENT_TYPE

    run(work())


def test_settings_say_how_many_lite_topics_a_client_may_have(broker: TestBroker) -> None:
    async def work() -> None:
        async with clients(broker, "settings") as (client,):
            stream = client.telemetry()
            settings = m.Settings(client_type=ClientType.LITE_PUSH_CONSUMER)
            settings.subscription.group.name = "LiteShared"
            await stream.write(m.TelemetryCommand(settings=settings))
            answer = (await stream.read()).settings.subscription
            assert (answer.lite_subscription_quota, answer.max_lite_topic_size) == (3, 255)

    run(work())


@pytest.mark.parametrize("lite", ["a", "a b$%@", "日本", "x" * 255])
def test_a_handle_names_its_lite_topic(lite: str) -> None:
    handle = Handle(Receipt(4, 5, 6, 999, 0, "broker-a"), 0, 4, 77, lite)
    assert decode_handle(encode_handle(handle)) == handle


@pytest.mark.parametrize("part", ["*", "YQ", "LC==", "", "////"])
def test_a_handle_with_another_last_part_is_refused(part: str) -> None:
    with pytest.raises(ProxyRefusal, match="no receipt handle"):
        decode_handle(f"{encode_handle(Handle(Receipt(4, 5, 6, 999, 0, 'broker-a'), 0, 4, 77))} {part}")
