"""Producer while a group of brokers elects its master: sends wait for it within their time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pytest

from pymq.client import Message, MessageQueue, Producer, sender
from pymq.errors import NoQueueError, RefusedError, RequestTimeoutError
from pymq.model.route import BrokerData, QueueData, TopicRoute
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer, serve_routes
from tests.client.test_producer import stored

SEND = RequestCode.SEND_MESSAGE_V2
LOOK_UP = RequestCode.GET_ROUTEINFO_BY_TOPIC
FAILURES = 6  # more than the attempts that a producer counts
SHORT_S = 0.2
Scenario = Callable[[FakeServer, list[FakeServer], Producer], Awaitable[None]]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "PAUSE_FIRST_S", 0.001)
    monkeypatch.setattr(sender, "PAUSE_MAX_S", 0.004)


def route(groups: dict[str, dict[int, str]]) -> Reply:
    """Return a route answer; ``groups`` maps a broker's name to its addresses by id."""
    queues = [QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6) for name in groups]
    brokers = [BrokerData(cluster="C", broker_name=name, broker_addrs=addresses) for name, addresses in groups.items()]
    return Reply(body=msgspec.json.encode(TopicRoute(queue_datas=queues, broker_datas=brokers)))


def run(scenario: Scenario, *, retry_count: int = 2) -> None:
    """Run ``scenario(namesrv, brokers, producer)`` with two brokers, of which the first is the master of a group."""

    async def main() -> None:
        servers = [await FakeServer().start() for _ in range(3)]
        namesrv, *brokers = servers
        serve_routes(namesrv, {"T": route({"a": {0: brokers[0].address, 1: brokers[1].address}})})
        for broker in brokers:
            broker.on(SEND, stored)
        try:
            async with Producer(
                "PG", namesrv=namesrv.address, rng=random.Random(3), retry_count=retry_count
            ) as producer:
                await scenario(namesrv, brokers, producer)
        finally:
            for server in servers:
                await server.stop()

    asyncio.run(main())


def after(failures: Iterator[Reply], then: Callable[[Command], Reply]) -> Callable[[Command], Reply]:
    """Return a script that answers with ``failures``, and later as ``then`` does."""
    return lambda command: next(failures, None) or then(command)


def refusals(code: int = ResponseCode.SERVICE_NOT_AVAILABLE, count: int = FAILURES) -> Iterator[Reply]:
    return iter([Reply(code, "no leader")] * count)


def test_a_send_waits_for_another_master_when_the_master_is_dead() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"first"))
        dead = route({"a": {0: brokers[0].address, 1: brokers[1].address}})
        elected = route({"a": {0: brokers[1].address}})
        namesrv.on(LOOK_UP, after(iter([dead] * FAILURES), lambda _: elected))
        await brokers[0].stop()
        await producer.send(Message("T", b"second"))
        assert [command.body for command in brokers[1].requests[SEND]] == [b"second"]
        assert namesrv.count(LOOK_UP) > FAILURES

    run(scenario)


def test_a_send_waits_while_the_route_has_no_master() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        nobody, elected = route({"a": {1: brokers[1].address}}), route({"a": {0: brokers[1].address}})
        namesrv.on(LOOK_UP, after(iter([nobody] * FAILURES), lambda _: elected))
        await producer.send(Message("T", b"x"))
        assert brokers[1].count(SEND) == 1

    run(scenario)


def test_a_send_waits_while_the_group_has_no_leader() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].on(SEND, after(refusals(), stored))
        await producer.send(Message("T", b"x"))
        assert brokers[0].count(SEND) == FAILURES + 1

    run(scenario)


def test_a_send_waits_when_no_group_of_two_has_a_leader() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        groups = {"a": {0: brokers[0].address, 1: "127.0.0.1:1"}, "b": {0: brokers[1].address, 1: "127.0.0.1:1"}}
        serve_routes(namesrv, {"T": route(groups)})
        for broker in brokers:
            broker.on(SEND, after(refusals(), stored))
        await producer.send(Message("T", b"x"))
        assert sum(broker.count(SEND) for broker in brokers) >= FAILURES + 1
        assert all(broker.count(SEND) for broker in brokers)

    run(scenario)


def test_an_ordered_send_waits_at_its_queue() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].on(SEND, after(refusals(), stored))
        await producer.send(Message("T", b"x"), ordering_key="k")
        assert brokers[0].count(SEND) == FAILURES + 1
        assert len({command.ext["e"] for command in brokers[0].requests[SEND]}) == 1  # the queue

    run(scenario)


def test_the_waiting_ends_with_the_time_of_the_send() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].refuse(SEND, ResponseCode.SERVICE_NOT_AVAILABLE)
        # An attempt that begins shortly before the end may get no answer in time.
        with pytest.raises((RefusedError, RequestTimeoutError), match=r"no|did not answer SEND_MESSAGE_V2 in time"):
            await producer.send(Message("T", b"x"), timeout_s=SHORT_S)
        serve_routes(namesrv, {"U": route({"a": {1: brokers[1].address}})})
        with pytest.raises(NoQueueError, match="a has no master now"):
            await producer.send(Message("U", b"x"), timeout_s=SHORT_S)

    run(scenario)


def test_a_look_that_ends_with_the_time_of_the_send_hides_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        serve_routes(namesrv, {"U": route({"a": {1: brokers[1].address}})})
        looks = iter([NoQueueError("a has no master now"), RequestTimeoutError("no route")])

        async def pick(*_: object) -> MessageQueue:
            raise next(looks)

        with pytest.raises(NoQueueError):
            await producer.queues("U")  # now the route is known
        monkeypatch.setattr(producer._sender, "_pick", pick)
        with pytest.raises(NoQueueError, match="a has no master now"):
            await producer.send(Message("U", b"x"))

    run(scenario)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION])
def test_other_refusals_are_counted(code: int) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].on(SEND, after(refusals(code), stored))
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"))
        assert brokers[0].count(SEND) == 3

    run(scenario)


def test_a_broker_without_replicas_is_not_waited_for() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        serve_routes(namesrv, {"T": route({"a": {0: brokers[0].address}})})
        brokers[0].on(SEND, after(refusals(), stored))
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"))
        assert brokers[0].count(SEND) == 3

    run(scenario)


def test_without_retries_nothing_is_waited_for() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].on(SEND, after(refusals(), stored))
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"))
        assert brokers[0].count(SEND) == 1
        serve_routes(namesrv, {"U": route({"a": {1: brokers[1].address}})})
        with pytest.raises(NoQueueError):
            await producer.send(Message("U", b"x"))

    run(scenario, retry_count=0)
