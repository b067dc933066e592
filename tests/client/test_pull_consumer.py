"""PullConsumer against a scripted broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import MessageQueue, PullConsumer, PullStatus
from pymq.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.model import sysflag
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.header import decode_header
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader
from pymq.wire.reply import Reply
from tests.client.fake_group import FakeGroup

QUEUE = MessageQueue("T", "b", 0)


def run(scenario: Any, queue_count: int = 1) -> None:
    async def main() -> None:
        group = await FakeGroup(queue_count).start()
        try:
            async with PullConsumer("Reader", namesrv=group.server.address) as pull:
                await scenario(group, pull)
        finally:
            await group.server.stop()

    asyncio.run(main())


def test_a_pull_carries_its_subscription_and_joins_no_group() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        group.put(b"one")
        group.put(b"two")
        result = await pull.pull(QUEUE, 0, 10, bytes_max=5000, expression="*")
        assert result.status is PullStatus.FOUND
        assert (result.next_offset, result.min_offset, result.max_offset) == (2, 0, 2)
        assert [message.content() for message in result.messages()] == [b"one", b"two"]
        assert {message.broker_name for message in result.messages()} == {"b"}
        header = decode_header(PullMessageHeader, group.server.requests[RequestCode.PULL_MESSAGE][0].ext)
        assert header.sys_flag == sysflag.PULL_SUBSCRIPTION
        assert (header.consumer_group, header.subscription, header.expression_type) == ("Reader", "*", "TAG")
        assert (header.max_msg_nums, header.max_msg_bytes, header.commit_offset) == (10, 5000, 0)
        assert group.server.count(RequestCode.HEART_BEAT) == 0

    run(scenario)


def test_long_polling_is_requested_from_the_broker() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        waiting = asyncio.ensure_future(pull.pull(QUEUE, 0, suspend_ms=7000))
        command = await group.server.wait_for(RequestCode.PULL_MESSAGE)
        header = decode_header(PullMessageHeader, command.ext)
        assert header.sys_flag == sysflag.PULL_SUBSCRIPTION | sysflag.PULL_SUSPEND
        assert header.suspend_timeout_millis == 7000
        group.put(b"late")
        assert [message.content() for message in (await waiting).messages()] == [b"late"]

    run(scenario)


def test_tags_that_share_a_hash_are_distinguished() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        group.put(b"no", TAGS="BBBB")
        only_others = await pull.pull(QUEUE, 0, expression="AaAa")
        assert (only_others.status, only_others.messages()) == (PullStatus.NO_MATCHED_MESSAGE, [])
        group.put(b"yes", TAGS="AaAa")
        mixed = await pull.pull(QUEUE, 0, expression="AaAa")
        assert (mixed.status, [message.content() for message in mixed.messages()]) == (PullStatus.FOUND, [b"yes"])
        assert mixed.next_offset == 2

    run(scenario)


def test_an_offset_out_of_range_is_a_status_with_the_next_offset() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        group.put()
        result = await pull.pull(QUEUE, 99)
        assert (result.status, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, 1)

    run(scenario)


def test_offsets() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        group.put()
        group.put()
        assert (await pull.min_offset(QUEUE), await pull.max_offset(QUEUE)) == (0, 2)
        assert await pull.offset_by_time(QUEUE, 1) == 1
        assert await pull.committed(QUEUE) is None
        await pull.commit(QUEUE, 2)
        assert await pull.committed(QUEUE) == 2

    run(scenario)


def test_the_suggested_broker_is_pulled_from_next() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        answer = PullMessageAnswer(suggest_which_broker_id=1, next_begin_offset=0, min_offset=0, max_offset=0)
        group.server.on(RequestCode.PULL_MESSAGE, lambda _: Reply(ResponseCode.PULL_NOT_FOUND, ext=answer))
        assert (await pull.pull(QUEUE, 0)).suggested_broker_id == 1
        assert pull._broker_ids == {QUEUE: 1}

    run(scenario)


def test_queues_come_from_the_current_route() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        assert await pull.queues("T") == [MessageQueue("T", "b", i) for i in range(3)]
        with pytest.raises(NotFoundError, match="Ghost"):
            await pull.queues("Ghost")
        with pytest.raises(UsageError):
            await pull.queues("no/topic")
        with pytest.raises(UnreachableError, match="broker elsewhere"):
            await pull.pull(MessageQueue("T", "elsewhere", 0), 0)

    run(scenario, queue_count=3)


def test_other_codes_are_raised() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        group.pull_codes = [ResponseCode.NO_PERMISSION]
        with pytest.raises(RefusedError) as caught:
            await pull.pull(QUEUE, 0)
        assert caught.value.code == ResponseCode.NO_PERMISSION

    run(scenario)


def test_an_answer_without_its_fields_is_the_servers_fault() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        group.server.on(RequestCode.PULL_MESSAGE, lambda _: Reply())
        with pytest.raises(Exception, match="nextBeginOffset"):
            await pull.pull(QUEUE, 0)

    run(scenario)
