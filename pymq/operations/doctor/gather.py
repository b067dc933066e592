"""Asks name servers and brokers for all that the checks need. What a server doesn't answer stays unknown."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Protocol

from pymq.client.admin import Admin
from pymq.client.admin.asking import by_key, for_each
from pymq.client.admin.groups import LAGS_AT_ONCE
from pymq.client.admin.rows import Rows, added_up
from pymq.clock import Clock
from pymq.errors import PymqError, UnreachableError
from pymq.model.hosts import format_address, host_of, is_address_server, parse_address
from pymq.model.lite_groups import BIND_TOPIC
from pymq.model.lite_topics import is_parent
from pymq.model.names import is_system_group
from pymq.operations.doctor.state import Broker, ClusterState, Group, Lags, NameServer, Port, Skew, number
from pymq.operations.replica_view import BrokerView, ask
from pymq.operations.topic.order import ORDER_NAMESPACE
from pymq.wire.bodies_admin import add_lag
from pymq.wire.bodies_rows import GroupMembers

PORT_TIMEOUT_S = 2.0
FAST_PORT_DISTANCE = 2  # RocketMQ's brokers also listen on listenPort - 2
SINGLE_GROUPS_MAX = 10
OBSERVED_MS = 6000  # Java's consumers commit every 5 s
_RUNTIME = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")

OpenAdmin = Callable[[Sequence[str]], AbstractAsyncContextManager[Admin]]


class Probe(Protocol):
    """Tries connections from this machine."""

    async def error(self, address: str) -> str:
        """Return why ``address`` can't be connected, empty when it can."""
        ...


class SocketProbe:
    """Opens a TCP connection and ends it."""

    async def error(self, address: str) -> str:
        try:
            host, port = parse_address(address)
            async with asyncio.timeout(PORT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            return f"no answer within {PORT_TIMEOUT_S:g} s"
        except OSError as error:
            return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        except ValueError as error:
            return str(error)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return ""


class Gatherer:
    """Collects the state of one cluster. ``observe_ms``: how long to watch groups that are behind; 0 for not at all."""

    def __init__(
        self,
        places: Sequence[str],
        open_admin: OpenAdmin,
        *,
        clock: Clock,
        probe: Probe,
        observe_ms: int = OBSERVED_MS,
        missing: Callable[[Iterable[str]], dict[str, str]] = lambda listed: {},
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``missing`` takes the names of the listed brokers, and returns unlisted names with the reason."""
        self._places = places
        self._open_admin = open_admin
        self._clock = clock
        self._probe = probe
        self._observe_ms = observe_ms
        self._sleep = sleep
        self._missing = missing

    async def state(self) -> ClusterState:
        """Return the state; name servers and brokers that can't be reached are in it with their errors."""
        state = ClusterState(self._clock.now_ms())
        state.name_servers = await for_each(await self._name_servers(), self._name_server)
        async with self._admin(state) as admin:
            if admin is None:
                return state
            views = registered(state.name_servers)
            state.missing = self._missing({view.name for view in views})
            with suppress(PymqError):
                state.ordered = await admin.namesrv.values(ORDER_NAMESPACE)
            state.brokers = await for_each(await ask(admin, views), lambda view: self._broker(admin, view))
            masters = [broker.view.address for broker in state.masters if broker.answers]
            state.groups, state.places_unknown = await self._groups(admin, masters)
            behind = [group for group in state.groups if group.lag and group.members != 0]
            if self._observe_ms and behind:
                await self._sleep(self._observe_ms / 1000)
                later, failed = await _lags(admin, masters, [group.name for group in behind])
                state.places_unknown |= failed
                for group in behind:
                    group.later = later[group.name]
                state.observed_ms = self._observe_ms
        return state

    async def _name_servers(self) -> list[str]:
        """Return the given addresses. An address server that answers is replaced by the addresses that it names."""
        found = [place for place in self._places if not is_address_server(place)]
        for url in filter(is_address_server, self._places):
            try:
                async with self._open_admin([url]) as admin:
                    found += admin.namesrv.addresses
            except UnreachableError:
                found.append(url)  # as a name server that does not answer
        return list(dict.fromkeys(found))

    @asynccontextmanager
    async def _admin(self, state: ClusterState) -> AsyncIterator[Admin | None]:
        """Yield a client of the name servers that answered, None when none did."""
        usable = [server.address for server in state.name_servers if not server.error]
        if not usable:
            yield None
            return
        async with self._open_admin(usable) as admin:
            yield admin

    async def _name_server(self, address: str) -> NameServer:
        server = NameServer(address)
        try:
            async with self._open_admin([address]) as admin:
                info, topics = await asyncio.gather(admin.cluster.info(), admin.topics.names())
        except PymqError as error:
            server.error = str(error)
            return server
        server.brokers, server.topics = info.broker_addr_table, frozenset(topics)
        return server

    async def _broker(self, admin: Admin, view: BrokerView) -> Broker:
        broker = Broker(view)
        if view.status is None:
            broker.ports = [Port("listen", view.address, await self._probe.error(view.address))]
            return broker
        with suppress(PymqError):
            broker.config = await admin.brokers.config(view.address)
        if view.is_master:
            with suppress(PymqError):
                broker.topics = await admin.topics.configs(view.address)
                if any(is_parent(topic.attributes) for topic in broker.topics.values()):
                    broker.lites = await admin.lites.broker(view.address)
        with suppress(PymqError):
            broker.skew = await self._skew(admin, view)
        addresses = _ports(view, broker.config or {})
        errors = await asyncio.gather(*(self._probe.error(address) for _, address in addresses))
        broker.ports = [Port(name, address, error) for (name, address), error in zip(addresses, errors, strict=True)]
        return broker

    async def _skew(self, admin: Admin, view: BrokerView) -> Skew | None:
        asked_ms = self._clock.now_ms()
        table = await admin.brokers.runtime_info(view.address)
        return skew(table, asked_ms, self._clock.now_ms())

    async def _groups(self, admin: Admin, masters: Sequence[str]) -> tuple[list[Group], dict[str, str]]:
        groups: dict[str, Group] = {}
        for address in masters:
            with suppress(PymqError):
                for name, config in (await admin.groups.configs(address)).items():
                    if not is_system_group(name):
                        group = groups.setdefault(name, Group(name))
                        group.is_enabled = group.is_enabled and config.consume_enable
                        group.lite_parent = config.attributes.get(BIND_TOPIC, group.lite_parent)
        found = [groups[name] for name in sorted(groups)]
        lags, failed = await _every_lag(admin, masters)
        for group in found:
            group.lags = lags.get(group.name, {})
        await _ask_members(admin, masters, found)
        return found, failed


def registered(name_servers: Iterable[NameServer]) -> list[BrokerView]:
    """Return each broker that any name server lists, once by its address."""
    found = {
        address: BrokerView(data.cluster, name, broker_id, address)
        for server in name_servers
        for name, data in server.brokers.items()
        for broker_id, address in data.broker_addrs.items()
    }
    return sorted(found.values(), key=lambda view: (view.cluster, view.name, view.broker_id, view.address))


def skew(table: dict[str, str], asked_ms: int, answered_ms: int) -> Skew | None:
    """Return how far a broker's clock is ahead, by its runtime table; None when that doesn't say.

    PyMQ's brokers report their time. RocketMQ's report the time of their start and for how long they have run, in whole
    seconds, so theirs is known within a second.
    """
    exact = number(table.get("pymqTimeMs"))
    if exact is not None:
        return Skew(int(exact) - answered_ms, int(exact) - asked_ms)
    boot, match = number(table.get("bootTimestamp")), _RUNTIME.fullmatch(table.get("runtime", ""))
    if boot is None or match is None:
        return None
    days, hours, minutes, seconds = map(int, match.groups())
    at_ms = int(boot) + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    return Skew(at_ms - answered_ms, at_ms + 999 - asked_ms)


def _ports(view: BrokerView, config: dict[str, str]) -> list[tuple[str, str]]:
    host, port = parse_address(view.address)
    fast_port = number(config.get("fastListenPort", "")) or port - FAST_PORT_DISTANCE  # RocketMQ has no such key
    found = [("listen", view.address)]
    if fast_port > 0:
        found.append(("listen-2", format_address(host, int(fast_port))))
    ha_address = view.status.ha_address if view.status is not None else ""
    if ha_address and not ha_address.endswith(":0"):
        found.append(("ha", ha_address))
    if config.get("metricsExporterType") == "PROM" and config.get("metricsPromExporterPort", "0") != "0":
        metrics_host = config.get("metricsPromExporterHost") or config.get("brokerIP1") or host_of(view.address)
        found.append(("metrics", f"{metrics_host}:{config['metricsPromExporterPort']}"))
    return found


async def _lags(admin: Admin, masters: Sequence[str], groups: Sequence[str]) -> tuple[dict[str, Lags], dict[str, str]]:
    """Return how far each of some groups is on the masters that answer, and why others don't."""
    found: dict[str, Lags] = {group: {} for group in groups}
    failed: dict[str, str] = {}

    async def ask(address: str, group: str) -> None:
        if address in failed:
            return
        try:
            lags = await admin.groups.topic_lags_at(address, group)
        except PymqError as error:
            failed[address] = str(error)
            return
        for topic, lag in lags.items():
            add_lag(found[group], topic, lag)

    for address in masters:
        await for_each(groups, partial(ask, address), LAGS_AT_ONCE)
    return found, failed


async def _every_lag(admin: Admin, masters: Sequence[str]) -> tuple[dict[str, Lags], dict[str, str]]:
    """Return how far all groups that are behind are on the masters that answer, and why others don't."""
    found: dict[str, Lags] = {}
    failed: dict[str, str] = {}
    for address in masters:
        try:
            groups = await _lags_behind(admin, address)
        except PymqError as error:
            failed[address] = str(error)
            continue
        for name, lags in groups.items():
            for topic, lag in lags.items():
                add_lag(found.setdefault(name, {}), topic, lag)
    return found, failed


async def _lags_behind(admin: Admin, address: str) -> dict[str, Lags]:
    """Return the lags of one master's groups. A group that a PyMQ broker does not call behind is left out.

    Topics of a few groups take a request for each; of more, the pages of all of them are quicker. RocketMQ's brokers
    take a request for each group.
    """
    rows = await admin.rows.lags(address)
    if rows is None:
        return await admin.groups.all_topic_lags_at(address)
    behind = sorted(name for name, row in rows.items() if row.lag)
    if len(behind) > SINGLE_GROUPS_MAX:
        return await admin.groups.all_topic_lags_at(address)
    return await by_key(behind, partial(admin.groups.topic_lags_at, address), LAGS_AT_ONCE)


async def _ask_members(admin: Admin, masters: Sequence[str], groups: Sequence[Group]) -> None:
    """Fill in the groups' members, and what they subscribe to differently."""
    has_several = len(masters) > 1  # then a client that is connected to two brokers must count once
    try:
        rows = added_up(await for_each(masters, lambda at: admin.groups.member_counts_at(at, with_names=has_several)))
    except PymqError as error:
        for group in groups:
            group.members, group.error = None, str(error)
        return
    await for_each(groups, lambda group: _compare_members(admin, rows, group))


async def _compare_members(admin: Admin, rows: Rows[GroupMembers], group: Group) -> None:
    row = rows.get(group.name, GroupMembers(members=None if rows.withheld else 0))
    group.members = row.members
    if row.members is None:
        group.error = "its members may not be seen, or are too many to compare"
        return
    if row.members < 2 or row.differ is False:
        group.differing = {}
        return
    try:
        group.differing = await admin.groups.differing_subscriptions(group.name)
    except PymqError as error:
        group.error = str(error)
