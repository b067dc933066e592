"""Every broker of a cluster with what it tells of itself and of replication, and how far each is behind its master."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pymq.client.admin import Admin
from pymq.errors import NotFoundError, PymqError
from pymq.model.hosts import host_of
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import CONNECTED, FOLLOWING, REFUSED, ReplicationStatus, SlaveState

_TOO_FEW = "in sync (inSyncReplicas"  # in the text with which a SYNC_MASTER refuses sends


@dataclass(slots=True)
class BrokerView:
    """One broker as the name servers have it. ``status`` is None and ``error`` says why when it does not answer."""

    cluster: str
    name: str
    broker_id: int
    address: str
    status: ReplicationStatus | None = None
    runtime: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    @property
    def version(self) -> str | None:
        return self.runtime.get("brokerVersionDesc")

    def per_second(self, key: str) -> float | None:
        """The rate over the last ten seconds of a figure such as ``putTps``."""
        first = self.runtime.get(key, "").split(" ")[0]
        try:
            return round(float(first), 1)
        except ValueError:
            return None


class Lag(NamedTuple):
    """How far a slave is behind; None where nobody knows."""

    lag_bytes: int | None = None
    lag_messages: int | None = None
    lag_ms: int | None = None
    in_sync: bool | None = None


async def brokers(admin: Admin) -> list[BrokerView]:
    """All that are registered, by cluster, name and id; nothing is asked of them yet."""
    info = await admin.cluster.info()
    found = [
        BrokerView(data.cluster, name, broker_id, address)
        for name, data in info.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    ]
    return sorted(found, key=lambda view: (view.cluster, view.name, view.broker_id))


async def named(admin: Admin, name: str) -> list[BrokerView]:
    """The brokers of a name, or the one at an address "host:port". Raises NotFoundError."""
    if ":" in name:
        known = [view for view in await _registered(admin) if view.address == name]
        return known or [BrokerView("", "", MASTER_ID, name)]
    everybody = await brokers(admin)
    found = [view for view in everybody if view.name == name]
    if not found:
        names = ", ".join(sorted({view.name for view in everybody})) or "none"
        raise NotFoundError(f"no broker {name!r}: there are {names}; an address HOST:PORT works too")
    return found


async def _registered(admin: Admin) -> list[BrokerView]:
    """For an address no name server is needed: without one nothing is known of the broker but that."""
    try:
        return await brokers(admin)
    except PymqError:
        return []


async def ask(admin: Admin, views: Iterable[BrokerView]) -> list[BrokerView]:
    """Fills in what each broker tells, all at once so that their logs' ends are of one moment."""

    async def one(view: BrokerView) -> BrokerView:
        try:
            status, view.runtime = await asyncio.gather(
                admin.replication.status(view.address), admin.brokers.runtime_info(view.address)
            )
        except PymqError as error:
            view.error = str(error)
            return view
        view.status = status
        view.cluster, view.name = status.cluster or view.cluster, status.broker_name or view.name
        view.broker_id = status.broker_id
        return view

    return list(await asyncio.gather(*map(one, views)))


def master_of(view: BrokerView, views: Iterable[BrokerView]) -> BrokerView | None:
    """The master of the same name, None when it is not there or does not answer."""
    for other in views:
        if other.is_master and (other.cluster, other.name) == (view.cluster, view.name) and other.status is not None:
            return other
    return None


def lag_of(slave: BrokerView, master: BrokerView | None) -> Lag:
    """By what the master says of this slave, where it can be told apart; else by the ends of the two logs.

    Messages are the difference between the sums of all queues' ends; RocketMQ's brokers don't tell theirs.
    """
    mine = slave.status
    if mine is None:
        return Lag()
    if master is None or master.status is None:
        link = mine.link
        return Lag(_known(link.lag_bytes), _known(link.lag_messages), _known(link.lag_ms), None) if link else Lag()
    theirs = master.status
    seen = _seen_by_master(slave, theirs)
    messages = None
    if mine.message_count >= 0 and theirs.message_count >= 0:
        messages = max(0, theirs.message_count - mine.message_count)
    if seen is None:
        lag_bytes = max(0, theirs.log_end - mine.log_end)
        return Lag(lag_bytes, messages if lag_bytes else 0, 0 if lag_bytes == 0 else None, _in_sync_alone(theirs))
    if seen.lag_messages >= 0:
        messages = seen.lag_messages
    return Lag(seen.lag_bytes, messages, _known(seen.lag_ms), seen.in_sync)


def _seen_by_master(slave: BrokerView, master: ReplicationStatus) -> SlaveState | None:
    """The master's own row of this slave: by its id, or because it is the only one from the slave's host."""
    slaves = [state for state in master.slaves if state.state != REFUSED]
    by_id = [state for state in slaves if state.broker_id == slave.broker_id]
    if len(by_id) == 1:
        return by_id[0]
    host = host_of(slave.address)
    unnamed = [state for state in slaves if state.broker_id < 0]
    from_host = [state for state in unnamed if host_of(state.address) == host]
    return from_host[0] if len(from_host) == 1 else None


def _in_sync_alone(master: ReplicationStatus) -> bool | None:
    """False when the master has no slave at all; which of several a nameless connection belongs to, nobody knows."""
    return None if master.slaves else False


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def problems_of(view: BrokerView) -> list[str]:
    """What an operator should know of this broker now."""
    if view.status is None:
        return [view.error]
    status = view.status
    found = [status.problem, view.runtime.get("storeProblems", "")]
    if status.link is not None:
        found.append(status.link.problem or _link_trouble(status.link.state))
    found += [_slave_trouble(slave) for slave in status.slaves if slave.problem and not _is_stranger(slave)]
    strangers = [slave for slave in status.slaves if _is_stranger(slave)]
    if strangers:
        last = strangers[-1]
        found.append(f"{len(strangers)} sent away from the HA port lately, last {last.address}: {last.problem}")
    if status.degraded:
        found.append(f"degraded: {_in_sync_text(status)}, and sends wait for no more (enableAutoInSyncReplicas)")
    elif status.in_sync_slaves < status.required_slaves and _TOO_FEW not in found[1]:
        found.append(_in_sync_text(status))
    return [problem for problem in dict.fromkeys(found) if problem]


def _in_sync_text(status: ReplicationStatus) -> str:
    return f"{status.in_sync_slaves} of {status.required_slaves} required slaves are in sync"


def _is_stranger(slave: SlaveState) -> bool:
    """Who knows who that was: it did not join, and the log is not what it came for."""
    return slave.broker_id < 0 and slave.state == REFUSED


def _slave_trouble(slave: SlaveState) -> str:
    state = f" is {slave.state}" if not slave.is_connected else ""
    return f"slave {slave.address}{state}: {slave.problem}"


def _link_trouble(state: str) -> str:
    return "" if state in (FOLLOWING, CONNECTED) else f"does not follow its master: {state}"
