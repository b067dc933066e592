"""What is measured of a whole cluster: one collection of the answers of its name servers and brokers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from pymq.client.admin import Admin
from pymq.client.admin.asking import for_each
from pymq.client.admin.groups import LAGS_AT_ONCE
from pymq.client.admin.rows import Rows
from pymq.clock import Clock
from pymq.errors import PymqError, UsageError
from pymq.model.names import is_system_group
from pymq.operations.asking.retried import Retried
from pymq.operations.replica_view import BrokerView, ask, brokers
from pymq.operations.sums import age_ms
from pymq.units import parse_size_bytes
from pymq.wire.bodies_admin import ConsumerConnections, ConsumerRunningInfo, ProducerInfo, StatsData

MEMBERS_ASKED_MAX = 64  # of a group; each answers through its broker
_CAPACITY = re.compile(r"Total : (.+?), Free : (.+?)\.?")

T = TypeVar("T")
R = TypeVar("R")


class Place(NamedTuple):
    """A group's place in a topic on one broker, summed over its queues.

    ``age_ms``: the age of the last consumed message in queues with further ones, 0 without such.
    """

    end: int
    committed: int
    pulled: int
    age_ms: int


@dataclass(slots=True)
class BrokerFacts:
    """One broker. What it did not answer is empty or None; ``view.error`` says why if it answered nothing."""

    view: BrokerView
    asked_at_ms: int  # Unix ms
    permission: int | None = None
    topic_count: int | None = None
    group_count: int | None = None
    producers: dict[str, list[ProducerInfo]] = field(default_factory=dict)
    consumers: dict[str, ConsumerConnections] = field(default_factory=dict)
    members: dict[tuple[str, str], tuple[str, ConsumerRunningInfo]] = field(default_factory=dict)  # (group, client id)
    ends: dict[str, int] = field(default_factory=dict)  # topic -> sum of its queues' ends
    places: dict[tuple[str, str], Place] = field(default_factory=dict)  # (group, topic)
    stats: dict[tuple[str, str], StatsData] = field(default_factory=dict)  # (name, key), as in VIEW_BROKER_STATS_DATA

    def figure(self, key: str, index: int = 0) -> float | None:
        """Return the number at ``index`` of a key of the runtime table, None when there is none."""
        parts = self.view.runtime.get(key, "").split(" ")
        try:
            return float(parts[index])
        except (ValueError, IndexError):
            return None

    def size(self, key: str) -> float | None:
        """Return the bytes of a text such as ``1.3 KiB``, None when there is none."""
        return _size(self.view.runtime.get(key, ""))

    def capacity(self) -> tuple[float | None, float | None]:
        """Return the size of the disk with the log and its free bytes, to a tenth of the unit that is reported."""
        match = _CAPACITY.fullmatch(self.view.runtime.get("commitLogDirCapacity", ""))
        return (_size(match[1]), _size(match[2])) if match else (None, None)


@dataclass(slots=True)
class Facts:
    """One collection. ``at_ms``: Unix ms at its end; ``error``: why there is nothing new."""

    brokers: list[BrokerFacts] = field(default_factory=list)
    topic_names: int | None = None
    at_ms: int = 0
    took_ms: int = 0
    failures: int = 0
    error: str = "nothing is collected yet"


class FactsCollector:
    """Asks a cluster.

    ``with_stats``: also for RocketMQ's statistics, up to three requests per group and topic, and for members' reports.
    """

    def __init__(self, admin: Admin, clock: Clock, *, with_stats: bool) -> None:
        self._admin = admin
        self._clock = clock
        self._with_stats = with_stats
        self._failures = 0
        self._retried = Retried(admin.unreached, clock)

    async def collect(self) -> Facts:
        """Return new facts; brokers that don't answer are in them with their errors."""
        begun_ms = self._clock.monotonic_ms()
        self._retried.forget_old()
        facts = Facts()
        try:
            views = await ask(self._admin, await brokers(self._admin))
            facts.topic_names = len(await self._admin.topics.names())
            facts.error = ""
        except PymqError as error:
            self._failures += 1
            facts.error = str(error)
            views = []
        facts.brokers = [BrokerFacts(view, self._clock.now_ms()) for view in views]
        for broker in facts.brokers:
            if broker.view.status is not None:
                await self._fill(broker)
            else:
                self._failures += 1
        facts.at_ms, facts.took_ms = self._clock.now_ms(), self._clock.monotonic_ms() - begun_ms
        facts.failures = self._failures
        return facts

    async def _fill(self, broker: BrokerFacts) -> None:
        address, admin = broker.view.address, self._admin
        config = await self._or_none(admin.brokers.config(address))
        with suppress(ValueError):
            broker.permission = int((config or {}).get("brokerPermission", ""))
        broker.producers = await self._or_none(admin.brokers.producers(address)) or {}
        if not broker.view.is_master:
            return
        topics = await self._or_none(admin.topics.configs(address)) or {}
        groups = await self._or_none(admin.groups.configs(address)) or {}
        broker.topic_count, broker.group_count = len(topics), len(groups)
        await for_each(sorted(groups), lambda group: self._places(broker, group), LAGS_AT_ONCE)
        ends = await self._or_none(admin.topics.ends_at(address))
        broker.ends = {topic: row.end for topic, row in (ends or Rows()).items()}
        names = [name for name in sorted(groups) if not is_system_group(name)]
        await for_each(names, lambda name: self._members(broker, name))
        if self._with_stats:
            await self._statistics(broker)

    async def _places(self, broker: BrokerFacts, group: str) -> None:
        lags = await self._or_none(self._admin.groups.topic_lags_at(broker.view.address, group, with_times=True))
        now_ms = self._clock.now_ms()
        for topic, lag in (lags or {}).items():
            committed = lag.committed or 0
            pulled = committed if lag.pulled is None else lag.pulled
            place = Place(committed + lag.lag, committed, pulled, age_ms(lag, now_ms))
            broker.places[group, topic] = place

    async def _members(self, broker: BrokerFacts, group: str) -> None:
        found = await self._or_none(self._admin.groups.connections(broker.view.address, group))
        if found is None:
            return
        broker.consumers[group] = found
        for member in found.connection_set[:MEMBERS_ASKED_MAX] if self._with_stats else ():
            report = await self._or_none(self._admin.groups.running_info(broker.view.address, group, member.client_id))
            if report is not None:
                broker.members[group, member.client_id] = (member.client_addr, report)

    async def _statistics(self, broker: BrokerFacts) -> None:
        """Ask for each kind of statistics, PyMQ's brokers for all keys at once, others for each key."""
        for name, keys in _statistics(broker):
            found = await self._or_none(self._admin.brokers.all_stats(broker.view.address, name))
            if found is None:
                await for_each(sorted(keys), partial(self._statistic, broker, name))
            else:
                broker.stats |= {(name, key): found[key] for key in keys & found.keys()}

    async def _statistic(self, broker: BrokerFacts, name: str, key: str) -> None:
        found = await self._or_none(self._admin.brokers.stats(broker.view.address, name, key))
        if found is not None:
            broker.stats[name, key] = found

    async def _or_none(self, work: Awaitable[R]) -> R | None:
        try:
            return await work
        except PymqError:
            self._failures += 1
            return None


def _statistics(broker: BrokerFacts) -> Iterator[tuple[str, set[str]]]:
    """Yield each statistic that the old exporter asks a broker for, and its keys."""
    places = {f"{topic}@{group}" for group, topic in broker.places}
    yield from ((name, {broker.view.cluster}) for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS"))
    yield from ((name, set(broker.ends)) for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"))
    yield from ((name, places) for name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS"))


def _size(text: str) -> float | None:
    try:
        return parse_size_bytes(text)
    except UsageError:
        return None
