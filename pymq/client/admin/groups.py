"""Admin calls about consumer groups: configuration, members, progress, resets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from pymq.client.admin.asking import BrokerTarget, by_key
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.guarded import Changed, Seen, change_entry
from pymq.client.admin.rows import RowAdmin, Rows, added_up
from pymq.errors import NotFoundError, RefusedError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.model.names import RETRY_PREFIX
from pymq.model.selection import NOT_SUBSCRIBED, selection_text
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.bodies_admin import (
    ConsumeDirectlyResult,
    ConsumeOffset,
    ConsumerConnections,
    ConsumerRunningInfo,
    ConsumerStatus,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    GroupConfigTable,
    QueueOffsets,
    QueueTimeSpan,
    SubscriptionAnswer,
    TopicLag,
    add_lag,
    decode_admin_body,
)
from pymq.wire.bodies_client import SubscriptionData
from pymq.wire.bodies_pop import RequestMode
from pymq.wire.bodies_route import TopicList
from pymq.wire.bodies_rows import (
    GroupLag,
    GroupMembers,
    GroupPlaces,
    TopicReaders,
    group_lag,
    group_members,
    group_places,
    lags_by_group,
    topic_readers,
)
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.admin import (
    ALL_QUEUES,
    NO_OFFSET,
    VERSION_FIELD,
    CloneGroupOffsetHeader,
    ConsumeDirectlyHeader,
    ConsumerConnectionsHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ConsumeStatsHeader,
    CorrectionOffsetHeader,
    DeleteGroupHeader,
    GroupHeader,
    PutGroupHeader,
    ResetOffsetHeader,
    TopicGroupHeader,
)

LAGS_AT_ONCE = 2  # a broker makes large answers one slice at a time: more at once only make each of them late
MEMBERS_ASKED_MAX = 64  # of a group; each answers through its broker
_NOT_ONLINE = frozenset({ResponseCode.CONSUMER_NOT_ONLINE})
_UNKNOWN = frozenset({ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST})


class GroupAdmin:
    """Calls about consumer groups. Those without an address ask every master and merge the answers."""

    def __init__(self, connection: AdminConnection, cluster: ClusterAdmin, rows: RowAdmin) -> None:
        self._connection = connection
        self._cluster = cluster
        self._rows = rows

    async def all_configs(self) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """Return group -> broker name -> configuration, over all masters."""
        found: dict[str, dict[str, SubscriptionGroupConfig]] = {}
        for target, configs in await self._cluster.asking.each(await self._cluster.masters(), self.configs):
            for group, config in configs.items():
                found.setdefault(group, {})[target.name] = config
        return dict(sorted(found.items()))

    async def configs(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Return the configurations of all groups of one broker."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return decode_admin_body(GroupConfigTable, answer.body).subscription_group_table

    async def config(self, address: str, group: str) -> SubscriptionGroupConfig | None:
        """Return the configuration of one group on one broker, None when the broker lacks it."""
        return (await self.configs(address)).get(group)

    async def put(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create the group on one broker, or replace its configuration."""
        await self._connection.ask_broker(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, config)

    async def change(
        self, address: str, group: str, merge: Callable[[SubscriptionGroupConfig | None], SubscriptionGroupConfig]
    ) -> Changed[SubscriptionGroupConfig]:
        """Change the group on one broker to what ``merge`` makes of its configuration, None where there is no group.

        Returns both. Raises ConflictError when another administrator changes the group at the same time.
        """
        known: dict[str, str] = {}

        async def read() -> Seen[SubscriptionGroupConfig]:
            answer = await self._connection.ask_broker(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            version = answer.ext.get(VERSION_FIELD)
            found = decode_admin_body(GroupConfigTable, answer.body).subscription_group_table.get(group)
            known.update(found.attributes if found is not None else {})
            return Seen(found, int(version) if version else None)

        async def write(config: SubscriptionGroupConfig, version: int | None) -> dict[str, str]:
            header = PutGroupHeader(pymq_expected_version=version)
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            # Brokers keep the others, and RocketMQ's take a change in this form alone.
            changes = {f"+{name}": value for name, value in config.attributes.items() if known.get(name) != value}
            return (await self._connection.ask_broker(address, code, header, replace(config, attributes=changes))).ext

        return await change_entry(f"group {group!r} on {address}", read, merge, write)

    async def delete(self, address: str, group: str, *, with_offsets: bool = False) -> None:
        """Delete the group on one broker, with its committed offsets if ``with_offsets``."""
        header = DeleteGroupHeader(group_name=group, clean_offset=with_offsets, remove_offset=with_offsets)
        await self._connection.ask_broker(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def set_request_mode(
        self, address: str, group: str, topic: str, mode: str, *, pop_share_queue_count: int = 0
    ) -> None:
        """Let one broker assign the queues of ``topic`` for pulls or for pops: ``mode`` is PULL or POP.

        It holds for push consumers with ``client_rebalance=False``, Java's and PyMQ's. ``pop_share_queue_count``: how
        many other members pop a member's queues too; 0: each member pops all queues.
        """
        body = RequestMode(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=pop_share_queue_count)
        await self._connection.ask_broker(address, RequestCode.SET_MESSAGE_REQUEST_MODE, None, body)

    async def connections(self, address: str, group: str) -> ConsumerConnections | None:
        """Return members and subscriptions of the group on one broker, None when no member is online."""
        header = ConsumerConnectionsHeader(consumer_group=group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        answer = await self._connection.ask_or_none(address, code, header, _NOT_ONLINE)
        return None if answer is None else decode_admin_body(ConsumerConnections, answer.body)

    async def online(self, group: str) -> list[tuple[BrokerTarget, ConsumerConnections]]:
        """Return each master with members of the group, and its answer about them."""
        masters = await self._cluster.masters()
        answers = await self._cluster.asking.each(masters, lambda address: self.connections(address, group))
        return [(target, answer) for target, answer in answers if answer is not None]

    async def differing_subscriptions(self, group: str) -> dict[str, dict[str, int]]:
        """Return, for each topic that online members subscribe to differently, selection -> number of members.

        ``-`` stands for no subscription. PyMQ's brokers know it; on others at most MEMBERS_ASKED_MAX members are asked.
        """
        return await self.differences_of(group, await self.online(group))

    async def differences_of(
        self, group: str, members: Sequence[tuple[BrokerTarget, ConsumerConnections]]
    ) -> dict[str, dict[str, int]]:
        """Return :meth:`differing_subscriptions` of ``members``, the answer of :meth:`online`."""
        online = [(target.address, answer) for target, answer in members]
        known = [answer.pymq_differences for _, answer in online if answer.pymq_differences is not None]
        if not known:
            return await self._compare_members(group, online)
        found: dict[str, dict[str, int]] = {}
        for differences in known:
            for topic, selections in differences.items():
                if sum(selections.values()) > sum(found.get(topic, {}).values()):
                    found[topic] = selections
        return found

    async def _compare_members(
        self, group: str, online: Sequence[tuple[str, ConsumerConnections]]
    ) -> dict[str, dict[str, int]]:
        places = {member.client_id: address for address, answer in online for member in answer.connection_set}
        if len(places) < 2:
            return {}
        asked = sorted(places.items())[:MEMBERS_ASKED_MAX]
        found = await asyncio.gather(*(self._selections(address, group, client_id) for client_id, address in asked))
        answered = [selections for selections in found if selections is not None]
        differences: dict[str, dict[str, int]] = {}
        for topic in sorted({topic for selections in answered for topic in selections}):
            counts = Counter(selections.get(topic, NOT_SUBSCRIBED) for selections in answered)
            if len(counts) > 1:
                differences[topic] = dict(counts)
        return differences

    async def _selections(self, address: str, group: str, client_id: str) -> dict[str, str] | None:
        """Return topic -> selection as a member reports them, None when it doesn't answer."""
        try:
            info = await self.running_info(address, group, client_id)
        except (RefusedError, UnreachableError):
            return None
        return {
            one.topic: selection_text(one.expression_type, one.sub_string, is_class_filter=one.class_filter_mode)
            for one in info.subscription_set
            if not one.topic.startswith(RETRY_PREFIX)
        }

    async def topics(self, group: str) -> list[str]:
        """Return the topics that the group has offsets in or subscribes to, over all masters."""
        header = GroupHeader(group=group)

        async def ask(address: str) -> list[str]:
            answer = await self._connection.ask_broker(address, RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
            return decode_admin_body(TopicList, answer.body).topic_list

        answers = await self._cluster.asking.each(await self._cluster.masters(), ask)
        return sorted({name for _, names in answers for name in names})

    async def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, ConsumeOffset]:
        """Return end, committed offset and time of every queue the group has read, sorted; empty when it read none.

        Queues of retry topics are among them, of a pop group also ``%RETRY%group_topic``. ``pymq_invisible`` of a place
        is None where the broker does not count what pops got: RocketMQ's.
        """
        header = ConsumeStatsHeader(consumer_group=group, topic=topic)
        found: dict[MessageQueue, ConsumeOffset] = {}
        for stats in await self._stats(header):
            if stats.pymq_counts_invisible:
                for at in stats.offset_table.values():
                    at.pymq_invisible = at.pymq_invisible or 0
            found |= stats.offset_table
        return dict(sorted(found.items()))

    async def topic_lags(self, group: str, *, with_times: bool = False) -> dict[str, TopicLag]:
        """Return how far the group is behind in each topic it has read, summed over queues and masters.

        PyMQ's brokers send sums; on others this asks for all queues. ``with_times``: also since when messages wait,
        which costs a request for each topic there.
        """
        header = ConsumeStatsHeader(consumer_group=group, pymq_summary=True, pymq_times=with_times or None)
        found: dict[str, TopicLag] = {}
        for stats in await self._stats(header):
            is_summary = stats.pymq_topics is not None
            for topic, lag in _topic_lags(stats).items():
                has_no_time = with_times and not is_summary and lag.lag > 0
                since_ms = await self._oldest(group, topic) if has_no_time else lag.waiting_since_ms
                add_lag(found, topic, replace(lag, waiting_since_ms=since_ms))
        return dict(sorted(found.items()))

    async def topic_lags_at(self, address: str, group: str, *, with_times: bool = False) -> dict[str, TopicLag]:
        """Return :meth:`topic_lags` of one master alone; empty when it does not know the group.

        It takes one request. ``with_times``: also pulled offsets and times, of RocketMQ's brokers without the times
        since when messages wait.
        """
        header = ConsumeStatsHeader(consumer_group=group, pymq_summary=True, pymq_times=with_times or None)
        answer = await self._connection.ask_or_none(address, RequestCode.GET_CONSUME_STATS, header, _UNKNOWN)
        return {} if answer is None else _topic_lags(decode_admin_body(ConsumeStats, answer.body))

    async def all_topic_lags_at(
        self, address: str, *, with_times: bool = False, only_cheap: bool = False
    ) -> dict[str, dict[str, TopicLag]]:
        """Return :meth:`topic_lags_at` of every group of one master that has read something.

        PyMQ's brokers answer in pages, without pulled offsets; ``with_times`` takes a request, too, for each group that
        is behind in many queues, unless ``only_cheap``. Other brokers take a request for each group.
        """
        pairs = await self._rows.topic_lags(address, with_times=with_times)
        lags_of = None if pairs is None else lags_by_group(pairs)

        ask = partial(self.topic_lags_at, address, with_times=with_times)
        if lags_of is None:
            found = await by_key(sorted(await self.configs(address)), ask, LAGS_AT_ONCE)
            return {group: lags for group, lags in found.items() if lags}
        if with_times and not only_cheap:
            untimed = [
                group
                for group, lags in lags_of.items()
                if any(lag.lag > 0 and not lag.waiting_since_ms for lag in lags.values())
            ]
            timed = await by_key(sorted(untimed), ask, LAGS_AT_ONCE)
            lags_of |= {group: lags for group, lags in timed.items() if lags}
        return lags_of

    async def lags_at(self, address: str, *, with_names: bool = False, with_times: bool = False) -> Rows[GroupLag]:
        """Return how far each group of one master is behind, summed over the topics that it reads.

        PyMQ's brokers answer in one request, others take one for each group. ``with_names``: also which topics a group
        reads; ``with_times``: also since when messages wait, where that is cheap to find.
        """
        rows = await self._rows.lags(address, with_names=with_names, with_times=with_times)
        if rows is not None:
            return rows
        found = await self.all_topic_lags_at(address, with_times=with_times)
        return Rows((group, group_lag(lags, with_times=with_times)) for group, lags in found.items())

    async def all_lags(self, *, with_times: bool = False) -> Rows[GroupLag]:
        """Return how far each group is behind, summed over topics and masters, as :meth:`lags_at`."""
        masters = await self._cluster.masters()
        has_several = len(masters) > 1  # then a topic that a group reads on two brokers must count once
        answers = await self._cluster.asking.each(
            masters, lambda address: self.lags_at(address, with_names=has_several, with_times=with_times)
        )
        return added_up(rows for _, rows in answers)

    async def readers_at(self, address: str, *, with_names: bool = False) -> Rows[TopicReaders]:
        """Return how far the groups of each topic of one master are behind there, summed over groups.

        ``with_names``: also which groups read the topic. Requests as for :meth:`lags_at`.
        """
        rows = await self._rows.readers(address, with_names=with_names)
        return rows if rows is not None else Rows(topic_readers(await self.all_topic_lags_at(address)))

    async def all_readers(self) -> Rows[TopicReaders]:
        """Return how far the groups of each topic are behind there, summed over groups and masters."""
        masters = await self._cluster.masters()
        has_several = len(masters) > 1
        ask = partial(self.readers_at, with_names=has_several)
        return added_up(rows for _, rows in await self._cluster.asking.each(masters, ask))

    async def places_at(self, address: str) -> Rows[dict[str, GroupPlaces]]:
        """Return group -> topic -> the group's places in all queues of one master.

        PyMQ's brokers answer in pages, others take a request for each group.
        """
        rows = await self._rows.places(address)
        if rows is not None:
            return rows

        async def ask(group: str) -> ConsumeStats | None:
            header = ConsumeStatsHeader(consumer_group=group)
            answer = await self._connection.ask_or_none(address, RequestCode.GET_CONSUME_STATS, header, _UNKNOWN)
            return None if answer is None else decode_admin_body(ConsumeStats, answer.body)

        found = await by_key(sorted(await self.configs(address)), ask, LAGS_AT_ONCE)
        return Rows(
            (group, group_places(stats.offset_table, counts_invisible=bool(stats.pymq_counts_invisible)))
            for group, stats in found.items()
            if stats is not None and stats.offset_table
        )

    async def member_counts_at(self, address: str, *, with_names: bool = False) -> Rows[GroupMembers]:
        """Return how many members of each group are connected to one broker, for groups with any.

        PyMQ's brokers answer in one request, others take one for each group. ``with_names``: also their client ids.
        """
        rows = await self._rows.members(address, with_names=with_names)
        if rows is not None:
            return rows
        found = await by_key(sorted(await self.configs(address)), partial(self.connections, address))
        return Rows((group, group_members(online)) for group, online in found.items() if online is not None)

    async def all_member_counts(self) -> Rows[GroupMembers]:
        """Return how many members of each group are connected, over all masters; a client of two masters counts once.

        The number is None where brokers have too many members to name them.
        """
        masters = await self._cluster.masters()
        has_several = len(masters) > 1
        ask = partial(self.member_counts_at, with_names=has_several)
        return added_up(rows for _, rows in await self._cluster.asking.each(masters, ask))

    async def waiting_since(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Return the store time (Unix ms) of the oldest message that waits for the group, for queues with such."""
        answers = await self._cluster.asking.each(
            await self._cluster.masters(), lambda address: self._waiting_since(address, group, topic)
        )
        return {queue: ms for _, answer in answers for queue, ms in answer.items()}

    async def _waiting_since(self, address: str, group: str, topic: str) -> dict[MessageQueue, int]:
        header = TopicGroupHeader(topic=topic, group=group)
        answer = await self._connection.ask_or_none(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header, _UNKNOWN)
        spans = [] if answer is None else decode_admin_body(ConsumeTimeSpans, answer.body).consume_time_span_set
        now_ms = self._connection.clock.now_ms()
        # RocketMQ computes a delay from -1 where the committed offset is below the first stored one.
        return {
            span.message_queue.to_queue(): max(now_ms - span.delay_time, span.min_time_stamp)
            for span in spans
            if span.delay_time > 0
        }

    async def _oldest(self, group: str, topic: str) -> int:
        return min((await self.waiting_since(group, topic)).values(), default=0)

    async def _stats(self, header: ConsumeStatsHeader) -> list[ConsumeStats]:
        """Return the answers of the masters that know the group and topic."""

        async def ask(address: str) -> ConsumeStats | None:
            answer = await self._connection.ask_or_none(address, RequestCode.GET_CONSUME_STATS, header, _UNKNOWN)
            return None if answer is None else decode_admin_body(ConsumeStats, answer.body)

        answers = await self._cluster.asking.each(await self._cluster.masters(), ask)
        return [stats for _, stats in answers if stats is not None]

    async def subscription(self, address: str, group: str, topic: str) -> SubscriptionData | None:
        """Return the group's subscription to the topic, None when the group is not online."""
        header = TopicGroupHeader(topic=topic, group=group)
        code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
        answer = await self._connection.ask_broker(address, code, header)
        return decode_admin_body(SubscriptionAnswer, answer.body).subscription_data

    async def time_spans(self, address: str, group: str, topic: str) -> list[QueueTimeSpan]:
        """Return the store times of each queue's first, last and last consumed message."""
        header = TopicGroupHeader(topic=topic, group=group)
        answer = await self._connection.ask_broker(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
        return decode_admin_body(ConsumeTimeSpans, answer.body).consume_time_span_set

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        targets: Sequence[BrokerTarget],
        *,
        timestamp_ms: int,
        queue_id: int = ALL_QUEUES,
        offset: int = NO_OFFSET,
        force: bool = True,
    ) -> dict[MessageQueue, int]:
        """Move the group to a time (-1: the end), or one queue to an offset, and return the new offsets.

        ``force`` also moves back offsets that are ahead of the time. Raises NotFoundError for a group or topic that
        no broker knows.
        """
        header = ResetOffsetHeader(
            topic=topic, group=group, timestamp=timestamp_ms, is_force=force, queue_id=queue_id, offset=offset
        )
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        found: dict[MessageQueue, int] = {}
        known = False
        for target in targets:
            answer = await self._connection.ask_or_none(target.address, code, header, _UNKNOWN)
            if answer is not None:
                known = True
                found |= decode_admin_body(QueueOffsets, answer.body).offset_table if answer.body else {}
        if not known:
            raise NotFoundError(f"no broker knows both group {group!r} and topic {topic!r}")
        return dict(sorted(found.items()))

    async def status(
        self, address: str, group: str, topic: str, client: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """Return client id -> queue -> offset as the group's clients report them."""
        header = ConsumerStatusHeader(topic=topic, group=group, client_addr=client)
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        answer = await self._connection.ask_broker(address, code, header)
        return decode_admin_body(ConsumerStatus, answer.body).consumer_table

    async def clone_offsets(self, address: str, source: str, destination: str, topic: str | None = None) -> None:
        """Copy the committed offsets of one group to another."""
        header = CloneGroupOffsetHeader(src_group=source, dest_group=destination, topic=topic)
        await self._connection.ask_broker(address, RequestCode.CLONE_GROUP_OFFSET, header)

    async def correction_offsets(self, address: str, topic: str, group: str, others: Sequence[str]) -> dict[int, int]:
        """Return queue id -> lowest offset that other groups have reached."""
        header = CorrectionOffsetHeader(topic=topic, compare_group=group, filter_groups=",".join(others) or None)
        answer = await self._connection.ask_broker(address, RequestCode.QUERY_CORRECTION_OFFSET, header)
        return decode_admin_body(CorrectionOffsets, answer.body).correction_offsets

    async def running_info(
        self, address: str, group: str, client_id: str, *, with_stacks: bool = False
    ) -> ConsumerRunningInfo:
        """Return a member's own report: settings, queues, rates. Raises RefusedError when it is not online."""
        header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
        answer = await self._connection.ask_broker(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        return decode_admin_body(ConsumerRunningInfo, answer.body)

    async def consume_directly(
        self, address: str, group: str, client_id: str, topic: str, offset_message_id: str
    ) -> ConsumeDirectlyResult:
        """Make one member handle one stored message now and return the result."""
        header = ConsumeDirectlyHeader(consumer_group=group, client_id=client_id, msg_id=offset_message_id, topic=topic)
        answer = await self._connection.ask_broker(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        return decode_admin_body(ConsumeDirectlyResult, answer.body)


def _topic_lags(stats: ConsumeStats) -> dict[str, TopicLag]:
    """Return the sums that PyMQ's brokers send, or make them of other brokers' queues."""
    return stats.pymq_topics if stats.pymq_topics is not None else _sums(stats.offset_table)


def _sums(table: Mapping[MessageQueue, ConsumeOffset]) -> dict[str, TopicLag]:
    """Return the sums by topic of a table of queues."""
    found: dict[str, TopicLag] = {}
    for queue, at in table.items():
        is_unknown = bool(at.pymq_uncommitted)
        one = TopicLag(
            queues=1,
            lag=0 if is_unknown else at.lag,
            committed=0 if is_unknown else at.consumer_offset,
            # RocketMQ before 5 doesn't report the pulled offset.
            pulled=0 if is_unknown else max(at.pull_offset, at.consumer_offset),
            invisible=at.pymq_invisible,
            unknown_queues=int(is_unknown and at.broker_offset > 0),
            consumed_ms=max(0, at.last_timestamp) if at.lag > 0 and not is_unknown else 0,
        )
        add_lag(found, queue.topic, one)
    return found
