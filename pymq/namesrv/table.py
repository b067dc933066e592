"""RouteTable: everything a name server knows of brokers and topics, as a state machine without I/O.

Its inputs are registrations, heartbeats, closed connections and the passing of time; it answers look-ups. The rules are
those of Java's RouteInfoManager, with two exceptions.

A first registration with a single topic is accepted (Java answers ``register broker failed``). Java refuses it because
a broker that announces one new topic while the name server restarts would hide its other topics until its next full
report. Here that topic is known earlier, and the full report adds the others, because a topic that is missing in the
table is always added.

A broker keeps its id and its address while it reports. In Java they go to the broker that reports last, so that two
masters of one name alternate. A newer master takes the id over: by its ``epoch`` (PyMQ) or the state version of its
topics (RocketMQ under a controller). :mod:`.claims` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pymq.clock import Clock
from pymq.config import NamesrvConfig
from pymq.model.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from pymq.model.tables import PERM_WRITE, DataVersion, TopicConfig
from pymq.namesrv import claims
from pymq.namesrv.brokers import (
    HEARTBEAT_TIMEOUT_MAX_MS,
    HEARTBEAT_TIMEOUT_MIN_MS,
    HEARTBEAT_TIMEOUT_MS,
    BrokerManager,
)
from pymq.namesrv.registration import BrokerIdentity, LiveBroker, Registration, Standby
from pymq.namesrv.topics import TopicManager
from pymq.net.memory_budget import REGISTRATIONS, MemoryBudget


@dataclass(slots=True, frozen=True)
class MasterInfo:
    """The answer to a registering slave: its master's addresses. Empty for a master, or when there is no master."""

    address: str = ""
    ha_address: str = ""


class RouteTable:
    """Registrations go in, routes come out."""

    def __init__(self, clock: Clock, config: NamesrvConfig | None = None, budget: MemoryBudget | None = None) -> None:
        self._clock = clock
        self._budget = budget or MemoryBudget()
        self.topics = TopicManager(self._hold)
        config = config or NamesrvConfig()
        self.brokers = BrokerManager(clock, lambda: config.broker_id_kept_ms, self._hold)
        # Counted since the start, for metrics: accepted reports, and removed brokers by cause.
        self.registration_count = 0
        self.unregistration_count = 0
        self.expired_count = 0
        self.lost_count = 0

    def check_memory(self, report: Registration) -> None:
        """Raise Refusal(SYSTEM_BUSY) when what a report brings does not fit into the budget of memory."""
        identity = report.identity
        known, name = self.brokers.live(identity.address), identity.broker_name
        growth = report.size_bytes - (known.size_bytes if known is not None else 0)
        growth += sum(self.topics.growth(topic, name) for topic in report.topics)
        self._budget.check_registration(growth)

    def check_topic_memory(self, topic: str, broker_names: Iterable[str]) -> None:
        """Raise as :meth:`check_memory`, for one topic on some broker names."""
        self._budget.check_registration(sum(self.topics.growth(topic, name) for name in broker_names))

    def _hold(self, size_bytes: int) -> None:
        self._budget.hold(REGISTRATIONS, size_bytes)

    def problem(self, report: Registration) -> str:
        """Return why ``report`` must be refused, for the operator; empty when it may be registered."""
        return claims.problem(self.brokers, report)

    def register(self, report: Registration, *, forget_missing_topics: bool = False) -> MasterInfo:
        """Apply a full, incremental or unchanged report that has no :meth:`problem`.

        ``forget_missing_topics`` means that the report lists all topics of the broker. A report that repeats another
        connection's registration changes nothing: it keeps the registration alive when that connection ends.
        """
        self.registration_count += 1
        identity = report.identity
        if claims.is_standby(self.brokers, report):
            self.brokers.add_standby(identity.address, report.connection)
        else:
            self._apply(report, forget_missing_topics=forget_missing_topics)
        master = self.brokers.master_of(identity.broker_name) if not identity.is_master else None
        return MasterInfo(master.identity.address, master.ha_address) if master else MasterInfo()

    def _apply(self, report: Registration, *, forget_missing_topics: bool) -> None:
        identity = report.identity
        known = self.brokers.live(identity.address)
        if known is not None and known.identity.broker_name != identity.broker_name:
            self._remove(known.identity)
            known = None
        changed = known is None or known.data_version != report.data_version
        first = self.brokers.put(self._live_entry(report), report.acting_master)
        self._remember(report)
        if self._speaks_for_topics(report):
            if forget_missing_topics:
                self._forget_others(identity.broker_name, report.topics)
            self._take_topics(report, replace=changed or first)

    def _remember(self, report: Registration) -> None:
        memory = self.brokers.memory(report.identity.broker_name)
        assert memory is not None
        if report.identity.is_master:
            memory.epoch = report.epoch or memory.epoch
            if report.slaves is not None and memory.may_name(report.identity.address, report.host):
                memory.note_slaves([*report.slaves, report.identity.address])

    def heartbeat(self, address: str, connection: object) -> bool:
        """Keep a broker alive without a report. Returns False when it must register over this connection first."""
        return self.brokers.touch(address, connection)

    def unregister(self, identity: BrokerIdentity, connection: object) -> LiveBroker | None:
        """Remove a broker at its own request. Returns None when done, else the living broker of another connection.

        Java removes it at any peer's request.
        """
        live = self.brokers.live(identity.address)
        if live is None or live.identity.broker_name != identity.broker_name:
            return None
        if not live.is_of(connection) and not self.brokers.is_silent(live) and self.brokers.is_listed(live):
            return live
        self.unregistration_count += 1
        if not live.is_of(connection) or self.brokers.leave(live, connection):
            self._remove(live.identity)
        return None

    def connection_closed(self, connection: object) -> list[BrokerIdentity]:
        """Remove the brokers that registered over a connection and over no other one, at once, and return them."""
        brokers = self.brokers
        gone = self._remove_all([live for live in brokers.of_connection(connection) if brokers.leave(live, connection)])
        self.lost_count += len(gone)
        return gone

    def expire(self) -> list[BrokerIdentity]:
        """Remove the brokers that were silent for too long, and return them."""
        gone = self._remove_all(self.brokers.overdue())
        self.expired_count += len(gone)
        return gone

    def data_version(self, address: str) -> DataVersion | None:
        """Return the version of the topic table that a broker last reported."""
        live = self.brokers.live(address)
        return live.data_version if live else None

    def route(self, topic: str, order_conf: str | None = None, *, acting_master: bool = False) -> TopicRoute | None:
        """Return where a topic's queues are; None when no live broker has it.

        With ``acting_master`` the slave with the lowest id appears as id 0 when the master is gone, the broker allows
        an acting master, and the queues are read-only.
        """
        queues = self.topics.queues(topic)
        names = [share.broker_name for share in queues]
        brokers = [data for name in names if (data := self.brokers.get(name))]
        if not brokers:
            return None
        filter_servers: dict[str, list[str]] = {}
        for name in names:
            filter_servers.update(self.brokers.filter_servers(name))
        route = TopicRoute(
            queue_datas=queues,
            broker_datas=[_copy(data) for data in brokers],
            filter_server_table=filter_servers,
            order_topic_conf=order_conf,
        )
        if acting_master:
            _promote_slaves(route)
        return route

    def member_group(self, broker_name: str) -> BrokerData | None:
        """Return all ids and addresses under one broker name."""
        data = self.brokers.get(broker_name)
        return _copy(data) if data else None

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the topics with queues on any broker of a cluster."""
        return self.topics.of_brokers(set(self.brokers.clusters().get(cluster, ())))

    def system_topics(self) -> tuple[list[str], str | None]:
        """Return the topics that carry the names of clusters and brokers, and the address of one broker that knows the
        rest."""
        names: dict[str, None] = {}
        for cluster, broker_names in self.brokers.clusters().items():
            names.update(dict.fromkeys((cluster, *broker_names)))
        for data in self.brokers.all().values():
            return list(names), data.read_address()
        return list(names), None

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic everywhere, or on the brokers of one cluster. A broker that has it reports it again."""
        self.topics.remove(topic, self.brokers.clusters().get(cluster, []) if cluster else None)

    def register_topic(self, topic: str, queues: Sequence[QueueData]) -> None:
        """Enter one topic's queues on registered brokers; skips the others."""
        for share in queues:
            if self.brokers.get(share.broker_name) is not None:
                self.topics.put_queues(topic, share)

    def add_write_permission(self, broker_name: str) -> int:
        """Make every topic on a broker name writable and readable. Returns how many topics it has.

        The broker's next report sets the permissions that it has itself: some topics may be read-only there. In Java
        they stay writable in routes until one of its topics changes.
        """
        master = self.brokers.master_of(broker_name)
        if master is not None:
            self.brokers.forget_version(master)
        return self.topics.add_write(broker_name)

    def _live_entry(self, report: Registration) -> LiveBroker:
        timeout_ms = report.timeout_ms if report.timeout_ms is not None else HEARTBEAT_TIMEOUT_MS
        return LiveBroker(
            identity=report.identity,
            ha_address=report.ha_address,
            data_version=report.data_version,
            connection=report.connection,
            timeout_ms=min(max(timeout_ms, HEARTBEAT_TIMEOUT_MIN_MS), HEARTBEAT_TIMEOUT_MAX_MS),
            last_seen_ms=self._clock.monotonic_ms(),
            filter_servers=list(report.filter_servers),
            size_bytes=report.size_bytes,
            epoch=report.epoch,
            host=report.host,
            names_slaves=report.slaves is not None,
            standbys=self._standbys(report),
        )

    def _standbys(self, report: Registration) -> list[Standby]:
        """Return the other connections of a broker that repeats its registration."""
        known = self.brokers.live(report.identity.address)
        if known is None or known.identity != report.identity:
            return []
        return [standby for standby in known.standbys if standby.connection is not report.connection]

    def _speaks_for_topics(self, report: Registration) -> bool:
        """Return whether the table takes topics from this sender: the master, else the 5.x slave with the lowest id."""
        if report.identity.broker_id == MASTER_ID:
            return True
        data = self.brokers.get(report.identity.broker_name)
        assert data is not None
        return report.acting_master is not None and report.identity.broker_id == min(data.broker_addrs)

    def _take_topics(self, report: Registration, *, replace: bool) -> None:
        identity = report.identity
        read_only = bool(report.acting_master) and identity.broker_id != MASTER_ID
        for topic, config in report.topics.items():
            if not replace and self.topics.has(topic, identity.broker_name):
                continue
            if read_only:
                config = msgspec.structs.replace(config, perm=config.perm & ~PERM_WRITE)  # noqa: PLW2901
            self.topics.put(identity.broker_name, config)

    def _forget_others(self, broker_name: str, topics: Mapping[str, TopicConfig]) -> None:
        for topic in self.topics.of_brokers({broker_name}):
            if topic not in topics:
                self.topics.remove(topic, (broker_name,))

    def _remove_all(self, gone: Sequence[LiveBroker]) -> list[BrokerIdentity]:
        for broker in gone:
            self._remove(broker.identity)
        return [broker.identity for broker in gone]

    def _remove(self, identity: BrokerIdentity) -> None:
        if self.brokers.remove(identity):
            self.topics.remove_broker(identity.broker_name)
            return
        data = self.brokers.get(identity.broker_name)
        if data is not None and data.enable_acting_master and data.master_address is None:
            self.topics.wipe_write(identity.broker_name)


def _copy(data: BrokerData) -> BrokerData:
    return msgspec.structs.replace(data, broker_addrs=dict(data.broker_addrs))


def _promote_slaves(route: TopicRoute) -> None:
    read_only = {share.broker_name for share in route.queue_datas if not share.writable}
    for data in route.broker_datas:
        if data.enable_acting_master and data.master_address is None and data.broker_name in read_only:
            data.broker_addrs[MASTER_ID] = data.broker_addrs.pop(min(data.broker_addrs))
