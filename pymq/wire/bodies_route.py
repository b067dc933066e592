"""JSON bodies of the name server's codes: routes, clusters, topic and value lists.

Java writes the broker ids of ``brokerAddrs`` as bare numbers, which strict JSON does not allow. A route has quoted ids
when the peer asks for them or is new enough (Java: ClientRequestProcessor).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pymq.model.route import BrokerData, TopicRoute
from pymq.wire.bodies_client import decode_body, encode_body
from pymq.wire.codes import VERSION_4_9_4


class ClusterInfo(msgspec.Struct, rename="camel", kw_only=True):
    """The answer to GET_BROKER_CLUSTER_INFO (106): broker name -> addresses, cluster -> broker names."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The answer to the topic list codes. ``broker_addr`` is one broker that knows the system topics."""

    topic_list: list[str]
    broker_addr: str | None = None


class KvTable(msgspec.Struct, kw_only=True):
    """The answer to GET_KVLIST_BY_NAMESPACE (219), and to REGISTER_BROKER (103) with the ordered topics."""

    table: dict[str, str]


def wants_quoted_keys(version: int, accept_standard_json_only: bool | None) -> bool:
    """Return whether a route's reader needs strict JSON; older readers get Java's form."""
    return version >= VERSION_4_9_4 or bool(accept_standard_json_only)


def encode_route(route: TopicRoute, *, quoted: bool = True) -> bytes:
    """Encode a route in Java's member order. ``filterServerTable`` is always present: 4.x clients need it."""
    fields: dict[str, Any] = {
        "brokerDatas": [_broker_data(data, quoted=quoted) for data in route.broker_datas],
        "filterServerTable": route.filter_server_table,
    }
    if route.order_topic_conf is not None:
        fields["orderTopicConf"] = route.order_topic_conf
    fields["queueDatas"] = route.queue_datas
    return encode_body(fields)


def decode_route(body: bytes) -> TopicRoute:
    """Decode a route with quoted or bare broker ids. Raises Refusal naming the wrong member."""
    route: TopicRoute = decode_body(TopicRoute, body)
    return route


def encode_cluster_info(brokers: Mapping[str, BrokerData], clusters: Mapping[str, list[str]]) -> bytes:
    """Encode the answer to 106. Broker ids are bare numbers, as every Java version writes them there."""
    table = {name: _broker_data(data, quoted=False) for name, data in brokers.items()}
    return encode_body({"brokerAddrTable": table, "clusterAddrTable": clusters})


def decode_cluster_info(body: bytes) -> ClusterInfo:
    """The inverse of :func:`encode_cluster_info`; also accepts quoted ids."""
    info: ClusterInfo = decode_body(ClusterInfo, body)
    return info


def encode_member_group(cluster: str, broker_name: str, addresses: Mapping[int, str]) -> bytes:
    """Encode the answer to GET_BROKER_MEMBER_GROUP (901)."""
    group = {"brokerAddrs": _addresses(addresses, quoted=False), "brokerName": broker_name, "cluster": cluster}
    return encode_body({"brokerMemberGroup": group})


def _broker_data(data: BrokerData, *, quoted: bool) -> dict[str, Any]:
    return {
        "brokerAddrs": _addresses(data.broker_addrs, quoted=quoted),
        "brokerName": data.broker_name,
        "cluster": data.cluster,
        "enableActingMaster": data.enable_acting_master,
    }


def _addresses(addresses: Mapping[int, str], *, quoted: bool) -> Mapping[int, str] | msgspec.Raw:
    if quoted:
        return addresses
    entries = (b"%d:%s" % (broker_id, encode_body(address)) for broker_id, address in addresses.items())
    return msgspec.Raw(b"{" + b",".join(entries) + b"}")
