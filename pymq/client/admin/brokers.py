"""Admin calls to one broker: its state, configuration, statistics, clients and clean-ups."""

from __future__ import annotations

from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.settings_text import decode_settings, encode_settings
from pymq.errors import RefusedError
from pymq.wire.bodies_admin import (
    AllProducers,
    BrokerConsumeStats,
    Connection,
    ConsumeQueueAnswer,
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
)

# Java answers SYSTEM_ERROR for "no such statistics" and for "no producer of this group".
_NOTHING_THERE = frozenset({ResponseCode.SYSTEM_ERROR})


class BrokerAdmin:
    """Calls to the broker at an address "host:port"."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    async def runtime_info(self, address: str) -> dict[str, str]:
        """RocketMQ's runtime table: rates, totals of today and yesterday, disk use, version."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return decode_admin_body(KvTable, answer.body).table

    async def config(self, address: str) -> dict[str, str]:
        """All settings by RocketMQ's names."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_CONFIG)
        return decode_settings(answer.body)

    async def update_config(self, address: str, changes: dict[str, str]) -> None:
        """Changes settings while the broker runs. Raises RefusedError for those that may not be."""
        await self._connection.ask_broker(address, RequestCode.UPDATE_BROKER_CONFIG, None, encode_settings(changes))

    async def ha_status(self, address: str) -> HaStatus:
        """Replication as the broker sees it."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_HA_STATUS)
        return decode_admin_body(HaStatus, answer.body)

    async def stats(self, address: str, name: str, key: str) -> StatsData | None:
        """One statistic (``TOPIC_PUT_NUMS`` of a topic, ...) over minute, hour, day; None when nothing was counted."""
        header = StatsDataHeader(stats_name=name, stats_key=key)
        code = RequestCode.VIEW_BROKER_STATS_DATA
        answer = await self._connection.ask_or_none(address, code, header, _NOTHING_THERE)
        return None if answer is None else decode_admin_body(StatsData, answer.body)

    async def consume_stats(self, address: str, *, ordered: bool = False) -> BrokerConsumeStats:
        """Lag of all groups on the broker."""
        header = BrokerConsumeStatsHeader(is_order=ordered)
        answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_CONSUME_STATS, header)
        return decode_admin_body(BrokerConsumeStats, answer.body)

    async def producers(self, address: str) -> dict[str, list[ProducerInfo]]:
        """Producer group -> its clients."""
        try:
            answer = await self._connection.ask_broker(address, RequestCode.GET_ALL_PRODUCER_INFO)
        except RefusedError as error:
            if error.code in _NOTHING_THERE:
                return {}
            raise
        return decode_admin_body(AllProducers, answer.body).data

    async def producer_connections(self, address: str, group: str) -> list[Connection]:
        """The clients of one producer group; empty when it is not online."""
        header = ProducerConnectionsHeader(producer_group=group)
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        answer = await self._connection.ask_or_none(address, code, header, _NOTHING_THERE)
        return [] if answer is None else decode_admin_body(ProducerConnections, answer.body).connection_set

    async def consume_queue(
        self, address: str, topic: str, queue_id: int, index: int, count: int, group: str | None = None
    ) -> ConsumeQueueAnswer:
        """``count`` entries of a ConsumeQueue from ``index``; with a group also whether its filter passes them."""
        header = QueryConsumeQueueHeader(topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group)
        answer = await self._connection.ask_broker(address, RequestCode.QUERY_CONSUME_QUEUE, header)
        return decode_admin_body(ConsumeQueueAnswer, answer.body)

    async def system_topics(self, address: str) -> list[str]:
        """Topics the broker keeps for itself."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return sorted(decode_admin_body(TopicList, answer.body).topic_list)

    async def clean_expired_consume_queues(self, address: str) -> None:
        """Drops ConsumeQueue files whose messages are gone from the log."""
        await self._connection.ask_broker(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def clean_unused_topics(self, address: str) -> None:
        """Drops the queues of topics that no longer exist."""
        await self._connection.ask_broker(address, RequestCode.CLEAN_UNUSED_TOPIC)

    async def delete_expired_commit_log(self, address: str) -> None:
        """Deletes log segments past their time now instead of at the hour set."""
        await self._connection.ask_broker(address, RequestCode.DELETE_EXPIRED_COMMITLOG)
