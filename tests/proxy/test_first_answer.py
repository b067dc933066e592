"""One of several brokers answers for all: those that are away or stand still hold nobody up."""

from __future__ import annotations

import asyncio
import gc

import pytest

from pymq.client.instance import ClientInstance, ClusterAccess
from pymq.clock import SystemClock
from pymq.errors import RefusedError, UnreachableError
from pymq.model.message_types import TYPE_ATTRIBUTE
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.proxy import first_answer as module
from pymq.proxy.client_backend import ClientBackend
from pymq.proxy.first_answer import first_answer
from pymq.proxy.settings import GroupRules
from pymq.wire.bodies_admin import encode_admin_body
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.reply import Reply
from tests.client.fake_broker import NO_ANSWER, FakeServer, route_reply, serve_routes

STANDS_STILL = "stands still"


class Brokers:
    """Brokers that answer, do not know, are away, or stand still, by address."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.cancelled: list[str] = []

    async def ask(self, address: str) -> str | None:
        self.asked.append(address)
        answer = self.answers[address]
        if answer == STANDS_STILL:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.append(address)
                raise
        if isinstance(answer, Exception):
            raise answer
        assert answer is None or isinstance(answer, str)
        return answer

    async def first(self) -> str | None:
        return await first_answer(self.answers, self.ask)


def test_the_first_that_knows_answers_and_no_other_is_asked() -> None:
    brokers = Brokers(a=None, b="yes", c="no")
    assert asyncio.run(brokers.first()) == "yes" and brokers.asked == ["a", "b"]


def test_one_that_is_away_is_passed_over() -> None:
    away = UnreachableError("away")
    assert asyncio.run(Brokers(a=away, b="yes").first()) == "yes"
    assert asyncio.run(Brokers(a=away, b=None).first()) is None, "b answered"
    assert asyncio.run(Brokers().first()) is None
    with pytest.raises(UnreachableError, match="away"):
        asyncio.run(Brokers(a=away, b=away).first())


def test_a_refusal_is_an_answer() -> None:
    brokers = Brokers(a=RefusedError(16, "no"), b="yes")
    with pytest.raises(RefusedError):
        asyncio.run(brokers.first())
    assert brokers.asked == ["a"]


def test_one_that_stands_still_does_not_keep_others_from_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEXT_AFTER_S", 0.01)
    brokers = Brokers(a=STANDS_STILL, b=STANDS_STILL, c="yes")
    assert asyncio.run(brokers.first()) == "yes"
    assert brokers.asked == ["a", "b", "c"] and sorted(brokers.cancelled) == ["a", "b"]
    unknown = Brokers(a=STANDS_STILL, b=None, c=UnreachableError("away"))
    assert asyncio.run(unknown.first()) is None and unknown.cancelled == ["a"]


def test_two_that_answer_at_once_count_in_their_order_and_a_failure_beside_is_not_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "NEXT_AFTER_S", 0.01)
    logged: list[object] = []

    async def main() -> str | None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: logged.append(context))
        answers: list[asyncio.Future[str | None]] = [loop.create_future() for _ in range(3)]

        def ask(address: str) -> asyncio.Future[str | None]:
            if address == "2":  # all end in one turn of the loop
                answers[0].set_result("first")
                answers[1].set_exception(RefusedError(16, "no"))
                answers[2].set_result("third")
            return answers[int(address)]

        try:
            return await first_answer("012", ask)
        finally:
            answers.clear()
            gc.collect()

    assert asyncio.run(main()) == "first" and not logged


def test_types_of_topics_and_rules_of_groups_come_from_the_broker_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two masters one stands still: a send over gRPC needs the type, a consumer's settings need the rules."""
    monkeypatch.setattr(module, "NEXT_AFTER_S", 0.05)

    async def main() -> None:
        namesrv, still, well = [await FakeServer().start() for _ in range(3)]
        serve_routes(namesrv, {"T": route_reply({"broker-0": still.address, "broker-1": well.address})})
        topic = TopicConfig(topic_name="T", attributes={TYPE_ATTRIBUTE: "FIFO"})
        group = SubscriptionGroupConfig(group_name="G", consume_message_orderly=True)
        well.on(Code.GET_TOPIC_CONFIG, lambda _: Reply(body=encode_admin_body(topic)))
        well.on(Code.GET_SUBSCRIPTIONGROUP_CONFIG, lambda _: Reply(body=encode_admin_body(group)))
        for code in (Code.GET_TOPIC_CONFIG, Code.GET_SUBSCRIPTIONGROUP_CONFIG):
            still.on(code, lambda _: NO_ANSWER)
        instance = ClientInstance(ClusterAccess(namesrv.address), clock=SystemClock())
        backend = ClientBackend(instance)
        instance.start()
        try:
            async with asyncio.timeout(2.5):  # less than one of them waits for a broker alone
                assert await backend.topic_type("T") == "FIFO"
                assert (await backend.group_rules("G")).is_orderly
            assert still.count(Code.GET_TOPIC_CONFIG) == 1
            well.refuse(Code.GET_SUBSCRIPTIONGROUP_CONFIG, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
            await still.stop()
            assert await backend.group_rules("other") == GroupRules()
        finally:
            await backend.close()
            await instance.close()
            for server in (namesrv, still, well):
                await server.stop()

    asyncio.run(main())
