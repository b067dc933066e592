"""Figures of the filters that run for a group: in brokers (SQL92), in filter servers, and in the members."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.groups import GroupAdmin
from pymq.client.admin.topics import TopicAdmin
from pymq.errors import NotFoundError, RefusedError, UnreachableError
from pymq.model.names import RETRY_PREFIX

MEMBERS_ASKED_MAX = 64  # per group; each answers through its broker
SQL92 = "sql92"
_PREFIX = "filter."  # the names of figures start with this
_LANGUAGE = "PYTHON"  # only members of this language may run filters themselves
_TEXT = re.compile(r"(?:([a-z0-9-]+): )?matched (\d+), skipped (\d+), errors (\d+), (\d+) ms")
_GONE = (UnreachableError, RefusedError)


class FilterFigures(NamedTuple):
    """Messages by outcome and the time spent in ms, since the broker, filter server or member started.

    ``at``: the broker's name, the filter server's address, or the member's client id.
    """

    topic: str
    place: Literal["broker", "filter-server", "client"]
    at: str
    filter: str
    matched: int
    skipped: int
    errors: int
    time_ms: int


class FilterAdmin:
    """Calls about filters. RocketMQ's brokers and clients are asked too, but have no such figures."""

    def __init__(self, cluster: ClusterAdmin, topics: TopicAdmin, groups: GroupAdmin, brokers: BrokerAdmin) -> None:
        self._cluster = cluster
        self._topics = topics
        self._groups = groups
        self._brokers = brokers

    async def figures(self, group: str) -> list[FilterFigures]:
        """Return all figures of a group, sorted, without filter servers and members that don't answer."""
        parts = await asyncio.gather(self._of_brokers(group), self._of_filter_servers(group), self._of_members(group))
        return sorted(one for part in parts for one in part)

    async def _of_brokers(self, group: str) -> list[FilterFigures]:
        masters = await self._cluster.masters()
        infos = await asyncio.gather(*(self._brokers.runtime_info(target.address) for target in masters))
        return [one for target, info in zip(masters, infos, strict=True) for one in of_broker(target.name, group, info)]

    async def _of_filter_servers(self, group: str) -> list[FilterFigures]:
        addresses = sorted(await self._filter_servers(group))
        infos = await asyncio.gather(*(self._info_of(address) for address in addresses))
        pairs = zip(addresses, infos, strict=True)
        return [one for address, info in pairs for one in of_filter_server(address, group, info)]

    async def _filter_servers(self, group: str) -> set[str]:
        """Return the addresses of the filter servers in the routes of the group's topics."""
        addresses: set[str] = set()
        for topic in await self._groups.topics(group):
            if topic.startswith(RETRY_PREFIX):
                continue
            try:
                route = await self._topics.route(topic)
            except NotFoundError:
                continue
            addresses.update(address for servers in route.filter_server_table.values() for address in servers)
        return addresses

    async def _info_of(self, address: str) -> dict[str, str]:
        try:
            return await self._brokers.runtime_info(address)
        except _GONE:
            return {}

    async def _of_members(self, group: str) -> list[FilterFigures]:
        masters = await self._cluster.masters()
        online = await asyncio.gather(*(self._groups.connections(target.address, group) for target in masters))
        places = {
            member.client_id: target.address
            for target, answer in zip(masters, online, strict=True)
            for member in (answer.connection_set if answer is not None else ())
            if member.language == _LANGUAGE
        }
        asked = sorted(places.items())[:MEMBERS_ASKED_MAX]
        found = await asyncio.gather(*(self._properties_of(address, group, client) for client, address in asked))
        pairs = zip(asked, found, strict=True)
        return [one for (client, _), properties in pairs for one in of_member(client, properties)]

    async def _properties_of(self, address: str, group: str, client_id: str) -> dict[str, str]:
        try:
            return (await self._groups.running_info(address, group, client_id)).properties
        except _GONE:
            return {}


def of_broker(name: str, group: str, info: Mapping[str, str]) -> Iterable[FilterFigures]:
    """Find a group's figures in a broker's runtime table: ``filter.TOPIC@GROUP``."""
    for key, text in info.items():
        topic, _, owner = key.removeprefix(_PREFIX).rpartition("@")
        if key.startswith(_PREFIX) and owner == group and (match := _TEXT.fullmatch(text)):
            yield FilterFigures(topic, "broker", name, SQL92, *map(int, match.groups()[1:]))


def of_member(client_id: str, properties: Mapping[str, str]) -> Iterable[FilterFigures]:
    """Find the figures in a member's running info: ``filter.TOPIC``."""
    for key, text in properties.items():
        if key.startswith(_PREFIX) and (match := _TEXT.fullmatch(text)) and match[1]:
            yield FilterFigures(key.removeprefix(_PREFIX), "client", client_id, match[1], *map(int, match.groups()[1:]))


def of_filter_server(address: str, group: str, info: Mapping[str, str]) -> Iterable[FilterFigures]:
    """Find a group's figures in a filter server's runtime table: ``filter.GROUP.TOPIC.FIGURE``.

    If a topic has several filters, ``#NUMBER`` follows the topic.
    """
    head, tail = f"{_PREFIX}{group}.", ".name"
    for key, name in info.items():
        if key.startswith(head) and key.endswith(tail):
            where = key.removesuffix(tail)
            values = [info.get(f"{where}.{figure}", "0") for figure in ("matched", "skipped", "errors", "timeMs")]
            topic = where.removeprefix(head).partition("#")[0]
            if all(map(str.isdecimal, values)):
                yield FilterFigures(topic, "filter-server", address, name, *map(int, values))
