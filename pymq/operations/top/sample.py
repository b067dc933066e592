"""Samples of a cluster's counters, through requests that every RocketMQ broker answers.

A broker's totals take a request; the ends of a topic's queues, a group's places and its members take one for each topic
or group. Of these, a sample asks for a bounded number in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeVar

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.groups import LAGS_AT_ONCE
from pymq.clock import Clock
from pymq.model.names import RETRY_PREFIX, is_system_group
from pymq.operations.asking.batches import for_each, or_none
from pymq.operations.asking.deadline import within
from pymq.operations.asking.retried import Retried
from pymq.operations.asking.single_flight import SingleFlight
from pymq.operations.replica_view import BrokerView, brokers
from pymq.operations.sums import age_ms, held_messages, online_members
from pymq.wire.bodies_admin import TopicLag

REQUESTS_MAX = 400  # for topics, and as many for places and for members, of one sample
PLACES_TIME_MAX_MS = 400  # how long a sample asks for places; the first asks for all that it may
ANSWER_TIME_MAX_S = 2.0  # a broker that takes longer is shown as silent, and does not hold the others up
LISTED_EVERY_MS = 10_000  # the names of topics and groups: long answers

T = TypeVar("T")


class BrokerSample(NamedTuple):
    """One broker's totals since its start; None for what it doesn't report. ``error``: why it did not answer."""

    view: BrokerView
    at_ms: int
    put: float | None = None
    got: float | None = None
    log_end: float | None = None
    disk: float | None = None
    error: str = ""


class TopicSample(NamedTuple):
    """A topic on one broker: the sum of its queues' ends, and how many messages they hold."""

    at_ms: int
    end: int
    stored: int


class GroupSample(NamedTuple):
    """A group's place in a topic on one broker. ``age_ms``: how old the last message is that it consumed before others;
    0 when it has all."""

    at_ms: int
    committed: int
    lag: int
    age_ms: int


@dataclass(slots=True)
class Sample:
    """The newest known counters.

    ``topics``: (topic, broker) -> its sample; ``groups``: (group, topic, broker) -> its place; ``members``: group ->
    their number.
    """

    brokers: list[BrokerSample] = field(default_factory=list)
    topics: dict[tuple[str, str], TopicSample] = field(default_factory=dict)
    groups: dict[tuple[str, str, str], GroupSample] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    system_topics: frozenset[str] = frozenset()


class Sampler:
    """Takes samples. Times are monotonic ms of ``clock``."""

    def __init__(
        self,
        admin: Admin,
        clock: Clock,
        *,
        requests_max: int = REQUESTS_MAX,
        answer_time_max_s: float = ANSWER_TIME_MAX_S,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._requests_max = requests_max
        self._answer_time_max_s = answer_time_max_s
        self._listed_at_ms: int | None = None
        self._listed: list[tuple[str, BrokerTarget]] = []
        self._listed_groups: list[tuple[str, BrokerTarget]] = []
        self._system: frozenset[str] = frozenset()
        self._topic_turn = 0
        self._place_turn = 0
        self._member_turn = 0
        self._last = Sample()
        self._retried = Retried(admin.unreached, clock)
        self._flight: SingleFlight[Sample] = SingleFlight()

    async def sample(self) -> Sample:
        """Return a new sample; topics and members that had no turn are as before. Two callers at once get the same one.

        Raises UnreachableError when no name server answers.
        """
        return await self._flight.ask("sample", self._take)

    async def _take(self) -> Sample:
        self._retried.forget_old()
        found = Sample(brokers=await self._brokers(await brokers(self._admin)))
        masters = [
            BrokerTarget(one.view.name, one.view.cluster, one.view.address)
            for one in found.brokers
            if one.view.is_master and not one.error
        ]
        await self._list(masters)
        found.system_topics = self._system
        await asyncio.gather(self._add_topics(found), self._add_groups(found, masters))
        self._last = found
        return found

    async def _brokers(self, views: Sequence[BrokerView]) -> list[BrokerSample]:
        """Return a sample of each broker; a slow one does not hold the others up."""
        answers = await within(self._answer_time_max_s, {at: self._broker(view) for at, view in enumerate(views)})
        now_ms = self._clock.monotonic_ms()
        return [
            answers.came.get(at) or BrokerSample(view, now_ms, error=answers.missing[at])
            for at, view in enumerate(views)
        ]

    async def _broker(self, view: BrokerView) -> BrokerSample:
        table = await self._admin.brokers.runtime_info(view.address)
        view.runtime = table
        put, got, log_end, disk = (
            _number(table.get(key))
            for key in ("msgPutTotalTodayNow", "msgGetTotalTodayNow", "commitLogMaxOffset", "commitLogDiskRatio")
        )
        return BrokerSample(view, self._clock.monotonic_ms(), put, got, log_end, disk)

    async def _list(self, masters: Sequence[BrokerTarget]) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._listed_at_ms is not None and now_ms - self._listed_at_ms < LISTED_EVERY_MS and self._listed:
            return
        self._listed_at_ms = now_ms
        tables = await asyncio.gather(
            *(or_none(self._admin.topics.configs(target.address)) for target in masters),
        )
        groups = await asyncio.gather(
            *(or_none(self._admin.groups.configs(target.address)) for target in masters),
        )
        self._listed = sorted(
            (topic, target) for target, table in zip(masters, tables, strict=True) for topic in table or ()
        )
        self._listed_groups = sorted(
            (group, target)
            for target, found in zip(masters, groups, strict=True)
            for group in found or ()
            if not is_system_group(group)
        )
        self._system = frozenset(await or_none(self._admin.topics.system_names()) or ())

    async def _add_topics(self, found: Sample) -> None:
        known = {(topic, target.name) for topic, target in self._listed}
        found.topics = {key: one for key, one in self._last.topics.items() if key in known}
        turn, self._topic_turn = _turn(self._listed, self._topic_turn, self._requests_max)
        answering = {one.view.name for one in found.brokers if not one.error}

        async def ask(item: tuple[str, BrokerTarget]) -> None:
            topic, target = item
            if target.name not in answering:
                return
            stats = await or_none(self._admin.topics.stats(topic, [target]))
            if stats is not None:
                found.topics[topic, target.name] = TopicSample(
                    self._clock.monotonic_ms(),
                    sum(at.max_offset for at in stats.values()),
                    held_messages(stats.values()),
                )

        await for_each(turn, ask)

    async def _add_groups(self, found: Sample, masters: Sequence[BrokerTarget]) -> None:
        await self._add_places(found)
        names = sorted({group for group, _, _ in found.groups})
        found.members = {name: self._last.members[name] for name in names if name in self._last.members}
        turn, self._member_turn = _turn(names, self._member_turn, max(1, self._requests_max // max(len(masters), 1)))

        async def count(group: str) -> None:
            online = [await or_none(self._admin.groups.connections(target.address, group)) for target in masters]
            found.members[group] = len(online_members(online))

        await for_each(turn, count)

    async def _add_places(self, found: Sample) -> None:
        """Ask for the places of the next groups in turn; the others keep theirs."""
        answering = {one.view.name for one in found.brokers if not one.error}
        known = {(group, target.name) for group, target in self._listed_groups if target.name in answering}
        answered: dict[tuple[str, str], dict[str, TopicLag]] = {}
        begun_ms = self._clock.monotonic_ms()

        async def ask(item: tuple[str, BrokerTarget]) -> None:
            group, target = item
            if target.name in answering:
                lags = await or_none(self._admin.groups.topic_lags_at(target.address, group, with_times=True))
                if lags is not None:
                    answered[group, target.name] = lags

        turn, self._place_turn = _turn(self._listed_groups, self._place_turn, self._requests_max)
        asked = 0
        while asked < len(turn):
            await asyncio.gather(*map(ask, turn[asked : asked + LAGS_AT_ONCE]))
            asked += LAGS_AT_ONCE
            if self._last.groups and self._clock.monotonic_ms() - begun_ms > PLACES_TIME_MAX_MS:
                self._place_turn -= max(0, len(turn) - asked)
                break
        found.groups = {
            place: at
            for place, at in self._last.groups.items()
            if (place[0], place[2]) in known and (place[0], place[2]) not in answered
        }
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        for (group, broker), lags in answered.items():
            for topic, lag in lags.items():
                if topic.startswith(RETRY_PREFIX) and not (lag.lag or lag.committed):
                    continue  # every group has such a topic, most of them unused
                place = GroupSample(now_ms, lag.committed or 0, lag.lag, age_ms(lag, wall_ms))
                found.groups[group, topic, broker] = place


def _turn(items: Sequence[T], begin: int, count_max: int) -> tuple[list[T], int]:
    """Return the next items in turn, and where to go on."""
    if not items:
        return [], 0
    begin %= len(items)
    chosen = list(islice([*items[begin:], *items[:begin]], count_max))
    return chosen, begin + len(chosen)


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
