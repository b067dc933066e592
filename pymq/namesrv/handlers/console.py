"""ConsolePacketHandler: the requests of mqadmin, dashboards and ``pymq`` commands to a name server."""

from __future__ import annotations

import logging

from pymq.config import NamesrvConfig
from pymq.config.runtime import RuntimeSettings, StaleError
from pymq.errors import ConfigError, Refusal, StoreError
from pymq.namesrv.kv import KvConfig
from pymq.namesrv.table import RouteTable
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_route import KvTable, TopicList, encode_cluster_info
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import GetConfigHeader, UpdateConfigHeader
from pymq.wire.headers.route import (
    AddWritePermAnswer,
    BrokerNameHeader,
    ClusterHeader,
    DeleteTopicInNamesrvHeader,
    KvKeyHeader,
    KvNamespaceHeader,
    KvValueAnswer,
    PutKvHeader,
    WipeWritePermAnswer,
)
from pymq.wire.reply import Reply
from pymq.wire.settings_reply import settings_reply

log = logging.getLogger(__name__)


class ConsolePacketHandler:
    """Answers requests about topic lists, permissions, shared values and the name server's own settings."""

    def __init__(
        self, table: RouteTable, kv: KvConfig, config: NamesrvConfig, runtime_settings: RuntimeSettings
    ) -> None:
        self._table = table
        self._kv = kv
        self._config = config
        self._runtime_settings = runtime_settings

    def cluster_info(self, command: Command, header: None, peer: Peer) -> Reply:
        """GET_BROKER_CLUSTER_INFO (106)."""
        brokers = self._table.brokers
        return Reply(body=encode_cluster_info(brokers.all(), brokers.clusters()))

    def all_topics(self, command: Command, header: None, peer: Peer) -> Reply:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""
        return _topic_list(self._table.topics.names())

    def topics_of_cluster(self, command: Command, header: ClusterHeader, peer: Peer) -> Reply:
        """GET_TOPICS_BY_CLUSTER (224)."""
        return _topic_list(self._table.topics_of_cluster(header.cluster))

    def system_topics(self, command: Command, header: None, peer: Peer) -> Reply:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS (304)."""
        return _topic_list(*self._table.system_topics())

    def unit_topics(self, command: Command, header: None, peer: Peer) -> Reply:
        """GET_UNIT_TOPIC_LIST (311)."""
        return _topic_list(self._table.topics.unit_topics())

    def unit_subscription_topics(self, command: Command, header: None, peer: Peer) -> Reply:
        """GET_HAS_UNIT_SUB_TOPIC_LIST (312)."""
        return _topic_list(self._table.topics.unit_subscription_topics())

    def unit_subscription_only_topics(self, command: Command, header: None, peer: Peer) -> Reply:
        """GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST (313)."""
        return _topic_list(self._table.topics.unit_subscription_topics(without_unit=True))

    def wipe_write_perm(self, command: Command, header: BrokerNameHeader, peer: Peer) -> Reply:
        """WIPE_WRITE_PERM_OF_BROKER (205): producers leave the broker at their next route look-up."""
        count = self._table.topics.wipe_write(header.broker_name)
        log.info("%s wiped the write permission of %d topics on %r", peer.address, count, header.broker_name[:255])
        return Reply(ext=WipeWritePermAnswer(wipe_topic_count=count))

    def add_write_perm(self, command: Command, header: BrokerNameHeader, peer: Peer) -> Reply:
        """ADD_WRITE_PERM_OF_BROKER (327)."""
        count = self._table.add_write_permission(header.broker_name)
        log.info("%s restored the write permission of %d topics on %r", peer.address, count, header.broker_name[:255])
        return Reply(ext=AddWritePermAnswer(add_topic_count=count))

    def delete_topic(self, command: Command, header: DeleteTopicInNamesrvHeader, peer: Peer) -> Reply:
        """DELETE_TOPIC_IN_NAMESRV (216)."""
        self._table.delete_topic(header.topic, header.cluster_name)
        return Reply()

    def put_value(self, command: Command, header: PutKvHeader, peer: Peer) -> Reply:
        """PUT_KV_CONFIG (100)."""
        self._kv.put(header.namespace, header.key, header.value, count_max=self._config.kv_count_max)
        return Reply()

    def get_value(self, command: Command, header: KvKeyHeader, peer: Peer) -> Reply:
        """GET_KV_CONFIG (101)."""
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            where = f"Namespace: {header.namespace[:255]} Key: {header.key[:255]}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, {where}")
        return Reply(ext=KvValueAnswer(value=value))

    def delete_value(self, command: Command, header: KvKeyHeader, peer: Peer) -> Reply:
        """DELETE_KV_CONFIG (102)."""
        self._kv.delete(header.namespace, header.key)
        return Reply()

    def list_values(self, command: Command, header: KvNamespaceHeader, peer: Peer) -> Reply:
        """GET_KVLIST_BY_NAMESPACE (219)."""
        table = self._kv.namespace(header.namespace)
        if table is None:
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace[:255]}")
        return Reply(body=encode_body(KvTable(table=table)))

    def update_config(self, command: Command, header: UpdateConfigHeader, peer: Peer) -> Reply:
        """UPDATE_NAMESRV_CONFIG (318): keys on the allow-list only, all or none."""
        settings = self._runtime_settings
        try:
            change = settings.plan(
                command.body, forget=header.forget, is_kept=header.persist, version=header.expected_version
            )
        except ConfigError as error:
            log.warning("%s may not change the settings: %s", peer.address, error)
            code = ResponseCode.SYSTEM_ERROR if isinstance(error, StaleError) else ResponseCode.NO_PERMISSION
            raise Refusal(code, str(error)) from None
        if change.kept is not None:
            outcome: list[StoreError | OSError | None] = []
            settings.save(change, outcome.append)  # the name server waits: its keeper has no thread
            if outcome[0] is not None:
                raise Refusal(ResponseCode.SYSTEM_ERROR, str(outcome[0]))
        changed = settings.apply(change)
        if changed:
            log.info("%s changed settings%s: %s", peer.address, " and kept them" * change.is_kept, changed)
        return Reply()

    def get_config(self, command: Command, header: GetConfigHeader, peer: Peer) -> Reply:
        """GET_NAMESRV_CONFIG (319): properties text."""
        return settings_reply(self._runtime_settings, header)


def _topic_list(topics: list[str], broker_addr: str | None = None) -> Reply:
    return Reply(body=encode_body(TopicList(topic_list=topics, broker_addr=broker_addr)))
