"""The rules by which a report may change the registration of a living broker.

A name server can't check who a peer is. So what one connection has registered stays with it while the connection is
open and the broker reports over it (:data:`.brokers.HOLDER_SILENCE_MAX_MS`): nothing that another connection says
replaces, moves or removes it. The exception is a fail-over beside a master that still reports. It takes a member of
the group that is plausible as the next master.
"""

from __future__ import annotations

from pymq.model.epochs import EPOCH_JUMP_MAX
from pymq.model.hosts import host_of
from pymq.namesrv.brokers import BrokerManager
from pymq.namesrv.registration import LiveBroker, Registration


def problem(brokers: BrokerManager, report: Registration) -> str:
    """Return why ``report`` must be refused, for the operator; empty when it may be registered."""
    return (
        _address_problem(brokers, report)
        or _cluster_problem(brokers, report)
        or _epoch_problem(brokers, report)
        or _id_problem(brokers, report)
        or _kept_id_problem(brokers, report)
    )


def is_standby(brokers: BrokerManager, report: Registration) -> bool:
    """Return whether another connection owns the registration that ``report`` repeats."""
    return _owner(brokers, report) is not None


def _owner(brokers: BrokerManager, report: Registration) -> LiveBroker | None:
    """Return the registration of the report's address that belongs to another living connection; None without one.

    A registration whose id has gone to another broker protects nothing.
    """
    live = brokers.live(report.identity.address)
    if live is None or live.connection is report.connection or brokers.is_silent(live) or not brokers.is_listed(live):
        return None
    return None if _comes_from_there(report) and live.host != report.host else live


def _comes_from_there(report: Registration) -> bool:
    """Return whether the report comes from the host that it names. That one outweighs a report from elsewhere."""
    return bool(report.host) and report.host == host_of(report.identity.address)


def _address_problem(brokers: BrokerManager, report: Registration) -> str:
    owner = _owner(brokers, report)
    if owner is None:
        return _kept_address_problem(brokers, report)
    if owner.host == report.host and owner.identity == report.identity:
        return ""
    known, reported = owner.identity, report.identity
    return (
        f"{known.address} is {known.role} of broker {known.broker_name} in cluster {known.cluster} and reports from "
        f"{owner.host}; a report from {report.host} calls it {reported.role} of broker {reported.broker_name} in "
        f"cluster {reported.cluster}: give each broker its own address (brokerIP1, listenPort), or send it again when "
        "the first connection has ended"
    )


def _kept_address_problem(brokers: BrokerManager, report: Registration) -> str:
    address = report.identity.address
    host = brokers.kept_for_host(address) if brokers.live(address) is None else None
    if host in (None, report.host) or _comes_from_there(report):
        return ""
    return (
        f"{address} is kept for the broker that reported it from {host} and left less than "
        f"{brokers.id_kept_ms()} ms ago (brokerIdKeptMs); this report comes from {report.host}: send it again later"
    )


def _cluster_problem(brokers: BrokerManager, report: Registration) -> str:
    identity = report.identity
    data = brokers.get(identity.broker_name)
    if data is None or data.cluster == identity.cluster:
        return ""
    others = [address for address in data.broker_addrs.values() if address != identity.address]
    living = next((address for address in others if brokers.is_living(address)), None)
    if living is None:
        return ""
    return (
        f"broker {identity.broker_name} belongs to cluster {data.cluster}, {living} reports there; {identity.address} "
        f"says cluster {identity.cluster}: give it another brokerName, or the group's brokerClusterName"
    )


def _epoch_problem(brokers: BrokerManager, report: Registration) -> str:
    known = brokers.memory(report.identity.broker_name)
    if not report.identity.is_master or known is None or not known.epoch:
        return ""
    if report.epoch <= known.epoch + EPOCH_JUMP_MAX:
        return ""
    return (
        f"{report.identity.address} says epoch {report.epoch}, the newest master of broker "
        f"{report.identity.broker_name} had {known.epoch}; at most {EPOCH_JUMP_MAX} more are plausible: see its "
        "config/epochHistory.json, or stop the group's other brokers if it is right"
    )


def _id_problem(brokers: BrokerManager, report: Registration) -> str:
    holder = brokers.holder(report.identity)
    if holder is None:
        return ""
    identity = report.identity
    taken = (
        f"{holder.identity.address} is {identity.role} of broker {identity.broker_name}, with epoch {holder.epoch}, "
        f"and reported lately; {identity.address} has epoch {report.epoch}"
    )
    if _is_back(brokers, report, holder):
        return ""
    if not _is_newer(report, holder):
        return f"{taken}: stop one of them, or give it another brokerId"
    if not _is_successor(brokers, report, holder):
        return f"{taken}, but is no known slave of that master: stop that one first, or give it another brokerId"
    return ""


def _kept_id_problem(brokers: BrokerManager, report: Registration) -> str:
    identity = report.identity
    memory, live = brokers.memory(identity.broker_name), brokers.live(identity.address)
    if memory is None or (live is not None and live.identity == identity):
        return ""
    owner = memory.kept_for(identity.broker_id, identity.address)
    if not owner:
        return ""
    return (
        f"id {identity.broker_id} of broker {identity.broker_name} is kept for {owner}, which left less than "
        f"{brokers.id_kept_ms()} ms ago (brokerIdKeptMs); {identity.address} is no known slave of that group: give it "
        "another brokerId, or send it again later"
    )


def _is_newer(report: Registration, holder: LiveBroker) -> bool:
    """Return whether the epoch (PyMQ) or the state version (RocketMQ under a controller) is a plausible next one."""
    states = (report.data_version.state_version, holder.data_version.state_version)
    pairs = [(report.epoch, holder.epoch), states] if report.identity.is_master else [states]
    return any(known < reported <= known + EPOCH_JUMP_MAX for reported, known in pairs)


def _is_back(brokers: BrokerManager, report: Registration, holder: LiveBroker) -> bool:
    """Return whether a PyMQ master claims its id, which a peer got that no master has named.

    A peer gets the id of a master that was away for long. It does not keep it from that master, or from its slaves.
    """
    identity, memory = report.identity, brokers.memory(report.identity.broker_name)
    if not identity.is_master or memory is None or memory.is_named_slave(holder.identity.address):
        return False
    return memory.is_named_slave(identity.address) and memory.may_name(identity.address, report.host)


def _is_successor(brokers: BrokerManager, report: Registration, holder: LiveBroker) -> bool:
    """Return whether the sender is, or lately was, a member of the group, and one that a PyMQ master itself names."""
    identity = report.identity
    memory = brokers.memory(identity.broker_name)
    assert memory is not None, "a holder has a group"
    live = brokers.live(identity.address)
    if live is not None and live.identity.broker_name == identity.broker_name:
        host: str | None = live.host
    else:
        host = memory.former_host(identity.address)
    if holder.names_slaves:
        return memory.is_named_slave(identity.address) and host in (None, report.host)
    return host == report.host
