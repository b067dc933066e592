"""BrokerPacketHandler: brokers report themselves and their topics, and ask about each other.

Any peer may send such a report, so each part of it is checked and counted before the table takes it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pymq.config import NamesrvConfig
from pymq.errors import Refusal
from pymq.model.hosts import host_of, parse_address
from pymq.model.tables import QUEUE_COUNT_MAX, DataVersion, TopicConfig
from pymq.namesrv.kv import ORDER_TOPIC_NAMESPACE, KvConfig
from pymq.namesrv.registration import BrokerIdentity, Registration
from pymq.namesrv.repeats import RepeatedReports
from pymq.namesrv.table import RouteTable
from pymq.wire.bodies_client import decode_body, encode_body
from pymq.wire.bodies_registration import Registered, body_crc32, decode_registration
from pymq.wire.bodies_route import KvTable, decode_route, encode_member_group
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.route import (
    BrokerHeartbeatHeader,
    BrokerIdentityHeader,
    BrokerMemberGroupHeader,
    DataVersionAnswer,
    RegisterBrokerAnswer,
    RegisterBrokerHeader,
    RegisterTopicHeader,
)
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = 255
# Brokers that one connection registers. A process has one, or a few in a RocketMQ broker container.
BROKERS_PER_CONNECTION_MAX = 64
FILTER_SERVER_COUNT_MAX = 64  # of one broker
SLAVE_COUNT_MAX = 64  # that one master names
_PERM_MAX = 15


class BrokerPacketHandler:
    """Handles registrations, heartbeats and unregistrations."""

    def __init__(self, table: RouteTable, kv: KvConfig, config: NamesrvConfig) -> None:
        self._table = table
        self._kv = kv
        self._config = config
        self._repeats = RepeatedReports(table)

    def register(self, command: Command, header: RegisterBrokerHeader, peer: Peer) -> Reply:
        """REGISTER_BROKER (103): a full or partial report."""
        if header.body_crc32 and header.body_crc32 != body_crc32(command.body):
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"crc32 not match: the header says {header.body_crc32}, the body is another; send it again",
            )
        identity = _identity(header)
        forget_missing = self._config.delete_topic_with_registration
        repeated = None if forget_missing else self._repeats.known(identity, command, compressed=header.compressed)
        body = repeated or self._decoded(command, header)
        report = _report(identity, header, body, peer)
        problem = self._table.problem(report)
        if problem:
            raise Refusal(ResponseCode.NO_PERMISSION, problem)
        self._check_room(report)
        known = self._table.brokers.live(identity.address) is not None
        master = self._table.register(report, forget_missing_topics=forget_missing)
        if repeated is None:
            self._repeats.note(identity, command, body, compressed=header.compressed)
        if not known:
            log.info("broker online: %s with %d topics", identity, len(body.topics))
        answer = RegisterBrokerAnswer(ha_server_addr=master.ha_address or None, master_addr=master.address or None)
        return Reply(ext=answer, body=self._order_body())

    def _decoded(self, command: Command, header: RegisterBrokerHeader) -> Registered:
        body = decode_registration(
            command.body,
            compressed=header.compressed,
            version=command.version,
            inflated_size_max_bytes=self._config.inflated_size_bytes_max,
            topic_count_max=self._config.broker_topic_count_max,
        )
        _check_topics(body.topics)
        return body

    def unregister(self, command: Command, header: BrokerIdentityHeader, peer: Peer) -> Reply:
        """UNREGISTER_BROKER (104), over a connection that the broker has registered over.

        A broker whose connections are all gone has none that could object.
        """
        identity = _identity(header)
        owner = self._table.unregister(identity, peer)
        if owner is not None:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"{identity.address} reports over another connection, from {owner.host}: unregister it there, or end "
                "that connection",
            )
        log.info("broker unregistered: %s", identity)
        return Reply()

    def query_data_version(self, command: Command, header: BrokerIdentityHeader, peer: Peer) -> Reply:
        """QUERY_DATA_VERSION (322): tells a broker whether its topic table is known, and keeps it alive if so."""
        known = self._table.data_version(header.broker_addr)
        asked: DataVersion = decode_body(DataVersion, command.body)
        changed = known != asked or not self._table.heartbeat(header.broker_addr, peer)
        return Reply(ext=DataVersionAnswer(changed=changed), body=encode_body(known) if known else b"")

    def heartbeat(self, command: Command, header: BrokerHeartbeatHeader, peer: Peer) -> Reply:
        """BROKER_HEARTBEAT (904). An unknown broker gets the same answer: its next registration makes it known."""
        self._table.heartbeat(header.broker_addr, peer)
        return Reply()

    def member_group(self, command: Command, header: BrokerMemberGroupHeader, peer: Peer) -> Reply:
        """GET_BROKER_MEMBER_GROUP (901); a group without a registration is empty."""
        data = self._table.member_group(header.broker_name)
        addresses = data.broker_addrs if data else {}
        return Reply(body=encode_member_group(header.cluster_name, header.broker_name, addresses))

    def register_topic(self, command: Command, header: RegisterTopicHeader, peer: Peer) -> Reply:
        """REGISTER_TOPIC_IN_NAMESRV (217): one topic's queues, given as a route."""
        queues = decode_route(command.body).queue_datas
        configs = {
            share.broker_name: TopicConfig(
                topic_name=header.topic,
                read_queue_nums=share.read_queue_nums,
                write_queue_nums=share.write_queue_nums,
                perm=share.perm,
            )
            for share in queues
        }
        brokers = self._table.brokers
        own = {broker.identity.broker_name for broker in brokers.of_connection(peer)}
        for broker_name, config in configs.items():
            if brokers.get(broker_name) is not None and broker_name not in own:
                raise Refusal(
                    ResponseCode.NO_PERMISSION,
                    f"broker {broker_name} has not registered over this connection: register it first",
                )
            problem = _topic_problem(config)
            if problem:
                raise _invalid(f"broker {broker_name[:255]}: {problem}")
        if header.topic not in self._table.topics and len(self._table.topics) >= self._config.topic_count_max:
            raise self._topics_full(1)
        self._check_share_room(sum(not self._table.topics.has(header.topic, name) for name in configs))
        self._table.check_topic_memory(header.topic, configs)
        self._table.register_topic(header.topic, queues)
        return Reply()

    def _check_room(self, report: Registration) -> None:
        table, config, identity = self._table, self._config, report.identity
        if table.brokers.live(identity.address) is None:
            if len(table.brokers) >= config.broker_count_max:
                raise Refusal(
                    ResponseCode.NO_PERMISSION,
                    f"the name server holds {config.broker_count_max} brokers, its limit: raise maxBrokers",
                )
            if len(table.brokers.of_connection(report.connection)) >= BROKERS_PER_CONNECTION_MAX:
                raise Refusal(
                    ResponseCode.NO_PERMISSION,
                    f"this connection has registered {BROKERS_PER_CONNECTION_MAX} brokers, its limit: use one "
                    "connection a broker",
                )
        try:
            new_count = sum(topic not in table.topics for topic in report.topics)
            if new_count and len(table.topics) + new_count > config.topic_count_max:
                raise self._topics_full(new_count)
            self._check_share_room(sum(not table.topics.has(topic, identity.broker_name) for topic in report.topics))
            table.check_memory(report)
        except Refusal:
            table.heartbeat(identity.address, report.connection)  # the broker keeps its current entry
            raise

    def _check_share_room(self, new_count: int) -> None:
        known, count_max = self._table.topics.share_count, self._config.topic_share_count_max
        if new_count and known + new_count > count_max:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"{new_count} new entries of topics beside {known} known ones are more than {count_max}, the limit: "
                "delete topics, or raise maxTopicEntries",
            )

    def _topics_full(self, new_count: int) -> Refusal:
        return Refusal(
            ResponseCode.NO_PERMISSION,
            f"{new_count} new topics beside {len(self._table.topics)} known ones are more than "
            f"{self._config.topic_count_max}, the limit: delete topics, or raise maxTopics",
        )

    def _order_body(self) -> bytes:
        order = self._kv.namespace(ORDER_TOPIC_NAMESPACE) if self._config.return_order_topic_config else None
        return encode_body(KvTable(table=order)) if order is not None else b""


def _invalid(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)


def _identity(header: RegisterBrokerHeader | BrokerIdentityHeader) -> BrokerIdentity:
    """Return the sender's names, checked, because they are shown, logged and given to every client. Raises Refusal."""
    for field, text in (("brokerName", header.broker_name), ("clusterName", header.cluster_name)):
        if not text or len(text) > NAME_LENGTH_MAX or not text.isprintable():
            raise _invalid(f"{field} {text[:60]!r}: give 1 to {NAME_LENGTH_MAX} printable characters")
    if header.broker_id < 0:
        raise _invalid(f"brokerId {header.broker_id}: give 0 for a master, more for a slave")
    address = header.broker_addr
    try:
        parse_address(address)
    except ValueError as error:
        raise _invalid(f"brokerAddr: {error}") from None
    if len(address) > NAME_LENGTH_MAX or not address.isprintable():
        raise _invalid(f"brokerAddr {address[:60]!r}: give host:port, at most {NAME_LENGTH_MAX} characters")
    return BrokerIdentity(header.cluster_name, header.broker_name, header.broker_id, address)


def _report(identity: BrokerIdentity, header: RegisterBrokerHeader, body: Registered, peer: Peer) -> Registration:
    """Return the checked report. Raises Refusal."""
    servers = body.filter_servers
    _check_addresses("filterServerList", servers, FILTER_SERVER_COUNT_MAX)
    slaves = header.slave_addresses
    named = [address for address in slaves.split(";") if address] if slaves is not None else None
    _check_addresses("slaveAddresses", named or [], SLAVE_COUNT_MAX)
    _check_addresses("haServerAddr", [header.ha_server_addr] if header.ha_server_addr else [], 1)
    return Registration(
        identity=identity,
        topics=body.topics,
        data_version=body.data_version,
        ha_address=header.ha_server_addr,
        filter_servers=servers,
        timeout_ms=header.heartbeat_timeout_millis,
        acting_master=header.enable_acting_master,
        connection=peer,
        host=host_of(peer.address),
        epoch=header.master_epoch or 0,
        slaves=named if identity.is_master else None,
    )


def _check_addresses(field: str, addresses: Sequence[str], count_max: int) -> None:
    if len(addresses) > count_max:
        raise _invalid(f"{field} has {len(addresses)} addresses, the limit is {count_max}: send fewer")
    for address in addresses:
        if not address or len(address) > NAME_LENGTH_MAX or not address.isprintable():
            raise _invalid(f"{field} {address[:60]!r}: give host:port, at most {NAME_LENGTH_MAX} characters")


def _check_topics(topics: Mapping[str, TopicConfig]) -> None:
    """Refuse a report with a topic that no client could use: dropped silently, it would be missing without a word."""
    problem = next(filter(None, map(_topic_problem, topics.values())), None)
    if problem:
        raise _invalid(f"{problem}: correct the topic, the broker is not registered with it")


def _topic_problem(config: TopicConfig) -> str | None:
    name = config.topic_name
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        return f"topic {name[:60]!r} needs 1 to {NAME_LENGTH_MAX} printable characters"
    for count in (config.read_queue_nums, config.write_queue_nums):
        if not 0 <= count <= QUEUE_COUNT_MAX:
            return f"topic {name}: {count} queues, allowed are 0 to {QUEUE_COUNT_MAX}"
    return None if 0 <= config.perm <= _PERM_MAX else f"topic {name}: perm {config.perm}, allowed are 0 to {_PERM_MAX}"
