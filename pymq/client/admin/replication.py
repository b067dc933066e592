"""Admin calls about replication: a broker's status (also of RocketMQ brokers), its tables and its log."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, TypeVar

import msgspec

from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.connection import AdminConnection
from pymq.config.values import ASYNC_MASTER, SLAVE, SYNC_MASTER
from pymq.errors import RefusedError
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.model.tables import DataVersion, SubscriptionGroupConfig, TopicConfig
from pymq.wire.bodies_admin import GroupConfigTable, HaStatus, TopicConfigTable, decode_admin_body
from pymq.wire.bodies_raft import RaftGroupState, RaftRequest
from pymq.wire.bodies_replication import (
    CONNECTED,
    WAITING,
    HaClientState,
    LogDigests,
    LogDigestsRequest,
    ReadLogRequest,
    ReplicationStatus,
    RoleAnswer,
    RoleRequest,
    SlaveState,
)
from pymq.wire.codes import RequestCode, ResponseCode

ROCKETMQ_PROTOCOL_VERSION = 0  # marks a status that was built from a RocketMQ broker's answers
TABLE_FILES: Final = {
    RequestCode.GET_ALL_TOPIC_CONFIG: "topics.json",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroup.json",
    RequestCode.GET_ALL_CONSUMER_OFFSET: "consumerOffset.json",
    RequestCode.GET_ALL_DELAY_OFFSET: "delayOffset.json",
}

BodyT = TypeVar("BodyT")


class TableEntries(NamedTuple):
    """A table's version and its entries by name. A RocketMQ slave has its own version numbers."""

    version: DataVersion
    entries: dict[str, TopicConfig | SubscriptionGroupConfig]


class ReplicationAdmin:
    """Calls to the broker at an address "host:port"."""

    def __init__(self, connection: AdminConnection, brokers: BrokerAdmin) -> None:
        self._connection = connection
        self._brokers = brokers

    async def status(self, address: str) -> ReplicationStatus:
        """Return role, log, slaves or link. Of a RocketMQ broker ``protocol_version`` is 0, unknown counts are -1."""
        try:
            answer = await self._connection.ask_broker(address, RequestCode.PYMQ_GET_REPLICATION_STATUS)
        except RefusedError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return await self._rocketmq_status(address)
        return _decoded(answer.body, ReplicationStatus, address)

    async def _rocketmq_status(self, address: str) -> ReplicationStatus:
        config, runtime, ha = await asyncio.gather(
            self._brokers.config(address), self._brokers.runtime_info(address), self._ha_status(address)
        )
        try:
            return rocketmq_status(address, config, runtime, ha)
        except ValueError as error:
            raise JsonError(f"the status of {address} (log, role) can't be read: {error}") from error

    async def _ha_status(self, address: str) -> HaStatus | None:
        """Return what the broker knows about its copies, None for RocketMQ 4, which does not say it."""
        try:
            return await self._brokers.ha_status(address)
        except RefusedError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return None

    async def change_role(self, address: str, request: RoleRequest) -> RoleAnswer:
        """Make a PyMQ broker change its role, or prepare for that. Raises RefusedError when it is unsafe."""
        body = msgspec.json.encode(request)
        answer = await self._connection.ask_broker(address, RequestCode.PYMQ_CHANGE_ROLE, None, body)
        return _decoded(answer.body, RoleAnswer, address)

    async def change_raft_group(self, address: str, request: RaftRequest) -> RaftGroupState:
        """Have a Raft group's leader hand over, add or remove a node. Raises RefusedError; then nothing changed."""
        body = msgspec.json.encode(request)
        answer = await self._connection.ask_broker(address, RequestCode.PYMQ_CHANGE_RAFT_GROUP, None, body)
        return _decoded(answer.body, RaftGroupState, address)

    async def replicated_tables(self, address: str) -> dict[str, TableEntries]:
        """Return the tables of topics and groups, which slaves copy."""
        topics, groups = await asyncio.gather(
            self._connection.ask_broker(address, RequestCode.GET_ALL_TOPIC_CONFIG),
            self._connection.ask_broker(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        )
        topic_table = decode_admin_body(TopicConfigTable, topics.body)
        group_table = decode_admin_body(GroupConfigTable, groups.body)
        return {
            "topics": TableEntries(topic_table.data_version, dict(topic_table.topic_config_table)),
            "groups": TableEntries(group_table.data_version, dict(group_table.subscription_group_table)),
        }

    async def tables(self, address: str) -> dict[str, bytes]:
        """Return the files of ``config`` with topics, groups, consumer and delay offsets: name -> content."""
        bodies = [await self._connection.ask_broker(address, code) for code in TABLE_FILES]
        return {name: bytes(answer.body) for name, answer in zip(TABLE_FILES.values(), bodies, strict=True)}

    async def deleted_topics(self, address: str) -> dict[str, int]:
        """Return topic -> log offset below which its records count as deleted. Works with PyMQ brokers only."""
        status = await self.status(address)
        request = LogDigestsRequest(start=status.log_end, with_deletions=True)
        return (await self.digests(address, request)).deleted_topics

    async def digests(self, address: str, request: LogDigestsRequest) -> LogDigests:
        """Return digests of a part of the log, as many as fit in one answer. Raises RefusedError outside the log."""
        body = msgspec.json.encode(request)
        answer = await self._connection.ask_broker(address, RequestCode.PYMQ_LIST_LOG_DIGESTS, None, body)
        return _decoded(answer.body, LogDigests, address)

    async def read_log(self, address: str, start: int, size_bytes: int) -> bytes:
        """Return log bytes from ``start`` on, as many as fit in one answer. Raises RefusedError outside the log."""
        body = msgspec.json.encode(ReadLogRequest(start=start, size_bytes=size_bytes))
        answer = await self._connection.ask_broker(address, RequestCode.PYMQ_READ_LOG, None, body)
        return bytes(answer.body)


def _decoded(body: bytes, kind: type[BodyT], address: str) -> BodyT:
    """Decode an answer. Raises JsonError with the broker's address, to show which of two brokers is not PyMQ."""
    try:
        return decode_json(body, kind)
    except JsonError as error:
        raise JsonError(f"the answer of {address} can't be read, is it a PyMQ broker? {error}") from error


def rocketmq_status(
    address: str, config: dict[str, str], runtime: dict[str, str], known: HaStatus | None
) -> ReplicationStatus:
    """Build a PyMQ status from a RocketMQ broker's answers to codes 26, 28 and 907, the last of RocketMQ 5 alone.

    Raises ValueError.
    """
    ha = known or HaStatus(in_sync_slave_nums=-1)
    role = config.get("brokerRole", SLAVE if not ha.master else ASYNC_MASTER)
    is_slave = role == SLAVE
    host = config.get("brokerIP2") or address.rpartition(":")[0]
    required = int(config.get("inSyncReplicas", "1")) - 1 if role == SYNC_MASTER and known else 0
    return ReplicationStatus(
        protocol_version=ROCKETMQ_PROTOCOL_VERSION,
        cluster=config.get("brokerClusterName", ""),
        broker_name=config.get("brokerName", ""),
        broker_id=int(config.get("brokerId", "0")),
        role=role,
        address=address,
        ha_address=f"{host}:{config.get('haListenPort', '0')}",
        segment_size_bytes=int(config.get("mappedFileSizeCommitLog", "0")),
        log_start=int(runtime.get("commitLogMinOffset", "0")),
        log_end=int(runtime.get("commitLogMaxOffset", "0")),
        message_count=-1,
        required_slaves=required,
        in_sync_slaves=ha.in_sync_slave_nums,
        degraded=known is not None and ha.in_sync_slave_nums < required,
        slaves=[
            SlaveState(
                address=one.addr,
                ack_offset=one.slave_ack_offset,
                sent_offset=one.transfer_from_where,
                lag_bytes=max(0, one.diff),
                lag_ms=-1,
                in_sync=one.in_sync,
                bytes_per_second=one.transferred_byte_in_second,
                state=CONNECTED,
            )
            for one in ha.ha_connection_info
        ],
        ha_client=_rocketmq_link(ha) if is_slave and known else None,
    )


def _rocketmq_link(ha: HaStatus) -> HaClientState:
    info = ha.ha_client_runtime_info
    return HaClientState(
        ha_address=info.master_addr or "",
        state=CONNECTED if info.master_addr and info.last_read_timestamp else WAITING,
        bytes_per_second=info.transferred_byte_in_second,
        last_heard_ms=info.last_read_timestamp or -1,
    )
