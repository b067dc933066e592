"""Rates of counters between samples, their last values for spark lines, and the rows of each view."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple

from pymq.client.admin.machines import Place, place_of
from pymq.operations.top.broker_tables import EVERY_PART, Part
from pymq.operations.top.sample import BrokerSample, Sample
from pymq.wire.bodies_rows import GroupLag, TopicReaders

HISTORY_LENGTH = 120
Row = dict[str, Any]


class Counter:
    """One counter: its last value, and the rate between the last two."""

    __slots__ = ("at_ms", "per_second", "value")

    def __init__(self, at_ms: int, value: float) -> None:
        self.at_ms = at_ms
        self.value = value
        self.per_second: float | None = None

    def add(self, at_ms: int, value: float) -> None:
        """Take a new value. A counter that went back began again: its rate is that of the new value."""
        if at_ms <= self.at_ms:
            return
        grown = value - self.value if value >= self.value else value
        self.per_second = grown * 1000 / (at_ms - self.at_ms)
        self.at_ms, self.value = at_ms, value


class Figures(NamedTuple):
    """The rate of a topic, of its readers or of a group, None where it is unknown.

    ``at_ms``: when the oldest of the counters came (monotonic ms). ``stored``: messages of a topic, 0 for others.
    """

    per_second: float | None
    at_ms: int
    stored: int = 0


class Rates:
    """Takes samples in turn, and gives rows. A rate is None until there are two samples."""

    def __init__(self, *, keeps_trends: bool = True) -> None:
        """``keeps_trends``: rows have the last rates, for spark lines."""
        self._keeps_trends = keeps_trends
        self._counters: dict[Hashable, Counter] = {}  # of brokers
        self._ends: dict[Hashable, Counter] = {}
        self._places: dict[Hashable, Counter] = {}
        self._trends: dict[Hashable, deque[float]] = {}
        self._workers: dict[str, Place] = {}  # by address: one that does not answer stays what it was
        self._sample = Sample()

    def add(self, sample: Sample, parts: Collection[Part] = EVERY_PART) -> None:
        """Take the next sample, and forget what it no longer has. ``parts``: what is new in the sample."""
        before, self._counters = self._counters, {}
        known = ((one.view.address, place_of(one.view.runtime)) for one in sample.brokers)
        places = {address: place or self._workers.get(address) for address, place in known}
        self._workers = {address: place for address, place in places.items() if place is not None}
        for one in sample.brokers:
            for name, value in (("put", one.put), ("got", one.got), ("log", one.log_end)):
                if value is not None:
                    key: Hashable = (name, one.view.address)
                    self._counters[key] = _counted(before.get(key), one.at_ms, value)
        if Part.ends in parts:
            before, self._ends = self._ends, {}
            for key, topic in sample.topics.items():
                self._ends[key] = _counted(before.get(key), topic.at_ms, topic.end)
        if Part.lags in parts:
            before, self._places = self._places, {}
            # A group that is moved back has not consumed less than nothing.
            for place, group in sample.groups.items():
                key = _group_key(place, group.row)
                self._places[key] = _counted(before.get(key), group.at_ms, group.row.committed, can_fall=True)
            for place, readers in sample.readers.items():
                key = _readers_key(place, readers.row)
                self._places[key] = _counted(before.get(key), readers.at_ms, readers.row.committed, can_fall=True)
        self._sample = sample
        if self._keeps_trends:
            self._remember()

    def _remember(self) -> None:
        trends: dict[Hashable, deque[float]] = {}
        rows = (("cluster", self.brokers()), ("topics", self.topics(everything=True)), ("groups", self.groups()))
        for view, found in rows:
            for row in found:
                key = (view, row["key"])
                trend = self._trends.get(key) or deque(maxlen=HISTORY_LENGTH)
                value = row["out"] if view == "groups" else row["in"]
                if value is not None:
                    trend.append(value)
                trends[key] = trend
        self._trends = trends

    def totals(self) -> Row:
        """Return what all masters take in and give out a second, and the clusters' names."""
        masters = [one for one in self._sample.brokers if one.view.is_master]
        return {
            "clusters": sorted({one.view.cluster for one in self._sample.brokers}),
            "brokers": len(self._sample.brokers),
            "silent": sum(bool(one.error) for one in self._sample.brokers),
            "in": _rate(self._counters, (("put", one.view.address) for one in masters)),
            "out": _rate(self._counters, (("got", one.view.address) for one in self._sample.brokers)),
        }

    def brokers(self) -> list[Row]:
        """Return a row per broker."""
        return [self._broker_row(one) for one in self._sample.brokers]

    def _broker_row(self, one: BrokerSample) -> Row:
        view, place = one.view, self._workers.get(one.view.address)
        return {
            "key": view.address,
            "name": view.name if view.is_master else f"{view.name}:{view.broker_id}",
            "cluster": view.cluster,
            "role": "master" if view.is_master else "slave",
            "address": view.address,
            "machine": place.machine if place else None,
            "worker": place.number if place else None,
            "version": view.runtime.get("pymqVersion") or view.version,
            "in": _rate(self._counters, [("put", view.address)]),
            "out": _rate(self._counters, [("got", view.address)]),
            "log_bytes": _rate(self._counters, [("log", view.address)]),
            "disk": None if one.disk is None or one.disk < 0 else one.disk * 100,
            "lag": self._slave_lag(one),
            "error": one.error,
            "trend": list(self._trends.get(("cluster", view.address), ())),
        }

    def _slave_lag(self, one: BrokerSample) -> float | None:
        """Return how many bytes of its master's log a slave lacks; None for a master, or when it is not known."""
        if one.view.is_master or one.log_end is None:
            return None
        ends = [
            other.log_end
            for other in self._sample.brokers
            if other.view.is_master and other.view.name == one.view.name and other.log_end is not None
        ]
        return max(0.0, ends[0] - one.log_end) if ends else None

    def topic_figures(self) -> dict[str, Figures]:
        """Return the rates of all topics by name: what is sent to them."""
        return _figures(
            (topic, self._ends.get((topic, broker)), one.at_ms, one.stored)
            for (topic, broker), one in self._sample.topics.items()
        )

    def reader_figures(self) -> dict[str, Figures]:
        """Return the rates of the readers of each topic by the topic's name: what they commit."""
        return _figures(
            (place[0], self._places.get(_readers_key(place, one.row)), one.at_ms, 0)
            for place, one in self._sample.readers.items()
        )

    def topics(self, *, everything: bool = False) -> list[Row]:
        """Return a row per topic, of system topics only with ``everything``."""
        names = {topic for topic, _ in self._sample.topics}
        shown = sorted(names if everything else names - self._sample.system_topics)
        parts: dict[str, list[tuple[str, str]]] = {}
        for key in self._sample.topics:
            parts.setdefault(key[0], []).append(key)
        return [self._topic_row(name, parts[name]) for name in shown]

    def _topic_row(self, name: str, parts: list[tuple[str, str]]) -> Row:
        found = {key: self._sample.readers[key].row for key in parts if key in self._sample.readers}
        readers = reduce(TopicReaders.plus, found.values()) if found else TopicReaders()
        return {
            "key": name,
            "name": name,
            "brokers": len(parts),
            "messages": sum(self._sample.topics[key].stored for key in parts),
            "in": _rate(self._ends, parts),
            "out": _rate(self._places, (_readers_key(key, row) for key, row in found.items())),
            "groups": readers.groups,
            "lag": readers.known_lag,
            "trend": list(self._trends.get(("topics", name), ())),
        }

    def groups(self) -> list[Row]:
        """Return a row per consumer group."""
        parts: dict[str, list[tuple[str, str]]] = {}
        for key in self._sample.groups:
            parts.setdefault(key[0], []).append(key)
        return [self._group_row(name, parts[name]) for name in sorted(parts)]

    def _group_row(self, name: str, parts: list[tuple[str, str]]) -> Row:
        found = {key: self._sample.groups[key] for key in parts}
        total = reduce(GroupLag.plus, (one.row for one in found.values()))
        ages = [one.age_ms for one in found.values()]
        return {
            "key": name,
            "name": name,
            "members": self._sample.members.get(name),
            "topics": total.topics,
            "out": _rate(self._places, (_group_key(key, one.row) for key, one in found.items())),
            "lag": total.known_lag,
            "behind_ms": None if None in ages else max(age for age in ages if age is not None),
            "trend": list(self._trends.get(("groups", name), ())),
        }


def _counted(counter: Counter | None, at_ms: int, value: float, *, can_fall: bool = False) -> Counter:
    """Return a counter with its next value."""
    if counter is None:
        return Counter(at_ms, value)
    if can_fall and value < counter.value:
        counter.at_ms, counter.value, counter.per_second = at_ms, value, 0.0
    else:
        counter.add(at_ms, value)
    return counter


def _rate(counters: Mapping[Hashable, Counter], keys: Iterable[Hashable]) -> float | None:
    """Return the sum of the known rates of these counters, None when none is known."""
    known = [
        counter.per_second
        for key in keys
        if (counter := counters.get(key)) is not None and counter.per_second is not None
    ]
    return sum(known) if known else None


def _figures(parts: Iterable[tuple[str, Counter | None, int, int]]) -> dict[str, Figures]:
    """Return the sums by name of the parts (name, counter, time, stored messages)."""
    found: dict[str, Figures] = {}
    for name, counter, at_ms, stored in parts:
        one = Figures(None if counter is None else counter.per_second, at_ms, stored)
        known = found.get(name)
        found[name] = one if known is None else _sum(known, one)
    return found


def _sum(one: Figures, other: Figures) -> Figures:
    rates = [rate for rate in (one.per_second, other.per_second) if rate is not None]
    return Figures(sum(rates) if rates else None, min(one.at_ms, other.at_ms), one.stored + other.stored)


def _group_key(place: tuple[str, str], row: GroupLag) -> Hashable:
    """Return the key of a group's counter on one broker. A topic or offset that is new begins another counter: its
    offset was not consumed between two samples."""
    return "group", *place, row.topics, row.offsets


def _readers_key(place: tuple[str, str], row: TopicReaders) -> Hashable:
    """Return the key of the counter of a topic's groups on one broker, likewise."""
    return "readers", *place, row.groups, row.offsets
