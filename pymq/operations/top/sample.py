"""Samples of a cluster's counters: totals of each broker, and rows of the topics and groups of each master."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple, TypeVar

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.rows import Rows, added_up
from pymq.clock import Clock
from pymq.errors import RefusedError
from pymq.operations.asking.deadline import within
from pymq.operations.asking.failing import or_none
from pymq.operations.asking.retried import Retried
from pymq.operations.asking.single_flight import SingleFlight
from pymq.operations.replica_view import BrokerView, brokers, registered
from pymq.operations.top.broker_tables import (
    EVERY_PART,
    LISTED_EVERY_MS,
    REQUESTS_MAX,
    TIMED_EVERY_MS,
    BrokerTables,
    Dated,
    Part,
)
from pymq.wire.bodies_rows import GroupLag, GroupMembers, TopicEnds, TopicReaders

ANSWER_TIME_MAX_S = 2.0  # a broker that takes longer is shown as silent, and does not hold the others up

RowT = TypeVar("RowT")


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
    """A group on one broker. ``age_ms``: how old the last message is that it consumed before others; 0 when it has
    all, None where it is unknown."""

    at_ms: int
    row: GroupLag
    age_ms: int | None


class ReaderSample(NamedTuple):
    """The groups that read a topic, together, on one broker."""

    at_ms: int
    row: TopicReaders


@dataclass(slots=True)
class Sample:
    """The newest known counters.

    ``topics`` and ``readers``: by (topic, broker); ``groups``: by (group, broker); ``members``: group -> their number,
    None where it is unknown.
    """

    brokers: list[BrokerSample] = field(default_factory=list)
    topics: dict[tuple[str, str], TopicSample] = field(default_factory=dict)
    readers: dict[tuple[str, str], ReaderSample] = field(default_factory=dict)
    groups: dict[tuple[str, str], GroupSample] = field(default_factory=dict)
    members: dict[str, int | None] = field(default_factory=dict)
    system_topics: frozenset[str] = frozenset()


class Sampler:
    """Takes samples. Times are monotonic ms of ``clock``."""

    def __init__(
        self,
        admin: Admin,
        clock: Clock,
        *,
        requests_max: int = REQUESTS_MAX,
        timed_every_ms: int = TIMED_EVERY_MS,
        answer_time_max_s: float = ANSWER_TIME_MAX_S,
        counts_names: bool = True,
        broker: str | None = None,
    ) -> None:
        """``broker``: only what this name stands for, as all workers of a machine.

        ``timed_every_ms``: from one group that is behind in too many queues for a row to the next one.

        ``counts_names``: on several masters, the topics of groups, the groups of topics and members are counted.

        Without it the answers are shorter, and these numbers unknown.
        """
        self.refusals: dict[str, RefusedError] = {}  # by broker or address, of the last sample
        self._admin = admin
        self._clock = clock
        self._requests_max = requests_max
        self._timed_every_ms = timed_every_ms
        self._counts_names = counts_names
        self._answer_time_max_s = answer_time_max_s
        self._tables: dict[str, BrokerTables] = {}  # by broker
        self._system: frozenset[str] = frozenset()
        self._system_at_ms: int | None = None
        self._broker_name = broker
        self._meant: frozenset[str] = frozenset()  # what the name stands for
        self._meant_at_ms: int | None = None
        self._retried = Retried(admin.unreached, clock)
        self._flight: SingleFlight[Sample] = SingleFlight()

    async def sample(self, parts: Collection[Part] = EVERY_PART, by_topic: Sequence[str] = ()) -> Sample:
        """Return a new sample; what a broker did not answer is as before. Two callers at once get the same one.

        What is not in ``parts`` is as before, too. ``by_topic``: the groups whose rows have lags by topic. Raises
        UnreachableError when no name server answers, NotFoundError when the name of a broker stands for none.
        """
        wanted = frozenset(parts)
        return await self._flight.ask((wanted, *by_topic), lambda: self._take(wanted, by_topic))

    def rounds(self, part: Part) -> int:
        """Return how many samples it takes until each row of a part is new."""
        return max((tables.rounds(part) for tables in self._tables.values()), default=1)

    def ends(self) -> tuple[int, dict[str, Mapping[str, TopicEnds]]] | None:
        """Return the newest ends of topics by broker, and when the oldest of them came; None while one has none."""
        return _oldest_of({name: tables.topics for name, tables in self._tables.items()})

    def lags(self) -> tuple[int, Rows[GroupLag]] | None:
        """Return how far groups are behind on all masters, without system groups, and when the oldest row came.

        None while a master has none.
        """
        found = _oldest_of({name: tables.groups for name, tables in self._tables.items()})
        if found is None:
            return None
        at_ms, tables = found
        sums = added_up(
            Rows((group, row) for group, row in rows.items() if row.topics != 0 or row.lag or row.committed)
            for rows in tables.values()
        )
        sums.withheld = not all(broker.groups.is_whole for broker in self._tables.values())
        return at_ms, sums

    async def _take(self, parts: frozenset[Part], by_topic: Sequence[str]) -> Sample:
        self._retried.forget_old()
        self.refusals = {}
        found = Sample(brokers=await self._brokers(await self._views()))
        masters = [one for one in found.brokers if one.view.is_master]
        await asyncio.gather(self._ask_for_system_topics(parts), self._refresh(masters, parts, by_topic))
        found.system_topics = self._system
        self._fill(found)
        return found

    async def _views(self) -> list[BrokerView]:
        """Return the registered brokers that are wanted."""
        if self._broker_name is None:
            return await brokers(self._admin)
        now_ms = self._clock.monotonic_ms()
        if self._meant_at_ms is None or now_ms - self._meant_at_ms >= LISTED_EVERY_MS:
            found = await registered(self._admin, self._broker_name)
            self._meant, self._meant_at_ms = frozenset(view.name for view in found), now_ms
            return found
        return [view for view in await brokers(self._admin) if view.name in self._meant]

    async def _ask_for_system_topics(self, parts: Collection[Part]) -> None:
        if Part.ends not in parts:
            return
        now_ms = self._clock.monotonic_ms()
        if self._system_at_ms is None or now_ms - self._system_at_ms >= LISTED_EVERY_MS:
            self._system_at_ms = now_ms
            self._system = frozenset(await or_none(self._admin.topics.system_names()) or ())

    async def _refresh(self, masters: Sequence[BrokerSample], parts: frozenset[Part], by_topic: Sequence[str]) -> None:
        """Ask the masters that answer for their rows."""
        targets = {one.view.name: BrokerTarget(one.view.name, one.view.cluster, one.view.address) for one in masters}
        self._tables = {
            name: self._tables.get(name)
            or BrokerTables(self._admin, self._clock, self._requests_max, self._timed_every_ms)
            for name in targets
        }
        answering = [one.view.name for one in masters if not one.error]
        with_names = self._counts_names and len(targets) > 1
        await asyncio.gather(
            *(
                self._tables[name].refresh(targets[name], with_names=with_names, parts=parts, by_topic=by_topic)
                for name in answering
            )
        )
        for name in answering:
            refusal = self._tables[name].refusal
            if refusal is not None:
                self.refusals[name] = refusal

    def _fill(self, found: Sample) -> None:
        wall_ms = self._clock.now_ms()
        for broker, tables in self._tables.items():
            for topic, ends in tables.topics.items():
                found.topics[topic, broker] = TopicSample(tables.topics.at_ms[topic], ends.end, ends.stored)
            for topic, readers in tables.readers.items():
                found.readers[topic, broker] = ReaderSample(tables.readers.at_ms[topic], readers)
            for group, row in tables.groups.items():
                if row.topics != 0 or row.lag or row.committed:
                    consumed_ms = tables.consumed_ms(group)
                    age_ms = max(0, wall_ms - consumed_ms) if consumed_ms else consumed_ms
                    found.groups[group, broker] = GroupSample(tables.groups.at_ms[group], row, age_ms)
        for group in {group for group, _ in found.groups}:
            online = [tables.members_of(group) for tables in self._tables.values()]
            found.members[group] = reduce(GroupMembers.plus, online).members

    async def _brokers(self, views: Sequence[BrokerView]) -> list[BrokerSample]:
        """Return a sample of each broker; a slow one does not hold the others up."""
        answers = await within(self._answer_time_max_s, {at: self._broker(view) for at, view in enumerate(views)})
        now_ms = self._clock.monotonic_ms()
        return [
            answers.came.get(at) or BrokerSample(view, now_ms, error=answers.missing[at])
            for at, view in enumerate(views)
        ]

    async def _broker(self, view: BrokerView) -> BrokerSample:
        try:
            table = await self._admin.brokers.runtime_info(view.address)
        except RefusedError as error:
            self.refusals[view.address] = error
            raise
        view.runtime = table
        put, got, log_end, disk = (
            _number(table.get(key))
            for key in ("msgPutTotalTodayNow", "msgGetTotalTodayNow", "commitLogMaxOffset", "commitLogDiskRatio")
        )
        return BrokerSample(view, self._clock.monotonic_ms(), put, got, log_end, disk)


def _oldest_of(tables: Mapping[str, Dated[RowT]]) -> tuple[int, dict[str, Mapping[str, RowT]]] | None:
    """Return copies of tables, and the time of the oldest row; None when one is empty, as before its first answer."""
    if not tables or not all(tables.values()):
        return None
    at_ms = min(min(rows.at_ms.values()) for rows in tables.values())
    return at_ms, {name: dict(rows) for name, rows in tables.items()}


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
