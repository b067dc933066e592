"""Checks of groups of brokers: does each have one master, and as many slaves as it needs? Do Raft groups work?"""

from __future__ import annotations

from collections.abc import Iterator

from pymq.operations.doctor.finding import Finding, note, problem, unknown, warning
from pymq.operations.doctor.state import Broker, ClusterState
from pymq.operations.raft.groups import group_of
from pymq.operations.raft.verdicts import verdicts
from pymq.operations.replica_view import NO_SLAVE, START_SLAVE, UNPROVEN, lag_of, replication_problems, unproven_slaves
from pymq.units import format_bytes


def check_masters(state: ClusterState) -> Iterator[Finding]:
    """A group without a registered master takes no messages; two masters of one name diverge."""
    for name, members in _groups(state).items():
        masters = [broker for broker in members if broker.view.is_master]
        if not masters:
            slaves = ", ".join(broker.view.address for broker in members)
            yield problem(
                name,
                f"has no master, only slaves ({slaves}): it takes no messages",
                f"start the master, or make a slave the master: pymq broker promote {name}",
                slaves=[broker.view.address for broker in members],
            )
        elif len(masters) > 1:
            yield problem(
                name,
                f"has {len(masters)} masters: {', '.join(broker.view.address for broker in masters)}",
                "choose one: pymq broker promote HOST:PORT --dry-run shows what the other would lose",
                masters=[broker.view.address for broker in masters],
            )


def check_replication(state: ClusterState) -> Iterator[Finding]:
    """A group is under-replicated when sends wait for more slaves than are in sync, or when a slave is behind."""
    for name, members in _groups(state).items():
        for broker in members:
            status = broker.view.status
            if status is None:
                continue
            if not status.knows_slaves:
                pass  # RocketMQ 4 does not say it
            elif broker.view.is_master and status.in_sync_slaves < status.required_slaves:
                yield problem(
                    broker.label,
                    f"is under-replicated: {status.in_sync_slaves} of {status.required_slaves} required slaves are in "
                    "sync",
                    f"start its slaves: pymq broker status {name} shows which is missing",
                    in_sync=status.in_sync_slaves,
                    required=status.required_slaves,
                )
            elif broker.view.is_master and len(members) == 1 and not status.slaves:
                yield note(
                    broker.label,
                    NO_SLAVE,
                    START_SLAVE.format(name),
                )
            if unproven := unproven_slaves(status):
                yield warning(
                    broker.label,
                    UNPROVEN.format(", ".join(unproven)),
                    "replace RocketMQ's slaves by PyMQ's, then empty haUnprovenSlaveHosts",
                    slaves=unproven,
                )
            if not broker.view.is_master:
                yield from _slave(broker, members)
            of_raft = status.raft.problems if status.raft is not None else []
            for text in replication_problems(broker.view):
                if text not in of_raft and "required slaves are in sync" not in text:
                    yield problem(broker.label, text, f"pymq broker status {name} shows more")


def check_raft(state: ClusterState) -> Iterator[Finding]:
    """What ``pymq check raft`` calls critical is a problem, and its warnings are warnings."""
    for members in _groups(state).values():
        group = group_of([broker.view for broker in members])
        for verdict in verdicts(group) if group is not None else ():
            level = problem if verdict.stops else warning
            yield level(verdict.subject, verdict.text, f"pymq raft status {group.name if group else ''} shows more")


def _slave(broker: Broker, members: list[Broker]) -> Iterator[Finding]:
    master = next((one.view for one in members if one.view.is_master and one.answers), None)
    lag = lag_of(broker.view, master)
    if lag.lag_bytes is None:
        if master is not None:
            yield unknown(broker.label, "how far it is behind its master is not known")
    elif lag.in_sync is False and lag.lag_bytes:
        yield warning(
            broker.label,
            f"is not in sync: {format_bytes(lag.lag_bytes)} behind its master",
            f"look at the network and its disk: pymq broker status {broker.view.name}",
            lag_bytes=lag.lag_bytes,
            lag_ms=lag.lag_ms,
        )


def _groups(state: ClusterState) -> dict[str, list[Broker]]:
    found: dict[str, list[Broker]] = {}
    for broker in state.brokers:
        found.setdefault(broker.view.name, []).append(broker)
    return found
