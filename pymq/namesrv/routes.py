"""A name server's route table: request code -> header, handler and access."""

from __future__ import annotations

from typing import Any, Final

from pymq.config import NamesrvConfig
from pymq.config.runtime import RuntimeSettings
from pymq.model.access import Action, Need, topic_need
from pymq.model.names import AUTO_CREATE_TOPIC, is_reply_topic
from pymq.namesrv.handlers.broker import BrokerPacketHandler
from pymq.namesrv.handlers.client import ClientPacketHandler
from pymq.namesrv.handlers.console import ConsolePacketHandler
from pymq.namesrv.kv import KvConfig
from pymq.namesrv.table import RouteTable
from pymq.wire.access import Claim, cluster, every_topic, named_cluster, needs, peers_only, topic
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command
from pymq.wire.dispatch import Route
from pymq.wire.headers import route as headers
from pymq.wire.headers.admin import GetConfigHeader, UpdateConfigHeader

PUB, SUB, DELETE, UPDATE, GET, LIST = (
    Action.PUB,
    Action.SUB,
    Action.DELETE,
    Action.UPDATE,
    Action.GET,
    Action.LIST,
)
SEE: Final = needs(cluster(GET))
CHANGE: Final = needs(cluster(UPDATE))
LIST_BROKERS: Final = needs(cluster(GET, LIST))
SEE_CLUSTER: Final = needs(named_cluster(GET, field="cluster_name"))
LIST_CLUSTER: Final = needs(named_cluster(GET, LIST, field="cluster"))
DELETE_TOPIC: Final = needs(topic(DELETE))
LIST_TOPICS: Final = needs(every_topic(LIST))
PEERS: Final = peers_only()


def _routed_topic(request: Command, header: Any, cluster: str) -> tuple[Need, ...]:
    # A producer whose topic does not exist yet asks for the route of the first one, on which a topic can be made. Every
    # user may reply.
    if header.topic == AUTO_CREATE_TOPIC or is_reply_topic(header.topic):
        return ()
    return (topic_need(header.topic, PUB, SUB, GET),)


ROUTE: Final = needs(Claim(("topic",), _routed_topic))


def namesrv_routes(
    table: RouteTable, kv: KvConfig, config: NamesrvConfig, runtime_settings: RuntimeSettings
) -> list[Route]:
    """Return a route for every request code that a name server serves."""
    client = ClientPacketHandler(table, kv, config)
    broker = BrokerPacketHandler(table, kv, config)
    console = ConsolePacketHandler(table, kv, config, runtime_settings)
    # fmt: off
    return [
        Route(Code.GET_ROUTEINFO_BY_TOPIC, headers.RouteHeader, client.route, ROUTE),

        Route(Code.REGISTER_BROKER, headers.RegisterBrokerHeader, broker.register, PEERS, has_large_body=True),
        Route(Code.UNREGISTER_BROKER, headers.BrokerIdentityHeader, broker.unregister, PEERS),
        Route(Code.QUERY_DATA_VERSION, headers.BrokerIdentityHeader, broker.query_data_version, PEERS),
        Route(Code.BROKER_HEARTBEAT, headers.BrokerHeartbeatHeader, broker.heartbeat, PEERS),
        Route(Code.REGISTER_TOPIC_IN_NAMESRV, headers.RegisterTopicHeader, broker.register_topic, PEERS),
        Route(Code.GET_BROKER_MEMBER_GROUP, headers.BrokerMemberGroupHeader, broker.member_group, SEE_CLUSTER),

        Route(Code.GET_BROKER_CLUSTER_INFO, None, console.cluster_info, LIST_BROKERS),
        Route(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, console.all_topics, LIST_TOPICS),
        Route(Code.GET_TOPICS_BY_CLUSTER, headers.ClusterHeader, console.topics_of_cluster, LIST_CLUSTER),
        Route(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, console.system_topics, LIST_TOPICS),
        Route(Code.GET_UNIT_TOPIC_LIST, None, console.unit_topics, LIST_TOPICS),
        Route(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, None, console.unit_subscription_topics, LIST_TOPICS),
        Route(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, console.unit_subscription_only_topics, LIST_TOPICS),
        Route(Code.WIPE_WRITE_PERM_OF_BROKER, headers.BrokerNameHeader, console.wipe_write_perm, CHANGE),
        Route(Code.ADD_WRITE_PERM_OF_BROKER, headers.BrokerNameHeader, console.add_write_perm, CHANGE),
        Route(Code.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopicInNamesrvHeader, console.delete_topic, DELETE_TOPIC),
        Route(Code.PUT_KV_CONFIG, headers.PutKvHeader, console.put_value, CHANGE),
        Route(Code.GET_KV_CONFIG, headers.KvKeyHeader, console.get_value, SEE),
        Route(Code.DELETE_KV_CONFIG, headers.KvKeyHeader, console.delete_value, CHANGE),
        Route(Code.GET_KVLIST_BY_NAMESPACE, headers.KvNamespaceHeader, console.list_values, SEE),
        Route(Code.UPDATE_NAMESRV_CONFIG, UpdateConfigHeader, console.update_config, CHANGE),
        Route(Code.GET_NAMESRV_CONFIG, GetConfigHeader, console.get_config, SEE),
    ]
    # fmt: on
