"""A consumer with a local filter: the messages that arrive, the committed offsets, and the stop policy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import MessageQueue, PullConsumer, PullStatus, PushConsumer
from pymq.client.local_filter import LocalFilter
from pymq.client.pull_consumer import SUBSCRIPTION_COUNT_MAX
from pymq.client.subscription import filtered_subscription
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import ManualClock
from pymq.errors import ExpressionError, FilterError, FilterStopError, UsageError
from pymq.filter import registry
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import EachMessage, hookimpl
from pymq.filter.registry import FilterRegistry
from pymq.wire.bodies_client import HeartbeatData, decode_body
from pymq.wire.codes import RequestCode
from tests.client.fake_group import GROUP, FakeGroup
from tests.client.scenarios import Inbox, until

QUEUE = MessageQueue("T", "b", 0)


class LengthFilter:
    """Matches bodies of at least the given size in bytes; the body ``?`` is an error."""

    name = "length"
    doc = "A number of bytes."

    def compile(self, expression: str) -> EachMessage:
        if not expression.isdigit():
            raise ExpressionError(1, f"{expression!r} is no number")

        def long_enough(message: FilterMessage) -> bool:
            if message.body == b"?":
                raise FilterError("it is a riddle")
            return len(message.body) >= int(expression)

        return EachMessage(long_enough)

    @hookimpl
    def pymq_filters(self) -> list[LengthFilter]:
        return [self]


class Entry:
    name, module, dist = "length", "length", None

    def load(self) -> LengthFilter:
        return LengthFilter()


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    filters = FilterRegistry(lambda: [Entry()])  # type: ignore[list-item]
    monkeypatch.setattr(registry, "installed_filters", lambda: filters)


def run(scenario: Any, *bodies: bytes, **subscription: Any) -> None:
    """Run ``scenario(group, consumer, inbox)`` with an unstarted consumer and messages in its queue."""

    async def main() -> None:
        group = await FakeGroup(1).start()
        inbox = Inbox()
        consumer = PushConsumer(
            GROUP,
            namesrv=group.server.address,
            on_message=inbox,
            consume_from="first",
            retry_interval_s=0.02,
            commit_interval_s=0.02,
        )
        consumer.subscribe("T", filter="length", **subscription)
        for body in bodies:
            group.put(body)
        try:
            await consumer.start()
            await scenario(group, consumer, inbox)
        finally:
            await consumer.stop()
            await group.server.stop()

    asyncio.run(main())


def received(inbox: Inbox) -> list[bytes]:
    return sorted(message.content() for message in inbox.messages)


def test_the_handler_gets_the_messages_that_match() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: group.offsets.get(QUEUE) == 4, "all of them are done")
        assert received(inbox) == [b"long", b"longer"]
        assert consumer.failure is None
        figures = consumer.running_info()["properties"]["filter.T"]  # type: ignore[index]
        assert figures.startswith("length: matched 2, skipped 2, errors 0, ")

    run(scenario, b"long", b"s", b"longer", b"t", expression="4")


def test_the_broker_does_not_see_the_filter() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: inbox.messages, "the message")
        heartbeat = decode_body(HeartbeatData, group.server.requests[RequestCode.HEART_BEAT][-1].body)
        [data] = [one for one in heartbeat.consumer_data_set[0].subscription_data_set if one.topic == "T"]
        assert (data.sub_string, data.expression_type) == ("*", "TAG")

    run(scenario, b"long", expression="4")


@pytest.mark.parametrize(("on_error", "expected"), [("skip", [b"long"]), ("deliver", [b"?", b"long"])])
def test_errors_never_hold_a_queue_up(on_error: str, expected: list[bytes]) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: group.offsets.get(QUEUE) == 2, "both are done")
        assert received(inbox) == expected

    run(scenario, b"?", b"long", expression="4", on_error=on_error)


def test_stop_ends_the_consumer_before_the_message() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: group.offsets.get(QUEUE) == 1, "the first is done")
        group.put(b"long")
        group.put(b"?")
        with pytest.raises(
            FilterStopError, match=r"filter length can't judge T b/0@\d: it is a riddle; on_error is st"
        ):
            await asyncio.wait_for(consumer.wait(), 20)
        assert isinstance(consumer.failure, FilterStopError)
        assert consumer.assigned == []
        done = group.offsets[QUEUE]
        assert done in (1, 2) and len(inbox.messages) == done, "only messages that the handler saw count as done"

    run(scenario, b"first", expression="4", on_error="stop")


def test_stop_delivers_the_messages_before_the_failed_one() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        with pytest.raises(FilterStopError, match="b/0@2: it is a riddle"):
            await asyncio.wait_for(consumer.wait(), 20)
        assert received(inbox) == [b"first", b"second"]

    run(scenario, b"first", b"second", b"?", b"third", expression="4", on_error="stop")


def pulling(scenario: Any, *bodies: bytes) -> None:
    """Run ``scenario(group, pull)`` with a PullConsumer and messages in its queue."""

    async def main() -> None:
        group = await FakeGroup(1).start()
        for body in bodies:
            group.put(body)
        try:
            async with PullConsumer("Reader", namesrv=group.server.address) as pull:
                await scenario(group, pull)
        finally:
            await group.server.stop()

    asyncio.run(main())


def test_a_pull_returns_matches_and_skips_the_rest() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        some = await pull.pull(QUEUE, 0, 3, filter="length", expression="4")
        assert (some.status, some.next_offset) == (PullStatus.FOUND, 3)
        assert [(message.body, message.queue_offset) for message in some.messages()] == [(b"long", 1)]
        none = await pull.pull(QUEUE, 3, filter="length", expression="4")
        assert (none.status, none.next_offset, none.messages()) == (PullStatus.NO_MATCHED_MESSAGE, 5, [])
        header = group.server.requests[RequestCode.PULL_MESSAGE][-1].ext
        assert (header["subscription"], header["expressionType"]) == ("*", "TAG")

    pulling(scenario, b"s", b"long", b"t", b"u", b"?")


def test_a_pull_ends_before_a_message_that_stops() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        wanted: dict[str, Any] = {"filter": "length", "expression": "4", "on_error": "stop"}
        before = await pull.pull(QUEUE, 0, **wanted)
        assert (before.next_offset, [message.body for message in before.messages()]) == (2, [b"long"])
        with pytest.raises(FilterStopError, match="T b/0@2: it is a riddle"):
            await pull.pull(QUEUE, 2, **wanted)
        after = await pull.pull(QUEUE, 2, **{**wanted, "on_error": "deliver"})
        assert [message.body for message in after.messages()] == [b"?", b"longer"]

    pulling(scenario, b"long", b"s", b"?", b"longer")


def test_a_filter_is_compiled_once_and_evicted_after_many_others() -> None:
    async def scenario(group: FakeGroup, pull: PullConsumer) -> None:
        kept = pull._subscriptions
        for number in (1, 1, *range(1, SUBSCRIPTION_COUNT_MAX + 1)):
            await pull.pull(QUEUE, 0, filter="length", expression=str(number))
        assert len(kept) == SUBSCRIPTION_COUNT_MAX
        first = kept["T", SubscriptionOptions("1", filter="length")]
        assert first.local is not None and first.local.running.stats.batches == 3
        await pull.pull(QUEUE, 0, filter="length", expression="0")
        assert len(kept) == SUBSCRIPTION_COUNT_MAX and ("T", SubscriptionOptions("1", filter="length")) not in kept

    pulling(scenario, b"long")


def test_wait_returns_after_an_ordinary_stop() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        waiting = asyncio.create_task(consumer.wait())
        await consumer.stop()
        await asyncio.wait_for(waiting, 20)
        assert consumer.failure is None

    run(scenario, expression="4")


def subscribed(name: str, expression: str, on_error: str = "skip") -> Any:
    return filtered_subscription("T", name, expression, 7, clock=ManualClock(), on_error=on_error)


def test_broker_side_filters_stay_on_the_broker() -> None:
    tags = subscribed("tag", "a || b")
    assert (tags.tags, tags.local) == ({"a", "b"}, None)
    sql = subscribed("SQL92", "a > 5")
    assert (sql.expression, sql.expression_type, sql.local) == ("a > 5", "SQL92", None)
    assert isinstance(subscribed("length", "4").local, LocalFilter)


def test_invalid_filters_are_refused_before_the_start() -> None:
    with pytest.raises(UsageError, match=r"no filter 'lenght'.*did you mean length"):
        subscribed("lenght", "4")
    with pytest.raises(ExpressionError, match="'x' is no number"):
        subscribed("length", "x")
    with pytest.raises(UsageError, match="on_error is 'retry'"):
        subscribed("length", "4", "retry")


def test_one_language_at_a_time() -> None:
    async def main() -> None:
        consumer = PushConsumer(GROUP, namesrv="127.0.0.1:1", on_message=print)
        with pytest.raises(UsageError, match="excludes sql"):
            consumer.subscribe("T", "4", filter="length", sql="a > 5")
        await consumer.stop()

    asyncio.run(main())
