"""JSON bodies of the name server's codes: routes, clusters, topic and value lists, and the broker's registration.

Java writes the broker ids of ``brokerAddrs`` as bare numbers, which strict JSON does not allow. A route has quoted ids
when the peer asks for them or is new enough (Java: ClientRequestProcessor).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from pymq.errors import Refusal
from pymq.model import sysflag
from pymq.model.compression import INFLATED_SIZE_MAX_BYTES, InflateError, decompress_body
from pymq.model.route import BrokerData, TopicRoute
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_client import decode_body, encode_body
from pymq.wire.codes import VERSION_4_9_4, ResponseCode

_I32 = struct.Struct(">i")
_VERSION_FULL_BODY = 37  # 3.0.11: before it the body was the topic table alone
_COMPRESSION_LEVEL = 9


class TopicTable(msgspec.Struct, rename="camel", kw_only=True):
    """Topic configurations with their version (Java: TopicConfigSerializeWrapper)."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()


class RegisterBody(msgspec.Struct, rename="camel", kw_only=True):
    """The body of REGISTER_BROKER (103), plain form."""

    filter_server_list: list[str] | None = []
    topic_config_serialize_wrapper: TopicTable = msgspec.field(default_factory=TopicTable)


class Registered(NamedTuple):
    """The content of a registration's body, the same for every form of it."""

    topics: dict[str, TopicConfig]
    data_version: DataVersion
    filter_servers: list[str]


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


def body_crc32(body: bytes) -> int:
    """Return the checksum of a registration's body as sent, which the request's header carries."""
    return zlib.crc32(body) & 0x7FFFFFFF


def encode_registration(
    topics: Iterable[TopicConfig],
    data_version: DataVersion,
    filter_servers: Iterable[str] = (),
    *,
    compressed: bool = False,
) -> bytes:
    """Encode the body of a registration. The compressed form loses ``order`` and ``topic_sys_flag``, as in Java."""
    if compressed:
        return zlib.compress(_encode_compact(topics, data_version, filter_servers), _COMPRESSION_LEVEL)
    table = TopicTable(topic_config_table={config.topic_name: config for config in topics}, data_version=data_version)
    return encode_body(RegisterBody(filter_server_list=list(filter_servers), topic_config_serialize_wrapper=table))


def decode_registration(
    body: bytes, *, compressed: bool, version: int, inflated_size_max_bytes: int = INFLATED_SIZE_MAX_BYTES
) -> Registered:
    """Decode the body of a registration by a broker of ``version``. Raises Refusal(SYSTEM_ERROR) saying what is wrong.

    An empty body reports no topics. The compressed form is inflated under the ratio cap that messages have.
    """
    if not body:
        return Registered({}, DataVersion(), [])
    if version < _VERSION_FULL_BODY:
        table: TopicTable = decode_body(TopicTable, body)
        return Registered(table.topic_config_table, table.data_version, [])
    if not compressed:
        plain: RegisterBody = decode_body(RegisterBody, body)
        table = plain.topic_config_serialize_wrapper
        return Registered(table.topic_config_table, table.data_version, plain.filter_server_list or [])
    try:
        inflated = decompress_body(body, sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB, inflated_size_max_bytes)
        return _decode_compact(inflated)
    except (InflateError, ValueError, struct.error) as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the compressed registration can't be read: {error}") from error


def _encode_compact(topics: Iterable[TopicConfig], data_version: DataVersion, filter_servers: Iterable[str]) -> bytes:
    lines = [_topic_line(config).encode() for config in topics]
    parts = [_sized(encode_body(data_version)), _I32.pack(len(lines)), *map(_sized, lines)]
    # The closing zero is the count of static topic mappings; 5.x name servers read it, older ones stop before it.
    parts += [_sized(encode_body(list(filter_servers))), _I32.pack(0)]
    return b"".join(parts)


def _topic_line(config: TopicConfig) -> str:
    counts = f"{config.read_queue_nums} {config.write_queue_nums} {config.perm}"
    return f"{config.topic_name} {counts} {config.topic_filter_type} {encode_body(config.attributes).decode()}"


def _decode_compact(raw: bytes) -> Registered:
    version, at = _take(raw, 0)
    (count,) = _I32.unpack_from(raw, at)
    at += 4
    topics: dict[str, TopicConfig] = {}
    for _ in range(count):  # a wrong count fails at the end of the bytes: each round reads some
        line, at = _take(raw, at)
        config = _parse_topic_line(line.decode())
        topics[config.topic_name] = config
    servers, _ = _take(raw, at)
    return Registered(topics, decode_body(DataVersion, version), decode_body(list[str], servers))


def _parse_topic_line(line: str) -> TopicConfig:
    words = line.split(" ", 5)
    if len(words) < 5:
        raise ValueError(f"the topic entry {line[:80]!r} has {len(words)} of 5 words")
    attributes: dict[str, str] = decode_body(dict[str, str], words[5].encode()) if len(words) > 5 and words[5] else {}
    return TopicConfig(
        topic_name=words[0],
        read_queue_nums=int(words[1]),
        write_queue_nums=int(words[2]),
        perm=int(words[3]),
        topic_filter_type=words[4],
        attributes=attributes,
    )


def _sized(part: bytes) -> bytes:
    return _I32.pack(len(part)) + part


def _take(raw: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _I32.unpack_from(raw, at)
    start = at + 4
    if size < 0 or start + size > len(raw):
        raise ValueError(f"a part of {size} bytes at {at} in {len(raw)} bytes")
    return raw[start : start + size], start + size


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
