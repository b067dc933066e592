"""The servers that ``pymq config`` works on: brokers by name, address or cluster, or the name servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pymq.client.admin import Admin
from pymq.client.admin.settings import ServerSettings
from pymq.errors import NotFoundError, PartialError, PymqError
from pymq.operations.replica_view import BrokerView, brokers, named

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Targets:
    """What the options name. ``slaves``: a name or a cluster means its slaves, too."""

    brokers: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    is_namesrv: bool = False
    slaves: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.brokers or self.clusters or self.is_namesrv)


@dataclass(frozen=True, slots=True)
class Server:
    """One server: its name for people, such as ``broker-a:0``, and its address."""

    label: str
    address: str
    is_namesrv: bool = False

    async def settings(self, admin: Admin) -> ServerSettings:
        """Return its settings. Raises UnreachableError, RefusedError."""
        return await admin.settings.read(self.address, is_namesrv=self.is_namesrv)


@dataclass(slots=True)
class Found:
    """Records of the servers that answered, and why the others did not."""

    records: list[dict[str, Any]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    failed: dict[str, PymqError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def raise_if_all_failed(self) -> None:
        """Raise the first server's error when every server failed."""
        if self.failed and not self.done:
            raise next(iter(self.failed.values()))

    @property
    def unreached(self) -> dict[str, str]:
        """The servers that did not answer, with the reason, for commands that only look."""
        return {label: str(error) for label, error in self.failed.items()}

    def raise_if_some_failed(self) -> None:
        """Raise PartialError when some servers failed and others did not."""
        self.raise_if_all_failed()
        if self.failed:
            raise PartialError(self.done, self.failed)


async def find(admin: Admin, targets: Targets) -> list[Server]:
    """Return the servers, by default all brokers. Raises NotFoundError for an unknown name or cluster."""
    if targets.is_namesrv:
        return [Server(address, address, is_namesrv=True) for address in admin.namesrv.addresses]
    views: list[BrokerView] = []
    for name in targets.brokers:
        views += await _of_name(admin, name, slaves=targets.slaves)
    if targets.clusters or targets.is_empty:
        registered = await brokers(admin)
        for cluster in targets.clusters:
            views += _of_cluster(registered, cluster, slaves=targets.slaves)
        if targets.is_empty:
            views += registered
    if not views:
        raise NotFoundError("no broker is registered at the name server: start one, or name it by HOST:PORT")
    by_address = {view.address: view for view in views}
    return [Server(_label(view), view.address) for view in by_address.values()]


async def read_all(admin: Admin, servers: list[Server]) -> tuple[dict[Server, ServerSettings], Found]:
    """Return the settings of each server that answers, and a Found with the servers that don't answer."""
    found = Found()
    answers = await asyncio.gather(*(_or_error(lambda one=server: one.settings(admin)) for server in servers))  # type: ignore[misc]
    result = {}
    for server, answer in zip(servers, answers, strict=True):
        if isinstance(answer, PymqError):
            found.failed[server.label] = answer
        else:
            found.done.append(server.label)
            result[server] = answer
    return result, found


async def _or_error(work: Callable[[], Awaitable[T]]) -> T | PymqError:
    try:
        return await work()
    except PymqError as error:
        return error


async def _of_name(admin: Admin, name: str, *, slaves: bool) -> list[BrokerView]:
    group, _, last = name.rpartition(":")
    if last.isdigit() and (found := await _labeled(admin, group, int(last))):
        return found
    views = await named(admin, name)
    if slaves or len(views) == 1:
        return views
    masters = [view for view in views if view.is_master]
    if not masters:
        raise NotFoundError(f"no master of {name} is registered: name the broker by HOST:PORT, or give --slaves")
    if len({view.name for view in masters}) < len(masters):
        raise NotFoundError(f"{name} is in several clusters: name the broker by HOST:PORT")
    return masters


async def _labeled(admin: Admin, name: str, broker_id: int) -> list[BrokerView]:
    """Return the broker that the tables show as NAME:ID; none for an address, also without a name server."""
    try:
        return [view for view in await brokers(admin) if (view.name, view.broker_id) == (name, broker_id)]
    except PymqError:
        return []


def _of_cluster(registered: list[BrokerView], cluster: str, *, slaves: bool) -> list[BrokerView]:
    views = [view for view in registered if view.cluster == cluster and (slaves or view.is_master)]
    if not views:
        clusters = ", ".join(sorted({view.cluster for view in registered})) or "none"
        raise NotFoundError(f"no cluster {cluster!r} with a {'broker' if slaves else 'master'}: there are {clusters}")
    return views


def _label(view: BrokerView) -> str:
    return f"{view.name}:{view.broker_id}" if view.name else view.address
