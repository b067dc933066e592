"""A name server's route table: request code -> header, handler and permission."""

from __future__ import annotations

from pymq.config import NamesrvConfig
from pymq.config.runtime import RuntimeSettings
from pymq.namesrv.handlers.broker import BrokerPacketHandler
from pymq.namesrv.handlers.client import ClientPacketHandler
from pymq.namesrv.handlers.console import ConsolePacketHandler
from pymq.namesrv.kv import KvConfig
from pymq.namesrv.table import RouteTable
from pymq.wire.codes import RequestCode as Code
from pymq.wire.dispatch import Permission, Route
from pymq.wire.headers import route as headers
from pymq.wire.headers.admin import GetConfigHeader, UpdateConfigHeader

OPEN, ADMIN, INNER = Permission.OPEN, Permission.ADMIN, Permission.INNER


def namesrv_routes(
    table: RouteTable, kv: KvConfig, config: NamesrvConfig, runtime_settings: RuntimeSettings
) -> list[Route]:
    """Return a route for every request code that a name server serves."""
    client = ClientPacketHandler(table, kv, config)
    broker = BrokerPacketHandler(table, kv, config)
    console = ConsolePacketHandler(table, kv, config, runtime_settings)
    # fmt: off
    return [
        Route(Code.GET_ROUTEINFO_BY_TOPIC, headers.RouteHeader, client.route, OPEN),

        Route(Code.REGISTER_BROKER, headers.RegisterBrokerHeader, broker.register, INNER),
        Route(Code.UNREGISTER_BROKER, headers.BrokerIdentityHeader, broker.unregister, INNER),
        Route(Code.QUERY_DATA_VERSION, headers.BrokerIdentityHeader, broker.query_data_version, INNER),
        Route(Code.BROKER_HEARTBEAT, headers.BrokerHeartbeatHeader, broker.heartbeat, INNER),
        Route(Code.REGISTER_TOPIC_IN_NAMESRV, headers.RegisterTopicHeader, broker.register_topic, INNER),
        Route(Code.GET_BROKER_MEMBER_GROUP, headers.BrokerMemberGroupHeader, broker.member_group, OPEN),

        Route(Code.GET_BROKER_CLUSTER_INFO, None, console.cluster_info, OPEN),
        Route(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, console.all_topics, ADMIN),
        Route(Code.GET_TOPICS_BY_CLUSTER, headers.ClusterHeader, console.topics_of_cluster, ADMIN),
        Route(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, console.system_topics, ADMIN),
        Route(Code.GET_UNIT_TOPIC_LIST, None, console.unit_topics, ADMIN),
        Route(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, None, console.unit_subscription_topics, ADMIN),
        Route(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, console.unit_subscription_only_topics, ADMIN),
        Route(Code.WIPE_WRITE_PERM_OF_BROKER, headers.BrokerNameHeader, console.wipe_write_perm, ADMIN),
        Route(Code.ADD_WRITE_PERM_OF_BROKER, headers.BrokerNameHeader, console.add_write_perm, ADMIN),
        Route(Code.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopicInNamesrvHeader, console.delete_topic, ADMIN),
        Route(Code.PUT_KV_CONFIG, headers.PutKvHeader, console.put_value, ADMIN),
        Route(Code.GET_KV_CONFIG, headers.KvKeyHeader, console.get_value, ADMIN),
        Route(Code.DELETE_KV_CONFIG, headers.KvKeyHeader, console.delete_value, ADMIN),
        Route(Code.GET_KVLIST_BY_NAMESPACE, headers.KvNamespaceHeader, console.list_values, ADMIN),
        Route(Code.UPDATE_NAMESRV_CONFIG, UpdateConfigHeader, console.update_config, ADMIN),
        Route(Code.GET_NAMESRV_CONFIG, GetConfigHeader, console.get_config, ADMIN),
    ]
    # fmt: on
