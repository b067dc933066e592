"""Admin calls about clusters: their brokers and the addresses of the masters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pymq.client.admin.asking import Asking, BrokerTarget, no_master_text
from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.machines import candidates, workers_of
from pymq.errors import NotFoundError, PymqError, UnreachableError, UsageError
from pymq.wire.bodies_admin import decode_admin_body
from pymq.wire.bodies_route import ClusterInfo, KvTable, decode_cluster_info
from pymq.wire.codes import RequestCode


class ClusterAdmin:
    """Calls about brokers as the name server knows them."""

    def __init__(self, connection: AdminConnection, asking: Asking | None = None) -> None:
        self._connection = connection
        self.asking = asking or Asking()

    async def info(self) -> ClusterInfo:
        """Return all brokers by name and all clusters, as the first name server knows them that knows a broker.

        One that has just started knows none.
        """
        info = await self._info()
        self._connection.note_brokers(info.broker_addr_table.values())
        return info

    async def _info(self) -> ClusterInfo:
        info = decode_cluster_info((await self._connection.ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        if info.broker_addr_table or len(self._connection.namesrv_addresses) == 1:
            return info
        for other in (await self._connection.try_each_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO)).values():
            if not isinstance(other, PymqError) and (found := decode_cluster_info(other.body)).broker_addr_table:
                return found
        return info

    async def masters(self) -> list[BrokerTarget]:
        """Return the masters of all clusters, sorted by name.

        Brokers without a master count as unreached; a partial Admin leaves out those that did not answer, too.
        """
        return self.asking.reachable(await self._registered())

    async def select(self, clusters: Sequence[str] = (), brokers: Sequence[str] = ()) -> list[BrokerTarget]:
        """Return the masters of the named clusters, and the named brokers.

        A broker is a name or an address "host:port"; a machine's name stands for all its workers. Without names it
        returns the masters of the only cluster. Raises UsageError when there are several clusters, NotFoundError when
        no broker is registered and for an unknown name, UnreachableError for a named broker without a master.
        """
        registered = await self._registered()
        known = sorted({target.cluster for target in registered})
        if not clusters and not brokers:
            if not any(target.address for target in registered):
                raise NotFoundError("no broker is registered at the name server: start one, or wait for it to register")
            if len(known) > 1:
                raise UsageError(
                    f"there are several clusters ({', '.join(known)}): name one with -c, or brokers with -b"
                )
            return self.asking.reachable(registered)
        found = []
        for cluster in clusters:
            members = [target for target in registered if target.cluster == cluster]
            if not members:
                raise NotFoundError(f"no cluster {cluster!r}: there are {', '.join(known) or 'none'}")
            found += self.asking.reachable(members)
        for broker in brokers:
            found += [_named(name, registered) for name in await self.workers_of(broker)]
        return list(dict.fromkeys(found))

    async def workers_of(self, name: str) -> list[str]:
        """Return the names of the brokers that a name stands for: a machine's workers by number, or the name itself.

        Brokers are asked only where their names would fit. Raises nothing for a name or address that none has.
        """
        table = (await self.info()).broker_addr_table
        fitting = candidates(name, table)
        if fitting in ([], [name]):
            return [name]
        answers = await asyncio.gather(*(self._runtime(table[one].broker_addrs) for one in fitting))
        return workers_of(name, dict(zip(fitting, answers, strict=True))) or [name]

    async def _runtime(self, addresses: Mapping[int, str]) -> dict[str, str] | None:
        """Return the runtime table of the first broker of a name that answers, the master first; None without one."""
        for _, address in sorted(addresses.items()):
            with suppress(PymqError):
                answer = await self._connection.ask_broker(address, RequestCode.GET_BROKER_RUNTIME_INFO)
                return decode_admin_body(KvTable, answer.body).table
        return None

    async def _registered(self) -> list[BrokerTarget]:
        """Return a target for each broker name, sorted; its address is empty where no master is registered."""
        info = await self.info()
        return sorted(
            BrokerTarget(name, data.cluster, data.master_address or "") for name, data in info.broker_addr_table.items()
        )


def _named(broker: str, registered: Sequence[BrokerTarget]) -> BrokerTarget:
    for target in registered:
        if broker in (target.name, target.address):
            if not target.address:
                raise UnreachableError(no_master_text(target.name))
            return target
    if ":" in broker:
        return BrokerTarget("", "", broker)
    names = ", ".join(target.name for target in registered) or "none"
    raise NotFoundError(f"no broker {broker!r}: there are {names}; an address HOST:PORT works too")
