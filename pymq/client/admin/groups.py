"""Admin calls about consumer groups: configuration, members, progress, resets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from pymq.client.admin.cluster import BrokerTarget, ClusterAdmin
from pymq.client.admin.connection import AdminConnection
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
    decode_admin_body,
)
from pymq.wire.bodies_client import SubscriptionData
from pymq.wire.bodies_route import TopicList
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.admin import (
    ALL_QUEUES,
    NO_OFFSET,
    CloneGroupOffsetHeader,
    ConsumeDirectlyHeader,
    ConsumerConnectionsHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ConsumeStatsHeader,
    CorrectionOffsetHeader,
    DeleteGroupHeader,
    GroupHeader,
    ResetOffsetHeader,
    TopicGroupHeader,
)

MEMBERS_ASKED_MAX = 64  # of a group; each answers through its broker
_NOT_ONLINE = frozenset({ResponseCode.CONSUMER_NOT_ONLINE})
_UNKNOWN = frozenset({ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST})


class GroupAdmin:
    """Calls about consumer groups. Those without an address ask every master and merge the answers."""

    def __init__(self, connection: AdminConnection, cluster: ClusterAdmin) -> None:
        self._connection = connection
        self._cluster = cluster

    async def all_configs(self) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """Returns group -> broker name -> configuration, over all masters."""
        found: dict[str, dict[str, SubscriptionGroupConfig]] = {}
        for target in await self._cluster.masters():
            for group, config in (await self.configs(target.address)).items():
                found.setdefault(group, {})[target.name] = config
        return dict(sorted(found.items()))

    async def configs(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Returns the configurations of all groups of one broker."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return decode_admin_body(GroupConfigTable, answer.body).subscription_group_table

    async def config(self, address: str, group: str) -> SubscriptionGroupConfig | None:
        """Returns the configuration of one group on one broker, None when the broker lacks it."""
        return (await self.configs(address)).get(group)

    async def put(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Creates the group on one broker, or replaces its configuration."""
        await self._connection.ask_broker(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, config)

    async def delete(self, address: str, group: str, *, with_offsets: bool = False) -> None:
        """Deletes the group on one broker, with its committed offsets if ``with_offsets``."""
        header = DeleteGroupHeader(group_name=group, clean_offset=with_offsets, remove_offset=with_offsets)
        await self._connection.ask_broker(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def connections(self, address: str, group: str) -> ConsumerConnections | None:
        """Returns members and subscriptions of the group on one broker, None when no member is online."""
        header = ConsumerConnectionsHeader(consumer_group=group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        answer = await self._connection.ask_or_none(address, code, header, _NOT_ONLINE)
        return None if answer is None else decode_admin_body(ConsumerConnections, answer.body)

    async def differing_subscriptions(self, group: str) -> dict[str, dict[str, int]]:
        """Returns, for each topic that online members subscribe to differently, selection -> number of members.

        ``-`` stands for no subscription. PyMQ's brokers know it; on others at most MEMBERS_ASKED_MAX members are asked.
        """
        masters = [target.address for target in await self._cluster.masters()]
        answers = await asyncio.gather(*(self.connections(address, group) for address in masters))
        online = [(address, answer) for address, answer in zip(masters, answers, strict=True) if answer is not None]
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
        """Returns topic -> selection as a member reports them, None when it doesn't answer."""
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
        """Returns the topics that the group has offsets in or subscribes to, over all masters."""
        names: set[str] = set()
        for target in await self._cluster.masters():
            code = RequestCode.QUERY_TOPICS_BY_CONSUMER
            answer = await self._connection.ask_broker(target.address, code, GroupHeader(group=group))
            names |= set(decode_admin_body(TopicList, answer.body).topic_list)
        return sorted(names)

    async def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, ConsumeOffset]:
        """Returns end, committed offset and time of every queue the group has read, sorted; empty when it read none.

        Queues of retry topics are among them, of a pop group also ``%RETRY%group_topic``.
        """
        found: dict[MessageQueue, ConsumeOffset] = {}
        header = ConsumeStatsHeader(consumer_group=group, topic=topic)
        for target in await self._cluster.masters():
            answer = await self._connection.ask_or_none(target.address, RequestCode.GET_CONSUME_STATS, header, _UNKNOWN)
            if answer is not None:
                found |= decode_admin_body(ConsumeStats, answer.body).offset_table
        return dict(sorted(found.items()))

    async def subscription(self, address: str, group: str, topic: str) -> SubscriptionData | None:
        """Returns the group's subscription to the topic, None when the group is not online."""
        header = TopicGroupHeader(topic=topic, group=group)
        code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
        answer = await self._connection.ask_broker(address, code, header)
        return decode_admin_body(SubscriptionAnswer, answer.body).subscription_data

    async def time_spans(self, address: str, group: str, topic: str) -> list[QueueTimeSpan]:
        """Returns the store times of each queue's first, last and last consumed message."""
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
        """Moves the group to a time (-1: the end), or one queue to an offset, and returns the new offsets.

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
        """Returns client id -> queue -> offset as the group's clients report them."""
        header = ConsumerStatusHeader(topic=topic, group=group, client_addr=client)
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        answer = await self._connection.ask_broker(address, code, header)
        return decode_admin_body(ConsumerStatus, answer.body).consumer_table

    async def clone_offsets(self, address: str, source: str, destination: str, topic: str | None = None) -> None:
        """Copies the committed offsets of one group to another."""
        header = CloneGroupOffsetHeader(src_group=source, dest_group=destination, topic=topic)
        await self._connection.ask_broker(address, RequestCode.CLONE_GROUP_OFFSET, header)

    async def correction_offsets(self, address: str, topic: str, group: str, others: Sequence[str]) -> dict[int, int]:
        """Returns queue id -> lowest offset that other groups have reached."""
        header = CorrectionOffsetHeader(topic=topic, compare_group=group, filter_groups=",".join(others) or None)
        answer = await self._connection.ask_broker(address, RequestCode.QUERY_CORRECTION_OFFSET, header)
        return decode_admin_body(CorrectionOffsets, answer.body).correction_offsets

    async def running_info(
        self, address: str, group: str, client_id: str, *, with_stacks: bool = False
    ) -> ConsumerRunningInfo:
        """Returns a member's own report: settings, queues, rates. Raises RefusedError when it is not online."""
        header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
        answer = await self._connection.ask_broker(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        return decode_admin_body(ConsumerRunningInfo, answer.body)

    async def consume_directly(
        self, address: str, group: str, client_id: str, topic: str, offset_message_id: str
    ) -> ConsumeDirectlyResult:
        """Makes one member handle one stored message now and returns the result."""
        header = ConsumeDirectlyHeader(consumer_group=group, client_id=client_id, msg_id=offset_message_id, topic=topic)
        answer = await self._connection.ask_broker(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        return decode_admin_body(ConsumeDirectlyResult, answer.body)
