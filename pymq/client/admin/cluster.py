"""Admin calls about clusters: their brokers and the addresses of the masters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pymq.client.admin.connection import AdminConnection
from pymq.errors import NotFoundError, PymqError, UsageError
from pymq.wire.bodies_route import ClusterInfo, decode_cluster_info
from pymq.wire.codes import RequestCode


class BrokerTarget(NamedTuple):
    """One broker to call. Name and cluster are empty for a broker given by an address that is not registered."""

    name: str
    cluster: str
    address: str


class ClusterAdmin:
    """Calls about brokers as the name server knows them."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    async def info(self) -> ClusterInfo:
        """Returns all brokers by name and all clusters, as the first name server knows them that knows a broker.

        One that has just started knows none.
        """
        info = decode_cluster_info((await self._connection.ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        if info.broker_addr_table or len(self._connection.namesrv_addresses) == 1:
            return info
        for other in (await self._connection.try_each_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO)).values():
            if not isinstance(other, PymqError) and (found := decode_cluster_info(other.body)).broker_addr_table:
                return found
        return info

    async def masters(self) -> list[BrokerTarget]:
        """Returns the masters of all clusters, sorted by name."""
        info = await self.info()
        found = [
            BrokerTarget(name, data.cluster, data.master_address)
            for name, data in info.broker_addr_table.items()
            if data.master_address
        ]
        return sorted(found)

    async def select(self, clusters: Sequence[str] = (), brokers: Sequence[str] = ()) -> list[BrokerTarget]:
        """Returns the masters of the named clusters, and the named brokers.

        A broker is a name or an address "host:port". Without names it returns the masters of the only cluster. Raises
        UsageError when there are several clusters, NotFoundError when no broker is registered and for an unknown name.
        """
        masters = await self.masters()
        known = sorted({target.cluster for target in masters})
        if not clusters and not brokers:
            if not masters:
                raise NotFoundError("no broker is registered at the name server: start one, or wait for it to register")
            if len(known) > 1:
                raise UsageError(
                    f"there are several clusters ({', '.join(known)}): name one with -c, or brokers with -b"
                )
            return masters
        found = []
        for cluster in clusters:
            members = [target for target in masters if target.cluster == cluster]
            if not members:
                raise NotFoundError(f"no cluster {cluster!r}: there are {', '.join(known) or 'none'}")
            found += members
        found += [_named(broker, masters) for broker in brokers]
        return list(dict.fromkeys(found))


def _named(broker: str, masters: Sequence[BrokerTarget]) -> BrokerTarget:
    for target in masters:
        if broker in (target.name, target.address):
            return target
    if ":" in broker:
        return BrokerTarget("", "", broker)
    names = ", ".join(target.name for target in masters) or "none"
    raise NotFoundError(f"no broker {broker!r}: there are {names}; an address HOST:PORT works too")
