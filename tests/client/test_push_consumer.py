"""PushConsumer against a scripted broker: heartbeats, pulls, offsets and retries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Never

import pytest

from pymq.client import ConsumeResult, MessageQueue, PushConsumer, offset_moves
from pymq.client import concurrent as concurrent_module
from pymq.client.consumer_settings import ConsumerSettings
from pymq.errors import ClosedError, RefusedError, UsageError
from pymq.model import sysflag
from pymq.model.names import retry_topic
from pymq.model.properties import decode_properties
from pymq.model.record import StoredMessage
from pymq.wire.bodies_admin import ClientConsumerStatus, ConsumeDirectlyResult, ConsumerRunningInfo, decode_admin_body
from pymq.wire.bodies_client import HeartbeatData, LockRequest, decode_body
from pymq.wire.bodies_consumer import ClientCheck
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import FLAG_ONEWAY, Command
from pymq.wire.header import decode_header
from pymq.wire.headers.pull import PullMessageHeader
from pymq.wire.headers.send import ConsumerSendMsgBackHeader, SendMessageV2Header
from pymq.wire.reply import Reply
from tests.client.fake_broker import route_reply, serve_routes
from tests.client.fake_group import GROUP, FakeGroup
from tests.client.messages import record
from tests.client.scenarios import Inbox, until

QUEUE = MessageQueue("T", "b", 0)
LATER = ConsumeResult.RECONSUME_LATER


def run(
    scenario: Any,
    *,
    queue_count: int = 1,
    handler: Any = None,
    start: bool = True,
    prepare: Any = None,
    expression: str = "*",
    **options: Any,
) -> None:
    """Run ``scenario(group, consumer, inbox)`` with a started consumer of topic T."""

    async def main() -> None:
        group = await FakeGroup(queue_count).start()
        if prepare is not None:
            prepare(group)
        inbox = Inbox()
        options.setdefault("consume_from", "first")
        options.setdefault("retry_interval_s", 0.02)
        consumer = PushConsumer(GROUP, namesrv=group.server.address, on_message=handler or inbox, **options)
        consumer.subscribe("T", expression)
        try:
            if start:
                await consumer.start()
            await scenario(group, consumer, inbox)
        finally:
            await consumer.stop()
            await group.server.stop()

    asyncio.run(main())


def bodies(inbox: Inbox) -> Any:
    return [message.content() for message in inbox.messages]


def pulls(group: FakeGroup, topic: str = "T") -> Any:
    headers = [decode_header(PullMessageHeader, c.ext) for c in group.server.requests[RequestCode.PULL_MESSAGE]]
    return [header for header in headers if header.topic == topic]


def test_a_delay_of_retries_that_brokers_lower_is_refused() -> None:
    for level in (19, -2, "3"):
        with pytest.raises(UsageError, match="delay_level is"):
            ConsumerSettings(delay_level=level).check()  # type: ignore[arg-type]
    for settings in (ConsumerSettings(delay_level=-1), ConsumerSettings(delay_level=19, delay_level_max=20)):
        settings.check()


@pytest.mark.parametrize(
    "setting", [{"batch_count_max": "3"}, {"concurrency_max": 0}, {"consume_from": "yesterday"}, {"consume_from": -1}]
)
def test_a_setting_out_of_range_or_of_another_type_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(setting))} is "):
        ConsumerSettings(**setting).check()


@pytest.mark.parametrize("start", [1_700_000_000_000, "1700000000000"])
def test_a_start_time_is_a_number_or_text(start: str | int) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        asked = await group.server.wait_for(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
        assert asked.ext["timestamp"] == "1700000000000"

    run(scenario, consume_from=start)


def test_a_heartbeat_precedes_the_first_pull() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put(b"1", TAGS="TagA")
        await until(lambda: inbox.messages, "the message")
        heartbeat = decode_body(HeartbeatData, group.server.requests[RequestCode.HEART_BEAT][-1].body)
        (data,) = heartbeat.consumer_data_set
        assert (data.group_name, data.consume_type, data.message_model) == (GROUP, "CONSUME_PASSIVELY", "CLUSTERING")
        assert data.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
        topics = {one.topic: one for one in data.subscription_data_set}
        assert topics.keys() == {"T", retry_topic(GROUP)}
        assert topics["T"].code_set == [2598919, 2598920]
        assert pulls(group)[0].sub_version == topics["T"].sub_version
        assert consumer.assigned == [MessageQueue(retry_topic(GROUP), "b", 0), QUEUE]

    run(scenario, expression="TagA || TagB")


def test_a_pull_requests_long_polling() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: pulls(group), "the first pull")
        first = pulls(group)[0]
        assert (first.sys_flag, first.commit_offset) == (sysflag.PULL_SUSPEND, 0)
        assert (first.queue_offset, first.max_msg_nums, first.suspend_timeout_millis) == (0, 32, 15_000)

    run(scenario)


def test_a_pull_that_carries_a_commit_is_not_parked() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the first message to be done")
        assert not any(header.commit_offset for header in pulls(group)), "no timed commit yet"
        await consumer.commit()
        for done in (2, 3):  # a parked pull is answered; the next one carries the new offset
            group.put()
            await until(lambda done=done: consumer._state.offsets.current(QUEUE) == done, "one more message")
        assert not any(header.commit_offset for header in pulls(group)), "one message does not trigger a commit"
        group.put()
        group.put()
        await until(lambda: any(header.commit_offset for header in pulls(group)), "a commit with a pull")
        (committing,) = [header for header in pulls(group) if header.commit_offset]
        assert (committing.sys_flag, committing.suspend_timeout_millis) == (sysflag.PULL_COMMIT_OFFSET, 0)
        assert committing.commit_offset == 3 == group.offsets[QUEUE]

    run(scenario, pull_count_max=3, commit_interval_s=1000)


def test_stopping_waits_for_a_pull_that_carries_an_older_offset() -> None:
    release = asyncio.Event()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the first message to be done")
        await consumer.commit()
        plain = group._pull

        async def late(command: Command) -> Any:
            if command.ext["commitOffset"] != "0":
                await release.wait()
            return await plain(command)

        group.server.on(RequestCode.PULL_MESSAGE, late)
        group.put()
        await until(lambda: any(header.commit_offset == 1 for header in pulls(group)), "the pull that carries it")
        await until(lambda: consumer._state.offsets.current(QUEUE) == 2, "the second message to be done")
        stopping = asyncio.ensure_future(consumer.stop())
        await asyncio.wait([stopping], timeout=0.02)
        assert not stopping.done() and group.offsets[QUEUE] == 1
        release.set()
        await stopping
        assert group.offsets[QUEUE] == 2

    run(scenario, pull_count_max=1, commit_interval_s=1000)


def test_stopping_commits_finished_messages_and_unregisters() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        group.put()
        await until(lambda: len(inbox.messages) == 2, "both messages")
        await consumer.stop()
        assert group.offsets[QUEUE] == 2
        (goodbye,) = group.server.requests[RequestCode.UNREGISTER_CLIENT]
        assert goodbye.ext == {"clientID": consumer.client_id, "consumerGroup": GROUP}

    run(scenario)


def test_unregistering_follows_the_answer_to_a_heartbeat() -> None:
    release = asyncio.Event()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        async def late(command: Command) -> Any:
            await release.wait()
            return Reply()

        group.server.on(RequestCode.HEART_BEAT, late)
        heartbeats = group.server.count(RequestCode.HEART_BEAT)
        consumer._instance.spawn(consumer._instance.heartbeat_all())
        await group.server.wait_for(RequestCode.HEART_BEAT, heartbeats + 1)
        stopping = asyncio.ensure_future(consumer.stop())
        await asyncio.wait([stopping], timeout=0.02)
        assert group.server.count(RequestCode.UNREGISTER_CLIENT) == 0
        release.set()
        await stopping
        assert group.server.count(RequestCode.UNREGISTER_CLIENT) == 1

    run(scenario)


def test_unregistering_includes_brokers_that_refused_a_heartbeat() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.server.refuse(RequestCode.HEART_BEAT, ResponseCode.SYSTEM_ERROR)
        await consumer._instance.heartbeat_all()
        await consumer.stop()
        assert group.server.count(RequestCode.UNREGISTER_CLIENT) == 1

    run(scenario)


@pytest.mark.parametrize("turns", range(6))
def test_rebalancing_can_be_canceled_just_as_it_wakes(turns: Any) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        rebalancing = asyncio.ensure_future(consumer._rebalancer.run())
        await asyncio.sleep(0)  # its first step waits
        consumer._rebalancer.wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        rebalancing.cancel()
        await asyncio.wait([rebalancing], timeout=5)
        assert rebalancing.cancelled()

    run(scenario, rebalance_interval_s=1000)


def test_stopping_lets_running_handlers_finish_and_leaves_the_rest() -> None:
    gate = asyncio.Event()
    started = []

    async def handle(messages: list[StoredMessage]) -> None:
        started.append(messages[0].content())
        await gate.wait()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        for n in range(3):
            group.put(b"%d" % n)
        await until(lambda: started, "the first handler call")
        stopping = asyncio.ensure_future(consumer.stop())
        await until(lambda: not consumer._rebalancer._readers, "the pulls to end")
        assert not stopping.done()
        gate.set()
        await stopping
        assert started == [b"0"] and group.offsets[QUEUE] == 1

    run(scenario, handler=handle, concurrency_max=1)


@pytest.mark.parametrize(
    ("consume_from", "stored", "expected"),
    [("last", None, 3), ("first", None, 1), ("2", None, 2), ("last", 1, 1), ("first", 2, 2), ("2", 3, 3)],
)
def test_the_starting_offset_of_a_group(consume_from: Any, stored: Any, expected: Any) -> None:
    def prepare(group: FakeGroup) -> None:
        for _ in range(3):
            group.put()
        group.min_offsets[QUEUE] = 1
        if stored is not None:
            group.offsets[QUEUE] = stored

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: pulls(group), "a pull")
        assert pulls(group)[0].queue_offset == expected

    run(scenario, prepare=prepare, consume_from=consume_from)


def test_a_group_that_starts_last_reads_its_retry_topic_from_the_start() -> None:
    def prepare(group: FakeGroup) -> None:
        group.put(topic=retry_topic(GROUP), RETRY_TOPIC="T")

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: inbox.messages, "the retried message")
        assert inbox.messages[0].topic == "T"

    run(scenario, prepare=prepare, consume_from="last")


@pytest.mark.parametrize("code", [ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST])
def test_an_outdated_subscription_is_renewed_and_the_pull_repeated(code: int) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: pulls(group), "the first pull")
        heartbeats = group.server.count(RequestCode.HEART_BEAT)
        group.pull_codes = [code]
        group.put()  # answers the parked pull; the next one is refused
        await group.server.wait_for(RequestCode.HEART_BEAT, heartbeats + 1)
        group.put()
        await until(lambda: len(inbox.messages) == 2, "the message after the refusal")

    run(scenario)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.NO_PERMISSION])
def test_refused_pulls_are_repeated(code: int) -> None:
    def prepare(group: FakeGroup) -> None:
        group.pull_codes = [code, code]
        group.put()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: inbox.messages, "the message")
        assert [header.queue_offset for header in pulls(group)[:3]] == [0, 0, 0]

    run(scenario, prepare=prepare)


def test_an_offset_that_is_gone_is_replaced_by_the_brokers() -> None:
    def prepare(group: FakeGroup) -> None:
        for n in range(5):
            group.put(b"%d" % n)
        group.min_offsets[QUEUE] = 3
        group.offsets[QUEUE] = 1

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: len(inbox.messages) >= 2, "the messages that are left")
        assert bodies(inbox) == [b"3", b"4"]

    run(scenario, prepare=prepare)


def test_a_committed_offset_beyond_the_end_goes_back() -> None:
    def prepare(group: FakeGroup) -> None:
        group.put()
        group.offsets[QUEUE] = 9

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: group.offsets[QUEUE] == 1, "the corrected offset")

    run(scenario, prepare=prepare)


def test_messages_with_a_colliding_tag_hash_are_skipped_and_committed() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put(b"no", TAGS="BBBB")
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the skipped message to count as done")
        group.put(b"yes", TAGS="AaAa")
        await until(lambda: inbox.messages, "the wanted message")
        assert bodies(inbox) == [b"yes"]

    run(scenario, expression="AaAa")


def test_pulling_pauses_while_the_cache_is_full() -> None:
    gate = asyncio.Event()

    async def handle(messages: list[StoredMessage]) -> None:
        await gate.wait()

    def prepare(group: FakeGroup) -> None:
        for _ in range(50):
            group.put()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: consumer._state.queues[QUEUE].count >= 10, "a full cache")
        await asyncio.sleep(0.05)
        assert consumer._state.queues[QUEUE].count == 10 and len(pulls(group)) == 2
        gate.set()
        await until(lambda: consumer._state.offsets.current(QUEUE) == 50, "everything to be handled")

    run(scenario, handler=handle, prepare=prepare, cached_count_max=10, pull_count_max=5)


def test_batches_are_as_large_as_asked_for() -> None:
    sizes = []

    async def handle(messages: list[StoredMessage]) -> None:
        sizes.append(len(messages))

    def prepare(group: FakeGroup) -> None:
        for _ in range(10):
            group.put()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: sum(sizes) == 10, "all messages")
        assert sizes == [4, 4, 2]

    run(scenario, handler=handle, prepare=prepare, batch_count_max=4)


def test_a_failed_message_is_sent_back_and_counts_as_done() -> None:
    async def handle(messages: list[StoredMessage]) -> Any:
        return LATER

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        command = await group.server.wait_for(RequestCode.CONSUMER_SEND_MSG_BACK)
        header = decode_header(ConsumerSendMsgBackHeader, command.ext)
        assert (header.offset, header.group, header.delay_level, header.origin_topic) == (1000, GROUP, 2, "T")
        assert header.max_reconsume_times == 16
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the offset behind it")

    run(scenario, handler=handle, delay_level=2)


def test_a_message_that_cannot_be_sent_back_is_copied_to_the_retry_topic() -> None:
    async def handle(messages: list[StoredMessage]) -> Never:
        raise ValueError("no")

    def prepare(group: FakeGroup) -> None:
        group.server.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put(b"body", reconsume_times=2, color="red")
        command = await group.server.wait_for(RequestCode.SEND_MESSAGE_V2)
        header = decode_header(SendMessageV2Header, command.ext)
        assert (header.topic, header.producer_group) == (retry_topic(GROUP), "CLIENT_INNER_PRODUCER")
        assert (header.reconsume_times, header.max_reconsume_times) == (3, 5)
        properties = decode_properties(header.properties.encode())
        assert command.body == b"body"
        assert (properties["RETRY_TOPIC"], properties["DELAY"], properties["color"]) == ("T", "5", "red")

    run(scenario, handler=handle, prepare=prepare, max_reconsume_times=5)


def test_a_message_no_broker_takes_back_is_kept_and_holds_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrent_module, "KEPT_RETRY_INTERVAL_S", 0.02)
    tries = []

    async def handle(messages: list[StoredMessage]) -> Any:
        tries.append(messages[0].reconsume_times)
        return LATER if len(tries) < 3 else None

    def prepare(group: FakeGroup) -> None:
        group.server.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)
        group.server.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_ERROR)
        group.put()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: len(tries) >= 2, "a second try")
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the third try to succeed")
        assert tries == [0, 1, 2]

    run(scenario, handler=handle, prepare=prepare)


def test_a_notice_of_changed_members_triggers_a_rebalance() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        assert len(consumer.assigned) == 5
        group.members = [consumer.client_id, "0.0.0.0@another"]
        group.server.push(Command(40, flag=FLAG_ONEWAY, ext={"consumerGroup": GROUP}))
        await until(lambda: consumer.assigned == [MessageQueue("T", "b", 2), MessageQueue("T", "b", 3)], "its half")

    run(scenario, queue_count=4, rebalance_interval_s=1000)


def test_a_notice_for_another_group_changes_nothing() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        asked = group.server.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
        group.server.push(Command(40, flag=FLAG_ONEWAY, ext={"consumerGroup": "Other"}))
        group.server.push(Command(307, opaque=1, ext={"consumerGroup": GROUP, "clientId": consumer.client_id}))
        await group.server.wait_for_answers()
        assert group.server.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == asked

    run(scenario, rebalance_interval_s=1000)


def test_a_revoked_queue_is_committed_first() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the message to be done")
        group.members = ["0.0.0.0@first", consumer.client_id]
        group.server.push(Command(40, flag=FLAG_ONEWAY, ext={"consumerGroup": GROUP}))
        await until(lambda: not consumer.assigned, "the queues to be given up")
        await until(lambda: group.offsets.get(QUEUE) == 1, "the committed offset")

    run(scenario, rebalance_interval_s=1000, commit_interval_s=1000)


def test_a_client_the_broker_does_not_list_keeps_its_queues() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        assigned = consumer.assigned
        group.members = ["0.0.0.0@another"]
        asked = group.server.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
        group.server.push(Command(40, flag=FLAG_ONEWAY, ext={"consumerGroup": GROUP}))
        await group.server.wait_for(RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked + 4)
        assert consumer.assigned == assigned

    run(scenario, rebalance_interval_s=1000)


def test_a_lost_connection_is_reopened_with_a_heartbeat() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        heartbeats = group.server.count(RequestCode.HEART_BEAT)
        group.server.drop_connections()
        await group.server.wait_for(RequestCode.HEART_BEAT, heartbeats + 1)
        group.put()
        await until(lambda: inbox.messages, "a message over the new connection")

    run(scenario)


def test_a_broker_that_moved_is_found_again() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        moved = await FakeGroup().start()
        try:
            address = moved.server.address
            routes = {
                "T": route_reply({"b": address}, queues=1),
                retry_topic(GROUP): route_reply({"b": address}, queues=1),
            }
            serve_routes(group.server, routes)
            group.server.drop_connections()
            await until(lambda: pulls(moved), "a pull at the new address")
            assert moved.server.count(RequestCode.HEART_BEAT) >= 1
            moved.put()
            await until(lambda: inbox.messages, "a message from there")
        finally:
            await consumer.stop()
            await moved.server.stop()

    run(scenario)


def test_broadcasting_takes_all_queues_and_commits_nowhere() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put(queue_id=0)
        group.put(queue_id=1)
        await until(lambda: len(inbox.messages) == 2, "messages of all queues")
        await consumer.stop()
        assert group.server.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 0
        assert not group.offsets
        assert retry_topic(GROUP) not in {header.topic for header in pulls(group)}

    run(scenario, queue_count=2, broadcasting=True)


def test_orderly_queues_are_locked_first_and_unlocked_last() -> None:
    def prepare(group: FakeGroup) -> None:
        group.refused_locks = {MessageQueue("T", "b", 1)}
        group.put(queue_id=0)
        group.put(queue_id=1)

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: inbox.messages, "the message of the queue that is free")
        assert {header.queue_id for header in pulls(group)} == {0}
        group.refused_locks = set()
        await until(lambda: len(inbox.messages) == 2, "the other queue once it is free")
        await consumer.stop()
        unlocked = [
            name.to_queue()
            for command in group.server.requests[RequestCode.UNLOCK_BATCH_MQ]
            for name in decode_body(LockRequest, command.body).mq_set
        ]
        assert {queue for queue in unlocked if queue.topic == "T"} == {QUEUE, MessageQueue("T", "b", 1)}

    run(scenario, queue_count=2, orderly=True, prepare=prepare)


def test_orderly_failures_are_retried_before_the_next_message() -> None:
    seen = []

    async def handle(messages: list[StoredMessage]) -> Any:
        seen.append((messages[0].content(), messages[0].reconsume_times))
        return LATER if messages[0].content() == b"0" and messages[0].reconsume_times < 2 else None

    def prepare(group: FakeGroup) -> None:
        group.put(b"0")
        group.put(b"1")

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: len(seen) == 4, "both messages")
        assert seen == [(b"0", 0), (b"0", 1), (b"0", 2), (b"1", 0)]
        assert group.server.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 0

    run(scenario, handler=handle, orderly=True, suspend_ms=5, prepare=prepare)


def test_an_orderly_message_without_tries_left_is_a_dead_letter() -> None:
    async def handle(messages: list[StoredMessage]) -> Any:
        return LATER

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        command = await group.server.wait_for(RequestCode.SEND_MESSAGE_V2)
        header = decode_header(SendMessageV2Header, command.ext)
        assert (header.topic, header.reconsume_times, header.max_reconsume_times) == (retry_topic(GROUP), 2, 1)
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the offset behind it")

    run(scenario, handler=handle, orderly=True, suspend_ms=5, max_reconsume_times=1)


def queue_json(offset: Any) -> bytes:
    return b'{"brokerName":"b","queueId":0,"topic":"T"}:%d' % offset


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{' + queue_json(1) + b"}}",
        b'{"offsetTable":[{"topic":"T","brokerName":"b","queueId":0,"offset":1}]}',
    ],
)
@pytest.mark.parametrize("orderly", [False, True])
def test_an_operators_reset_restarts_the_queue(body: Any, orderly: Any) -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        for n in range(3):
            group.put(b"%d" % n)
        await until(lambda: len(inbox.messages) == 3, "all messages")
        ext = {"topic": "T", "group": GROUP, "timestamp": "0", "isForce": "true"}
        group.server.push(Command(220, flag=FLAG_ONEWAY, ext=ext, body=body))
        await until(lambda: len(inbox.messages) == 5, "messages from the new offset")
        assert bodies(inbox)[3:] == [b"1", b"2"]

    run(scenario, orderly=orderly, rebalance_interval_s=1000)


@pytest.mark.parametrize("target", [1, 3])
def test_a_reset_in_the_broker_is_one_line_of_the_log(
    target: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_moves, "RESET_GATHER_S", 0.05)
    caplog.set_level("INFO", "pymq.client")

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        for queue_id in range(4):
            for n in range(3):
                group.put(b"%d" % n, queue_id=queue_id)
        await until(lambda: len(inbox.messages) == 12, "all messages")
        for queue_id in range(4):
            group.reset(queue_id, target)
        await until(lambda: not group.resets and len(inbox.messages) == 12 + 4 * (3 - target), "the moves")
        if target != 3:
            await until(lambda: "were reset" in caplog.text, "the line")

    run(scenario, queue_count=4)
    lines = [record.getMessage() for record in caplog.records if "offset" in record.getMessage()]
    places = ", ".join(f"T b/{queue_id} from 3 to 1" for queue_id in range(4))
    assert lines == ([f"the offsets of group G were reset: {places}"] if target != 3 else [])
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_status_running_info_and_direct_consumption_are_answered() -> None:
    async def handle(messages: list[StoredMessage]) -> Any:
        if messages[0].content() == b"bad":
            raise ValueError("bad message")
        return LATER if messages[0].content() == b"later" else None

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        await until(lambda: consumer._state.offsets.current(QUEUE) == 1, "the message")
        ext = {"topic": "T", "group": GROUP, "consumerGroup": GROUP, "clientId": consumer.client_id, "brokerName": "b"}
        group.server.push(Command(221, opaque=1, ext=ext))
        status = decode_admin_body(ClientConsumerStatus, (await group.server.wait_for_answers(1)).body)
        assert status.message_queue_table == {QUEUE: 1}
        group.server.push(Command(307, opaque=2, ext=ext))
        info = decode_admin_body(ConsumerRunningInfo, (await group.server.wait_for_answers(2)).body)
        assert info.mq_table[QUEUE]["commitOffset"] == 1
        assert info.status_table["T"]["consumeOKTPS"] > 0
        assert int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
        expected = {b"fine": "CR_SUCCESS", b"later": "CR_LATER", b"bad": "CR_THROW_EXCEPTION"}
        for n, (body, outcome) in enumerate(expected.items(), 3):
            group.server.push(Command(309, opaque=n, ext=ext, body=record(body)))
            answer = decode_admin_body(ConsumeDirectlyResult, (await group.server.wait_for_answers(n)).body)
            assert answer.consume_result == outcome
        assert consumer._state.offsets.current(QUEUE) == 1
        group.server.push(Command(326, opaque=9))
        assert (await group.server.wait_for_answers(6)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    run(scenario, handler=handle)


def test_plain_functions_run_in_threads() -> None:
    import threading

    threads = set()

    def handle(messages: list[StoredMessage]) -> None:
        threads.add(threading.current_thread().name)

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.put()
        await until(lambda: threads, "the message")
        assert threading.current_thread().name not in threads

    run(scenario, handler=handle)


def test_a_consumer_without_subscription_does_not_start() -> None:
    async def main() -> None:
        consumer = PushConsumer(GROUP, namesrv="127.0.0.1:1", on_message=print)
        with pytest.raises(UsageError, match="subscribe"):
            await consumer.start()
        await consumer.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"consume_from": "yesterday"}, "consume_from is 'yesterday'"),
        ({"batch_count_max": 0}, "batch_count_max is 0"),
        ({"no_such": 1}, "has no setting 'no_such'$"),
        ({"orderd": True}, r"has no setting 'orderd' \(do you mean 'orderly'\?\)"),
        ({"strategy": "RANDOM"}, "no rebalance strategy 'RANDOM'"),
    ],
)
def test_invalid_settings_are_refused(settings: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        PushConsumer(GROUP, namesrv="127.0.0.1:1", on_message=print, **settings)


def test_what_a_strategy_does_wrong_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    shares: list[Any] = []

    def strategy(client_id: str, queues: Any, members: Any) -> Any:
        return shares[0](queues)

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        async def log_of(share: Any) -> list[str]:
            shares[:] = [share]
            caplog.clear()
            for _ in range(3):
                await consumer._rebalancer.rebalance()
            return [line.getMessage() for line in caplog.records if "strategy" in line.getMessage()]

        assert await log_of(lambda queues: queues) == []
        for _ in range(2):
            failed, failed_retries = await log_of(lambda queues: queues[9])
            assert failed.endswith("failed, so the queues of T stay as they are")
            assert failed_retries.endswith(f"failed, so the queues of %RETRY%{GROUP} stay as they are")
            assert await log_of(lambda queues: queues[9]) == []
            strange, _ = await log_of(lambda queues: [MessageQueue("X", "b", 1)])
            assert "returned what is no queue of T: [MessageQueue(topic='X'" in strange
            assert await log_of(lambda queues: queues) == []

    with caplog.at_level("WARNING", "pymq.client.rebalancer"):
        run(scenario, strategy=strategy)


def test_a_stopped_consumer_subscribes_to_nothing() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await consumer.stop()
        with pytest.raises(ClosedError, match="the client is stopped: make a new one"):
            consumer.subscribe("U")

    run(scenario)


def test_a_filter_that_the_broker_does_not_take_fails_the_start() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.server.refuse(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SYSTEM_ERROR, "no SQL92 here")
        consumer.subscribe("T", "a > 1", expression_type="SQL92")
        with pytest.raises(RefusedError, match="no SQL92 here"):
            await consumer.start()
        (asked,) = group.server.requests[RequestCode.CHECK_CLIENT_CONFIG]
        check = decode_body(ClientCheck, asked.body)
        assert (check.group, check.client_id) == (GROUP, consumer.client_id)
        assert (check.subscription_data.sub_string, check.subscription_data.expression_type) == ("a > 1", "SQL92")

    run(scenario, start=False)


def test_a_failed_start_leaves_nothing_behind() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        group.server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: Reply(1, "broken"))
        with pytest.raises(Exception, match="broken"):
            await consumer.start()
        assert not consumer._instance.running

    run(scenario, start=False)


def test_the_file_of_offsets_may_be_a_text(tmp_path: Path) -> None:
    for place in (str(tmp_path / "offsets.json"), tmp_path / "offsets.json"):
        consumer = PushConsumer("g", on_message=lambda _: None, broadcasting=True, offsets_path=place)
        assert consumer._state.offsets._path == tmp_path / "offsets.json"  # type: ignore[attr-defined]
    for wrong in ("", 5, b"x"):
        with pytest.raises(UsageError, match=r"offsets_path is .*: write the path of a file"):
            PushConsumer("g", on_message=lambda _: None, offsets_path=wrong)  # type: ignore[arg-type]
