"""A consumer whose group subscribes differently says so: from a heartbeat's answer, or by asking the broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import PushConsumer
from pymq.client.subscription_check import SubscriptionCheck
from pymq.wire.bodies_admin import SubscriptionAnswer, encode_admin_body
from pymq.wire.bodies_client import DIFFERING_SUBSCRIPTIONS, SubscriptionData
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.client.fake_group import GROUP, FakeGroup
from tests.client.scenarios import Inbox


def run(scenario: Any, expression: str = "A || B") -> None:
    async def main() -> None:
        group = await FakeGroup().start()
        consumer = PushConsumer(GROUP, namesrv=group.server.address, on_message=Inbox())
        consumer.subscribe("T", expression)
        try:
            async with consumer:
                await scenario(group, consumer)
        finally:
            await group.server.stop()

    asyncio.run(main())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def knows(group: FakeGroup, expression: str | None, kind: str = "TAG") -> None:
    """Have the broker know the group's subscription to T, as another member sent it."""
    data = None if expression is None else SubscriptionData(topic="T", sub_string=expression, expression_type=kind)
    body = encode_admin_body(SubscriptionAnswer(group=GROUP, topic="T", subscription_data=data))
    group.server.on(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, lambda _: Reply(body=body))


def test_what_a_heartbeats_answer_says_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer) -> None:
        plain = group._heartbeat

        def told(command: Command) -> Reply:
            plain(command)
            return Reply(ext={DIFFERING_SUBSCRIPTIONS: "members of group 'G' subscribe differently"})

        group.server.on(RequestCode.HEART_BEAT, told)
        for _ in range(3):
            await consumer._instance.heartbeat_all()

    run(scenario)
    assert warnings(caplog) == ["members of group 'G' subscribe differently"]


def test_another_subscription_of_the_group_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer) -> None:
        check = SubscriptionCheck(consumer._state)
        for other in ("C", "SQL", "C"):
            knows(group, other)
            await check.run()

    run(scenario)
    [line] = warnings(caplog)
    assert "topic 'T': 'A || B' by this client, 'C' by another member: give all members the same" in line


@pytest.mark.parametrize("known", ["B||A", " A || B", None])
def test_the_same_or_no_subscription_is_not_logged(known: str | None, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer) -> None:
        knows(group, known)
        await SubscriptionCheck(consumer._state).run()
        assert group.server.count(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER) == 1

    run(scenario)
    assert warnings(caplog) == []


def test_a_broker_that_can_not_tell_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer) -> None:
        group.server.refuse(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        await SubscriptionCheck(consumer._state).run()

    run(scenario)
    assert warnings(caplog) == []
