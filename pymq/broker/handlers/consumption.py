"""What groups consume, and their lag (208, 317, 303, 308); look-ups between topics and groups (300, 343, 345)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.report.consumed import Consumed
from pymq.broker.report.group_rows import GroupRows
from pymq.broker.report.row_pages import Sight
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.admin_text import BODY_SIZE_MAX_BYTES, encode_in_steps, encode_table_in_steps
from pymq.wire.bodies_admin import (
    BrokerConsumeStats,
    ConsumeOffset,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    GroupNames,
    QueueTimeSpan,
    SubscriptionAnswer,
    TopicLag,
    encode_admin_body,
)
from pymq.wire.bodies_client import QueueName
from pymq.wire.bodies_route import TopicList
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, ProvenSender
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import (
    BrokerConsumeStatsHeader,
    ConsumeStatsHeader,
    CorrectionOffsetHeader,
    GroupHeader,
    TopicGroupHeader,
    TopicHeader,
)
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore

LONG_MAX = 2**63 - 1
QUEUE_TEXT_BYTES_MIN = 128  # one queue in the JSON of an answer
QUEUES_AT_ONCE = 32  # whose figures are read, with a record of the log each, before the next rest


class ConsumptionHandlers:
    """Compares what groups have committed with what queues hold."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        stats: StatsManager,
        address: str,
        invisible: Mapping[tuple[str, str, int], int],
    ) -> None:
        """``address``: this broker's "host:port", part of some answers; ``invisible``: by topic, group and queue id,
        messages that pops got and have not acknowledged."""
        self._sliced_work = runtime.sliced_work
        self._config = runtime.config
        self._clock = runtime.clock
        self._store = store
        self._topics = metadata.topics
        self._cursors = metadata.cursors
        self._clients = metadata.clients
        self._stats = stats
        self._address = address
        self._invisible = invisible
        self._consumed = Consumed(metadata=metadata, store=store, invisible=invisible)
        self._rows = GroupRows(self._consumed, metadata=metadata, store=store, invisible=invisible)

    def consume_stats(self, request: Command, header: ConsumeStatsHeader, peer: Peer) -> Reply | None:
        """Return the committed offset and the end of each queue of a group's topics, or of the topics asked for.

        With ``pymq_all``: rows of all groups, topics or places.
        """
        return self._sliced_work.answer(request, peer, self._consume_stats(header, request.sender))

    def _consume_stats(self, header: ConsumeStatsHeader, sender: ProvenSender | None) -> Steps[Reply]:
        if header.pymq_all:
            return (yield from self._rows.rows(Sight(sender, self._config.broker_cluster_name), header))
        wanted = [part for part in (header.topic_list or "").split(";") if part]
        if header.topic:
            wanted.append(header.topic)
        topics = wanted or self._consumed.topics_of(header.consumer_group)
        if header.pymq_summary:
            return (yield from self._summary(header.consumer_group, topics, with_times=bool(header.pymq_times)))
        stats = ConsumeStats(pymq_counts_invisible=True)
        for topic in topics:
            yield from self._add_topic(stats, header.consumer_group, topic)
        return Reply(body=(yield from encode_in_steps(stats)))

    def _summary(self, group: str, topics: list[str], *, with_times: bool) -> Steps[Reply]:
        """Return sums by topic: they need no record of the log, and one entry for all queues of a topic."""
        found: dict[str, TopicLag] = {}
        for name in topics:
            topic = self._consumed.topic(group, name)
            if topic is not None:
                found[name] = yield from self._consumed.topic_lag(group, topic, with_times=with_times)
                yield
        table = {"consumeTps": 0.0, "offsetTable": {}, "pymqTopics": found}
        return Reply(body=(yield from encode_table_in_steps(table)))

    def broker_consume_stats(self, request: Command, header: BrokerConsumeStatsHeader, peer: Peer) -> Reply | None:
        """Return the same for every group, with the number of messages that are not consumed yet."""
        return self._sliced_work.answer(request, peer, self._broker_consume_stats(header))

    def _broker_consume_stats(self, header: BrokerConsumeStatsHeader) -> Steps[Reply]:
        answer = BrokerConsumeStats(broker_addr=self._address)
        queue_count = 0
        for group in self._cursors.all_groups():
            found = []
            for topic in self._cursors.topics_of(group):
                config = self._topics.get(topic)
                if config is None or (header.is_order and not config.order):
                    continue
                stats = ConsumeStats()
                yield from self._add_topic(stats, group, topic)
                if stats.offset_table:
                    found.append(stats)
                    queue_count += len(stats.offset_table)
                    answer.total_diff += sum(offset.lag for offset in stats.offset_table.values())
                    answer.total_inflight_diff += sum(_in_flight(offset) for offset in stats.offset_table.values())
                    _check_count(queue_count)
                yield
            if found:
                answer.consume_stats_list.append({group: found})
        return Reply(body=(yield from encode_in_steps(answer)))

    def time_spans(self, request: Command, header: TopicGroupHeader, peer: Peer) -> Reply | None:
        """Return the times of each queue's first, last and last consumed message, and the resulting delay."""
        return self._sliced_work.answer(request, peer, self._time_spans(header))

    def _time_spans(self, header: TopicGroupHeader) -> Steps[Reply]:
        topic = self._topics.require(header.topic)
        spans = []
        for queue_id in range(topic.queue_count):
            spans.append(self._time_span(topic, header.group, queue_id))
            if queue_id % QUEUES_AT_ONCE == 0:
                yield
        return Reply(body=(yield from encode_in_steps(ConsumeTimeSpans(consume_time_span_set=spans))))

    def correction_offsets(self, request: Command, header: CorrectionOffsetHeader, peer: Peer) -> Reply | None:
        """Return by queue the least offset of all groups but the filtered ones (Java: queryMinOffsetInAllGroup).

        It is Long.MAX_VALUE where the compared group is further behind.
        """
        return self._sliced_work.answer(request, peer, self._correction_offsets(header))

    def _correction_offsets(self, header: CorrectionOffsetHeader) -> Steps[Reply]:
        left_out = set(filter(None, (header.filter_groups or "").split(",")))
        least: dict[int, int] = {}
        for group in self._cursors.groups_of(header.topic):
            if group in left_out:
                continue
            for number, (queue_id, offset) in enumerate(self._cursors.offsets(group, header.topic).items()):
                if self._store.min_offset(header.topic, queue_id) <= offset:
                    least[queue_id] = min(offset, least.get(queue_id, offset))
                if number % QUEUES_AT_ONCE == 0:
                    yield
        for queue_id, offset in self._cursors.offsets(header.compare_group, header.topic).items():
            if least.get(queue_id, -1) > offset:
                least[queue_id] = LONG_MAX
        return Reply(body=(yield from encode_in_steps(CorrectionOffsets(correction_offsets=least))))

    def groups_of_topic(self, request: Command, header: TopicHeader, peer: Peer) -> Reply:
        """Return the groups that subscribe to a topic or have offsets in it."""
        found = {*self._clients.groups_of(header.topic), *self._cursors.groups_of(header.topic)}
        return Reply(body=encode_admin_body(GroupNames(group_list=sorted(found))))

    def topics_of_group(self, request: Command, header: GroupHeader, peer: Peer) -> Reply:
        """Return the topics that a group has offsets in or subscribes to."""
        connected = self._clients.consumer_group(header.group)
        found = {*self._cursors.topics_of(header.group), *(connected.subscriptions if connected else ())}
        return Reply(body=encode_admin_body(TopicList(topic_list=sorted(found), broker_addr=self._address)))

    def subscription(self, request: Command, header: TopicGroupHeader, peer: Peer) -> Reply:
        """Return a connected group's subscription to a topic; an empty answer when it is not connected."""
        found = self._clients.subscription(header.group, header.topic)
        answer = SubscriptionAnswer(group=header.group, topic=header.topic, subscription_data=found)
        return Reply(body=encode_admin_body(answer))

    def _add_topic(self, stats: ConsumeStats, group: str, topic_name: str) -> Steps[None]:
        topic = self._consumed.topic(group, topic_name)
        if topic is None:
            return
        for queue_id in range(topic.queue_count):
            known = self._cursors.query(group, topic_name, queue_id)
            committed = max(0, known)
            last_ms = self._store.store_time(topic_name, queue_id, committed - 1) if committed else 0
            stats.offset_table[self._queue(topic_name, queue_id)] = ConsumeOffset(
                broker_offset=max(0, self._store.max_offset(topic_name, queue_id)),
                consumer_offset=committed,
                pull_offset=max(committed, self._cursors.pulled(group, topic_name, queue_id)),
                last_timestamp=max(0, last_ms),
                pymq_invisible=self._invisible.get((topic_name, group, queue_id)),
                pymq_uncommitted=True if known < 0 else None,
            )
            if queue_id % QUEUES_AT_ONCE == 0:
                yield
        stats.consume_tps += self._stats.got_per_second(topic_name, group)

    def _time_span(self, topic: TopicConfig, group: str, queue_id: int) -> QueueTimeSpan:
        store, name = self._store, topic.topic_name
        first, end = store.min_offset(name, queue_id), store.max_offset(name, queue_id)
        committed = self._cursors.query(group, name, queue_id)
        min_ms = store.store_time(name, queue_id, first) if end > first else -1
        waiting_ms = store.store_time(name, queue_id, max(first, committed)) if end > committed else -1
        return QueueTimeSpan(
            message_queue=QueueName.of(self._queue(name, queue_id)),
            min_time_stamp=min_ms,
            max_time_stamp=store.store_time(name, queue_id, end - 1) if end > first else -1,
            consume_time_stamp=store.store_time(name, queue_id, committed - 1) if committed > 0 else min_ms,
            delay_time=max(0, self._clock.now_ms() - waiting_ms) if waiting_ms > 0 else 0,
        )

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._config.broker_name, queue_id)


def _check_count(queue_count: int) -> None:
    """Check the size of an answer before it is made whole. Raises Refusal(SYSTEM_ERROR)."""
    if queue_count * QUEUE_TEXT_BYTES_MIN > BODY_SIZE_MAX_BYTES:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the groups have offsets in more queues than an answer of {BODY_SIZE_MAX_BYTES} bytes holds: ask for each "
            "group (consumerProgress -g)",
        )


def _in_flight(offset: ConsumeOffset) -> int:
    return max(0, offset.pull_offset - offset.consumer_offset)
