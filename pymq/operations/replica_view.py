"""Views of all brokers of a cluster: status, replication, and the lag of each slave behind its master."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pymq.client.admin import Admin
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.model.hosts import host_of
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import CONNECTED, FOLLOWING, REFUSED, ReplicationStatus, SlaveState

_TOO_FEW = "in sync (inSyncReplicas"  # part of the text with which a SYNC_MASTER refuses sends


@dataclass(slots=True)
class BrokerView:
    """One registered broker. If it does not answer, ``status`` is None and ``error`` has the reason.

    ``refusal``: what it answered instead, when it refused.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    status: ReplicationStatus | None = None
    runtime: dict[str, str] = field(default_factory=dict)
    error: str = ""
    refusal: RefusedError | None = None

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    @property
    def version(self) -> str | None:
        return self.runtime.get("brokerVersionDesc")

    def per_second(self, key: str) -> float | None:
        """Return the rate of a figure such as ``putTps`` over the last ten seconds."""
        first = self.runtime.get(key, "").split(" ")[0]
        try:
            return round(float(first), 1)
        except ValueError:
            return None


class SlaveLag(NamedTuple):
    """The lag of a slave behind its master; None for unknown values."""

    lag_bytes: int | None = None
    lag_messages: int | None = None
    lag_ms: int | None = None
    in_sync: bool | None = None


async def brokers(admin: Admin) -> list[BrokerView]:
    """Return all registered brokers by cluster, name and id, without asking them."""
    info = await admin.cluster.info()
    found = [
        BrokerView(data.cluster, name, broker_id, address)
        for name, data in info.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    ]
    return sorted(found, key=lambda view: (view.cluster, view.name, view.broker_id))


async def registered(admin: Admin, name: str | None) -> list[BrokerView]:
    """Return the registered brokers: all, or those that a name stands for, as a machine's. Raises NotFoundError."""
    names = None if name is None else await admin.cluster.workers_of(name)
    found = [view for view in await brokers(admin) if names is None or view.name in names]
    if found:
        return found
    raise NotFoundError(
        f"no broker {name!r} is registered: pymq cluster list shows all brokers"
        if name
        else "no broker is registered at the name server: start one, or wait for it to register"
    )


async def named(admin: Admin, name: str) -> list[BrokerView]:
    """Return the brokers of a name, a machine's workers, or the one at an address "host:port". Raises NotFoundError."""
    if ":" in name:
        known = [view for view in await _registered(admin) if view.address == name]
        return known or [BrokerView("", "", MASTER_ID, name)]
    registered = await brokers(admin)
    meant = await admin.cluster.workers_of(name)
    found = [view for view in registered if view.name in meant]
    if not found:
        names = ", ".join(sorted({view.name for view in registered})) or "none"
        raise NotFoundError(f"no broker {name!r}: there are {names}; an address HOST:PORT works too")
    return found


async def _registered(admin: Admin) -> list[BrokerView]:
    """Return the registered brokers; none without a name server, which a broker's address doesn't need."""
    try:
        return await brokers(admin)
    except PymqError:
        return []


async def ask(admin: Admin, views: Iterable[BrokerView]) -> list[BrokerView]:
    """Fill in the status of each broker; ask all at once, so that the ends of their logs are from one moment."""

    async def one(view: BrokerView) -> BrokerView:
        status, runtime = await asyncio.gather(
            admin.replication.status(view.address), admin.brokers.runtime_info(view.address), return_exceptions=True
        )
        # A broker of a Raft group without a leader answers the first alone: its status must be seen all the same.
        needed = (status,) if isinstance(status, ReplicationStatus) and status.raft is not None else (status, runtime)
        for answer in needed:
            if isinstance(answer, PymqError):
                view.error = str(answer)
                view.refusal = answer if isinstance(answer, RefusedError) else None
                return view
            if isinstance(answer, BaseException):
                raise answer
        assert isinstance(status, ReplicationStatus)
        view.status, view.runtime = status, runtime if isinstance(runtime, dict) else {}
        view.cluster, view.name = status.cluster or view.cluster, status.broker_name or view.name
        view.broker_id = status.broker_id
        return view

    return list(await asyncio.gather(*map(one, views)))


def why_none_answered(views: Iterable[BrokerView]) -> PymqError:
    """Return the error to raise when no broker of ``views`` answered: the first one's refusal, or UnreachableError."""
    first = next(view for view in views if view.status is None)
    return first.refusal or UnreachableError(f"{first.name}: {first.error}" if first.name else first.error)


NO_SLAVE = "has no slave: what its disk loses is lost"
START_SLAVE = "pymq broker --name {} --id 1 starts one"
UNPROVEN = "sends its log without a proof of credentials to {}: every program there gets it"


def master_of(view: BrokerView, views: Iterable[BrokerView]) -> BrokerView | None:
    """Return the master of the same name, None when there is none or it does not answer."""
    for other in views:
        if other.is_master and (other.cluster, other.name) == (view.cluster, view.name) and other.status is not None:
            return other
    return None


def lag_of(slave: BrokerView, master: BrokerView | None) -> SlaveLag:
    """Return the lag that the master reports for this slave, or else the difference between the ends of the logs.

    The lag in messages is the difference between the sums of all queues' ends; RocketMQ brokers don't report it.
    """
    mine = slave.status
    if mine is None:
        return SlaveLag()
    if master is None or master.status is None:
        ha_client = mine.ha_client
        return (
            SlaveLag(_known(ha_client.lag_bytes), _known(ha_client.lag_messages), _known(ha_client.lag_ms), None)
            if ha_client
            else SlaveLag()
        )
    theirs = master.status
    seen = _seen_by_master(slave, theirs)
    messages = None
    if mine.message_count >= 0 and theirs.message_count >= 0:
        messages = max(0, theirs.message_count - mine.message_count)
    if seen is None:
        lag_bytes = max(0, theirs.log_end - mine.log_end)
        return SlaveLag(lag_bytes, messages if lag_bytes else 0, 0 if lag_bytes == 0 else None, _in_sync_alone(theirs))
    if seen.lag_messages >= 0:
        messages = seen.lag_messages
    return SlaveLag(seen.lag_bytes, messages, _known(seen.lag_ms), seen.in_sync)


def _seen_by_master(slave: BrokerView, master: ReplicationStatus) -> SlaveState | None:
    """Return the master's entry of this slave: the one with its id, or the only one from its host."""
    slaves = [state for state in master.slaves if state.state != REFUSED]
    by_id = [state for state in slaves if state.broker_id == slave.broker_id]
    if len(by_id) == 1:
        return by_id[0]
    host = host_of(slave.address)
    unnamed = [state for state in slaves if state.broker_id < 0]
    from_host = [state for state in unnamed if host_of(state.address) == host]
    return from_host[0] if len(from_host) == 1 else None


def _in_sync_alone(master: ReplicationStatus) -> bool | None:
    """Return False when the master has no slaves, else None: the entry of this slave is unknown."""
    return None if master.slaves or not master.knows_slaves else False


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def problems_of(view: BrokerView) -> list[str]:
    """Return the current problems of this broker, for operators."""
    if view.status is None:
        return [view.error]
    of_store = view.runtime.get("storeProblems", "")
    said = in_sync_text(view.status) if _TOO_FEW in of_store else ""
    found = [problem for problem in replication_problems(view) if problem != said]
    return list(dict.fromkeys([of_store, *found] if of_store else found))


def replication_problems(view: BrokerView) -> list[str]:
    """Return the current problems of a broker that answers, without those of its store."""
    status = view.status
    if status is None:
        return []
    found = [status.problem]
    if status.raft is not None:
        found += status.raft.problems
    if status.ha_client is not None:
        found.append(status.ha_client.problem or _ha_client_trouble(status.ha_client.state))
    found += [_slave_trouble(slave) for slave in status.slaves if slave.problem and not _is_stranger(slave)]
    strangers = [slave for slave in status.slaves if _is_stranger(slave)]
    if strangers:
        last = strangers[-1]
        found.append(f"{len(strangers)} peers rejected at the HA port lately, last {last.address}: {last.problem}")
    if status.degraded:
        found.append(f"degraded: {in_sync_text(status)}, and sends don't wait for more (enableAutoInSyncReplicas)")
    elif status.knows_slaves and status.in_sync_slaves < status.required_slaves:
        found.append(in_sync_text(status))
    return [problem for problem in dict.fromkeys(found) if problem]


def unproven_slaves(status: ReplicationStatus) -> list[str]:
    """Return the addresses of slaves that a secured master lets follow by their host alone."""
    return [slave.address for slave in status.slaves if slave.is_unproven and slave.is_connected]


def in_sync_text(status: ReplicationStatus) -> str:
    return f"{status.in_sync_slaves} of {status.required_slaves} required slaves are in sync"


def _is_stranger(slave: SlaveState) -> bool:
    """Return True for a rejected peer without a broker id, which may be any program."""
    return slave.broker_id < 0 and slave.state == REFUSED


def _slave_trouble(slave: SlaveState) -> str:
    state = f" is {slave.state}" if not slave.is_connected else ""
    return f"slave {slave.address}{state}: {slave.problem}"


def _ha_client_trouble(state: str) -> str:
    return "" if state in (FOLLOWING, CONNECTED) else f"does not follow its master: {state}"
