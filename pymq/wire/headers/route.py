"""Headers of the name server's codes: registration (103, 104, 322, 901, 904), look-ups, permissions, shared values."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64


class RegisterBrokerHeader(Header, kw_only=True, frozen=True):
    """REGISTER_BROKER (103). ``body_crc32`` covers the body as sent, 0 for none. Older brokers leave flags out.

    ``master_epoch`` is a PyMQ broker's newest epoch, ``slave_addresses`` the addresses of a PyMQ master's slaves,
    separated by ``;``. RocketMQ's name servers read neither.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64
    ha_server_addr: str = ""
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    master_epoch: Int64 | None = None
    slave_addresses: str | None = None


class RegisterBrokerAnswer(Header, kw_only=True, frozen=True):
    """The answer to 103: where a slave finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerIdentityHeader(Header, kw_only=True, frozen=True):
    """UNREGISTER_BROKER (104) and QUERY_DATA_VERSION (322)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class DataVersionAnswer(Header, kw_only=True, frozen=True):
    """The answer to 322: whether the broker must send its whole table."""

    changed: bool


class BrokerHeartbeatHeader(Header, kw_only=True, frozen=True):
    """BROKER_HEARTBEAT (904): reports only that the sender is alive."""

    cluster_name: str
    broker_addr: str
    broker_name: str


class BrokerMemberGroupHeader(Header, kw_only=True, frozen=True):
    """GET_BROKER_MEMBER_GROUP (901)."""

    cluster_name: str
    broker_name: str


class RouteHeader(Header, kw_only=True, frozen=True):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: str
    accept_standard_json_only: bool | None = None


class ClusterHeader(Header, kw_only=True, frozen=True):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str


class BrokerNameHeader(Header, kw_only=True, frozen=True):
    """WIPE_WRITE_PERM_OF_BROKER (205) and ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: str


class WipeWritePermAnswer(Header, kw_only=True, frozen=True):
    """The answer to 205."""

    wipe_topic_count: Int32


class AddWritePermAnswer(Header, kw_only=True, frozen=True):
    """The answer to 327."""

    add_topic_count: Int32


class DeleteTopicInNamesrvHeader(Header, kw_only=True, frozen=True):
    """DELETE_TOPIC_IN_NAMESRV (216); without a cluster it applies to all of them."""

    topic: str
    cluster_name: str | None = None


class RegisterTopicHeader(Header, kw_only=True, frozen=True):
    """REGISTER_TOPIC_IN_NAMESRV (217); its body is a route."""

    topic: str


class PutKvHeader(Header, kw_only=True, frozen=True):
    """PUT_KV_CONFIG (100)."""

    namespace: str
    key: str
    value: str


class KvKeyHeader(Header, kw_only=True, frozen=True):
    """GET_KV_CONFIG (101) and DELETE_KV_CONFIG (102)."""

    namespace: str
    key: str


class KvValueAnswer(Header, kw_only=True, frozen=True):
    """The answer to 101."""

    value: str


class KvNamespaceHeader(Header, kw_only=True, frozen=True):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str
