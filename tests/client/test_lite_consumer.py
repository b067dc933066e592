"""The lite consumer at scripted brokers: what it tells them of its subscriptions, and what it makes of answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pymq.client import LiteConsumer
from pymq.client.lite_popping import popped_lites
from pymq.errors import ProtocolViolation, RefusedError, UnreachableError, UsageError
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.lites import NotifyUnsubscribeLiteHeader
from tests.client.fake_broker import FakeServer, route_reply, serve_routes
from tests.client.messages import record
from tests.client.scenarios import until

CTL, POP = RequestCode.LITE_SUBSCRIPTION_CTL, RequestCode.POP_LITE_MESSAGE


def entries(server: FakeServer) -> list[tuple[str, list[str]]]:
    """Return the actions and lite topics of all subscriptions that a server got."""
    found = []
    for command in server.requests[CTL]:
        (entry,) = json.loads(command.body)["subscriptionSet"]
        found.append((entry["action"], entry["liteTopicSet"]))
    return found


class Cluster:
    """Brokers, and a consumer of the parent topic P; ``lost`` has what its callback got."""

    def __init__(self, brokers: list[FakeServer], consumer: LiteConsumer, lost: list[str]) -> None:
        self.brokers = brokers
        self.consumer = consumer
        self.lost = lost

    async def lose_connection(self) -> None:
        """Close the connection to the first broker, and wait until the consumer knows."""
        broker = self.brokers[0]
        broker.drop_connections()
        await until(lambda: not self.consumer._instance.remoting.is_connected(broker.address), "the lost connection")


def at_brokers(count: int) -> Callable[[Callable[[Cluster], Awaitable[None]]], Callable[[], None]]:
    """Make a test of what is to run at so many brokers that have no messages."""

    def wrap(body: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            namesrv = await FakeServer().start()
            brokers = [await FakeServer().start() for _ in range(count)]
            serve_routes(namesrv, {"P": route_reply({f"b{at}": broker.address for at, broker in enumerate(brokers)})})
            for broker in brokers:
                broker.refuse(POP, ResponseCode.POLLING_TIMEOUT)
            lost: list[str] = []
            try:
                async with LiteConsumer("G", "P", namesrv=namesrv.address, on_lost=lost.append) as consumer:
                    await body(Cluster(brokers, consumer, lost))
            finally:
                for server in [namesrv, *brokers]:
                    await server.stop()

        return lambda: asyncio.run(run())

    return wrap


@at_brokers(2)
async def test_all_brokers_know_the_subscriptions_and_the_end(made: Cluster) -> None:
    await made.consumer.subscribe("b", "a", "a")
    await made.consumer.subscribe("c")
    await made.consumer.unsubscribe("a")
    assert await made.consumer.receive(wait_ms=0) == []
    expected = [("PARTIAL_ADD", ["a", "b"]), ("PARTIAL_ADD", ["c"]), ("PARTIAL_REMOVE", ["a"])]
    assert [entries(broker) for broker in made.brokers] == [expected] * 2
    (first,) = json.loads(made.brokers[0].requests[CTL][0].body)["subscriptionSet"]
    assert (first["group"], first["topic"], first["clientId"]) == ("G", "P", made.consumer.client_id)
    await made.consumer.stop()
    assert [entries(broker)[-1] for broker in made.brokers] == [("COMPLETE_REMOVE", [])] * 2


@at_brokers(1)
async def test_a_broker_that_lost_its_connection_gets_the_whole_set_before_a_pop(made: Cluster) -> None:
    (broker,) = made.brokers
    await made.consumer.subscribe("a")
    await made.consumer.subscribe("b")
    await made.lose_connection()
    await made.consumer.receive(wait_ms=0)
    assert entries(broker)[2:] == [("COMPLETE_ADD", ["a", "b"])]
    await made.consumer.receive(wait_ms=0)
    assert len(entries(broker)) == 3


@at_brokers(2)
async def test_a_broker_that_is_away_does_not_keep_others_from_a_subscription(made: Cluster) -> None:
    here, away = made.brokers
    await away.stop()
    await made.consumer.subscribe("a")
    assert entries(here) == [("PARTIAL_ADD", ["a"])] and made.consumer.lite_topics == {"a"}
    await here.stop()
    with pytest.raises(UnreachableError):
        await made.consumer.subscribe("b")
    assert made.consumer.lite_topics == {"a"}


@at_brokers(2)
async def test_a_refusal_takes_the_new_ones_back(made: Cluster) -> None:
    await made.consumer.subscribe("a")
    made.brokers[1].refuse(CTL, ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, "the limit is 1")
    with pytest.raises(RefusedError, match="the limit is 1") as caught:
        await made.consumer.subscribe("a", "b")
    assert caught.value.code == 2018 and made.consumer.lite_topics == {"a"}
    assert entries(made.brokers[0])[-1] == ("PARTIAL_REMOVE", ["b"])


@at_brokers(1)
async def test_a_group_of_all_lite_topics_is_joined_with_no_name(made: Cluster) -> None:
    await made.consumer.subscribe_all()
    await made.lose_connection()
    await made.consumer.receive(wait_ms=0)
    assert entries(made.brokers[0]) == [("COMPLETE_ADD", [])] * 2


@at_brokers(1)
async def test_only_the_own_subscription_is_lost(made: Cluster) -> None:
    await made.consumer.subscribe("a", "b")

    def notice(client_id: str, group: str, lite: str) -> Command:
        header = NotifyUnsubscribeLiteHeader(lite_topic=lite, consumer_group=group, client_id=client_id)
        return request(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header, oneway=True)

    for parts in (("other", "G", "a"), (made.consumer.client_id, "H", "a"), (made.consumer.client_id, "G", "x")):
        made.brokers[0].push(notice(*parts))
    made.brokers[0].push(notice(made.consumer.client_id, "G", "b"))
    await until(lambda: made.lost, "the notice")
    assert made.lost == ["b"] and made.consumer.lite_topics == {"a"}
    made.brokers[0].push(request(RequestCode.GET_CONSUMER_RUNNING_INFO))
    assert (await made.brokers[0].wait_for_answers()).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("names", "options", "why"),
    [
        ((), {}, "at least one"),
        (("a/b",), {}, "a slash"),
        ((7,), {}, "give text"),
        (("a",), {"offset": 1, "tail": 1}, "exclude each other"),
        (("a",), {"offset": -1}, "offset is -1: use 0 to"),
        (("a",), {"tail": 1 << 63}, "tail is 9223372036854775808"),
        (("a",), {"consume_from": "middle"}, "use 'first' or 'last'"),
    ],
)
def test_wrong_subscriptions_are_refused_here(names: tuple[Any, ...], options: dict[str, Any], why: str) -> None:
    consumer = LiteConsumer("G", "P", namesrv="127.0.0.1:1")
    with pytest.raises(UsageError, match=why):
        asyncio.run(consumer.subscribe(*names, **options))
    with pytest.raises(UsageError, match="use 1 to 32"):
        asyncio.run(consumer.receive(33))


def answer(*bodies: bytes, counts: str = "", light: str = "7", pop_time: str = "5") -> Command:
    ext = {"popTime": pop_time, "invisibleTime": "9", "reviveQid": "999", "orderCountInfo": counts}
    properties: dict[str, Any] = {"__LITE_TOPIC": "a", "INNER_MULTI_QUEUE_OFFSET": light}
    records = b"".join(record(body, topic="P", **properties) for body in bodies)
    return Command(ResponseCode.SUCCESS, ext=ext, body=records)


def test_an_answer_has_messages_with_receipts_of_the_light_queue() -> None:
    one, two = popped_lites(answer(b"x", b"y", counts="2;0 qo0%7 3"), "here", "P", "b")
    assert (one.lite_topic, one.place, one.topic, one.broker_name) == ("a", (0, 7), "P", "b")
    assert one.receipt == "7 5 9 999 0 b 0 7"
    assert [one.message.reconsume_times, two.message.reconsume_times] == [2, 3]
    assert popped_lites(answer(), "here", "P", "b") == []


@pytest.mark.parametrize("lie", [{"counts": "many"}, {"light": "seven"}, {"pop_time": "x"}])
def test_an_answer_that_lies_is_the_servers_fault(lie: dict[str, str]) -> None:
    with pytest.raises(ProtocolViolation, match="here"):
        popped_lites(answer(b"x", **lie), "here", "P", "b")
