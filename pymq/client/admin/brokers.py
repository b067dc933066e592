"""Admin calls to one broker: its state, configuration, statistics, clients and clean-ups."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.client.admin.connection import AdminConnection
from pymq.errors import RefusedError
from pymq.wire.bodies_admin import (
    AllProducers,
    BrokerConsumeStats,
    Connection,
    ConsumeQueueAnswer,
    DeletionPlan,
    HaStatus,
    ProducerConnections,
    ProducerInfo,
    StatsData,
    decode_admin_body,
)
from pymq.wire.bodies_route import KvTable, TopicList
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.admin import (
    BrokerConsumeStatsHeader,
    ProducerConnectionsHeader,
    QueryConsumeQueueHeader,
    StatsDataHeader,
    UpdateConfigHeader,
)
from pymq.wire.settings_text import decode_settings, encode_settings

# Java answers SYSTEM_ERROR for unknown statistics and for a group without producers.
_NOTHING_THERE = frozenset({ResponseCode.SYSTEM_ERROR})
_NO_KEY = "-"  # where the broker shall take all


class BrokerAdmin:
    """Calls to the broker at an address "host:port"."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    async def runtime_info(self, address: str) -> dict[str, str]:
        """Return RocketMQ's runtime table: rates, totals of today and yesterday, disk use, version."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return decode_admin_body(KvTable, answer.body).table

    async def config(self, address: str) -> dict[str, str]:
        """Return all settings by RocketMQ's names."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_CONFIG)
        return decode_settings(answer.body)

    async def update_config(self, address: str, changes: dict[str, str]) -> None:
        """Change settings while the broker runs. Raises RefusedError for settings that can't be changed."""
        await self._connection.ask_broker(address, RequestCode.UPDATE_BROKER_CONFIG, None, encode_settings(changes))

    async def plan_config(
        self, address: str, changes: dict[str, str], forget: Sequence[str] = ()
    ) -> DeletionPlan | None:
        """Return which segments the broker would delete after a change; None when it can't say: no PyMQ broker.

        ``forget``: keys whose changes at run time would be taken back. Raises RefusedError for settings that can't be
        changed.
        """
        body, code = encode_settings(changes), RequestCode.PYMQ_PLAN_BROKER_CONFIG
        header = UpdateConfigHeader(forget=";".join(forget))
        try:
            answer = await self._connection.ask_broker(address, code, header, body)
        except RefusedError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        return decode_admin_body(DeletionPlan, answer.body)

    async def ha_status(self, address: str) -> HaStatus:
        """Return the state of replication as the broker sees it."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_HA_STATUS)
        return decode_admin_body(HaStatus, answer.body)

    async def stats(self, address: str, name: str, key: str) -> StatsData | None:
        """Return one statistic (``TOPIC_PUT_NUMS``, ...) per minute, hour and day, None when nothing was counted."""
        header = StatsDataHeader(stats_name=name, stats_key=key)
        code = RequestCode.VIEW_BROKER_STATS_DATA
        answer = await self._connection.ask_or_none(address, code, header, _NOTHING_THERE)
        return None if answer is None else decode_admin_body(StatsData, answer.body)

    async def all_stats(self, address: str, name: str) -> dict[str, StatsData] | None:
        """Return one statistic for all keys that counted something in the last day; PyMQ's brokers only.

        None when the broker can't: then ask with :meth:`stats` for each key.
        """
        header = StatsDataHeader(stats_name=name, stats_key=_NO_KEY, pymq_all=True)
        code = RequestCode.VIEW_BROKER_STATS_DATA
        answer = await self._connection.ask_or_none(address, code, header, _NOTHING_THERE)
        return None if answer is None else decode_admin_body(StatsData, answer.body).pymq_keys

    async def consume_stats(self, address: str, *, ordered: bool = False) -> BrokerConsumeStats:
        """Return the lag of all groups on the broker."""
        header = BrokerConsumeStatsHeader(is_order=ordered)
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_CONSUME_STATS, header)
        return decode_admin_body(BrokerConsumeStats, answer.body)

    async def producers(self, address: str) -> dict[str, list[ProducerInfo]]:
        """Return the clients of each producer group."""
        try:
            answer = await self._connection.ask_broker(address, RequestCode.GET_ALL_PRODUCER_INFO)
        except RefusedError as error:
            if error.code in _NOTHING_THERE:
                return {}
            raise
        return decode_admin_body(AllProducers, answer.body).data

    async def producer_connections(self, address: str, group: str) -> list[Connection]:
        """Return the clients of one producer group; empty when it is not online."""
        header = ProducerConnectionsHeader(producer_group=group)
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        answer = await self._connection.ask_or_none(address, code, header, _NOTHING_THERE)
        return [] if answer is None else decode_admin_body(ProducerConnections, answer.body).connection_set

    async def consume_queue(
        self, address: str, topic: str, queue_id: int, index: int, count: int, group: str | None = None
    ) -> ConsumeQueueAnswer:
        """Return ``count`` entries of a ConsumeQueue from ``index``; with a group also its filter's results."""
        header = QueryConsumeQueueHeader(topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group)
        answer = await self._connection.ask_broker(address, RequestCode.QUERY_CONSUME_QUEUE, header)
        return decode_admin_body(ConsumeQueueAnswer, answer.body)

    async def system_topics(self, address: str) -> list[str]:
        """Return the broker's system topics."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return sorted(decode_admin_body(TopicList, answer.body).topic_list)

    async def clean_expired_consume_queues(self, address: str) -> None:
        """Delete ConsumeQueue files whose messages are no longer in the log."""
        await self._connection.ask_broker(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def clean_unused_topics(self, address: str) -> None:
        """Delete the queues of topics that no longer exist."""
        await self._connection.ask_broker(address, RequestCode.CLEAN_UNUSED_TOPIC)

    async def delete_expired_commit_log(self, address: str) -> None:
        """Delete expired log segments now instead of at the configured hour."""
        await self._connection.ask_broker(address, RequestCode.DELETE_EXPIRED_COMMITLOG)
