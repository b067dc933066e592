"""BrokerTables: the counters of topics and groups of one master, from one sample to the next.

PyMQ's brokers give all rows with a few requests. Other brokers take one for each topic or group: of these, a sample
asks for a bounded number in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.asking import for_each
from pymq.client.admin.groups import LAGS_AT_ONCE
from pymq.client.admin.rows import Rows
from pymq.clock import Clock
from pymq.errors import PymqError, RefusedError
from pymq.model.names import is_system_group
from pymq.operations.asking.failing import or_none
from pymq.operations.group.lag import topic_records
from pymq.wire.bodies_admin import TopicLag
from pymq.wire.bodies_rows import (
    GroupLag,
    GroupMembers,
    TopicEnds,
    TopicReaders,
    group_lag,
    group_members,
    topic_ends,
    topic_readers,
)

LISTED_EVERY_MS = 10_000  # the names of topics and groups: long answers
REQUESTS_MAX = 400  # for topics, and as many for places and for members, of one sample
PLACES_TIME_MAX_MS = 400  # how long a sample asks for places; the first asks for all that it may
TIMED_EVERY_MS = 10_000  # a group that is behind in too many queues for a row: the answer may cost a broker 0.4 s

RowT = TypeVar("RowT")


class Part(StrEnum):
    """What a sample may ask masters for, beside the totals of brokers."""

    ends = "ends"  # of topics
    lags = "lags"  # of groups, and of the readers of topics
    members = "members"  # of groups


EVERY_PART: Final = frozenset(Part)


class Dated(dict[str, RowT]):
    """Rows by name. ``at_ms``: when they came, by name; monotonic. ``is_whole``: what has no row is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ms: dict[str, int] = {}
        self.is_whole = False

    def put(self, name: str, row: RowT, at_ms: int) -> None:
        """Keep a newer row."""
        self[name] = row
        self.at_ms[name] = at_ms

    def replace(self, rows: dict[str, RowT], at_ms: int) -> None:
        """Keep these rows only."""
        self.clear()
        self.update(rows)
        self.at_ms = dict.fromkeys(rows, at_ms)

    def keep(self, names: Sequence[str]) -> None:
        """Drop the rows of other names."""
        for name in self.keys() - set(names):
            del self[name], self.at_ms[name]


class BrokerTables:
    """The newest known rows of one master."""

    def __init__(
        self, admin: Admin, clock: Clock, requests_max: int = REQUESTS_MAX, timed_every_ms: int = TIMED_EVERY_MS
    ) -> None:
        """``requests_max``: for topics, groups or members, of one sample of a broker that is not PyMQ's.

        ``timed_every_ms``: from one group that is behind in too many queues for a row to the next one.
        """
        self.topics: Dated[TopicEnds] = Dated()
        self.groups: Dated[GroupLag] = Dated()
        self.readers: Dated[TopicReaders] = Dated()
        self.members: Dated[GroupMembers] = Dated()
        self.refusal: RefusedError | None = None  # of the last refresh
        self._admin = admin
        self._clock = clock
        self._target = BrokerTarget("", "", "")
        self._by_topic: Sequence[str] = ()
        self._requests_max = requests_max
        self._timed_every_ms = timed_every_ms
        self._gives_rows = True  # until it says otherwise
        self._asked_for_rows_ms: int | None = None
        self._listed_at_ms: int | None = None
        self._topic_names: list[str] = []
        self._group_names: list[str] = []
        self._lags: dict[str, dict[str, TopicLag]] = {}
        self._timed_at_ms: int | None = None
        self._consumed_ms: dict[str, int] = {}  # of groups that are behind in too many queues for a row
        self._topic_turn, self._place_turn, self._member_turn, self._time_turn = _Turn(), _Turn(), _Turn(), _Turn()

    async def refresh(
        self,
        target: BrokerTarget,
        *,
        with_names: bool,
        parts: Collection[Part] = EVERY_PART,
        by_topic: Sequence[str] = (),
    ) -> None:
        """Ask the master. What it does not answer stays as it was.

        ``with_names``: names that rows count are wanted, because rows of other masters are added. ``by_topic``: the
        groups whose rows have lags by topic.
        """
        self._target = target
        self._by_topic = by_topic
        self.refusal = None
        if not parts:
            return
        now_ms = self._clock.monotonic_ms()
        if self._gives_rows or self._asked_for_rows_ms is None or now_ms - self._asked_for_rows_ms >= LISTED_EVERY_MS:
            self._asked_for_rows_ms = now_ms
            self._gives_rows = await self._ask_for_rows(parts, with_names=with_names)
        if not self._gives_rows:
            await self._list()
            questions = {
                Part.ends: self._ask_for_topics,
                Part.lags: self._ask_for_places,
                Part.members: self._ask_for_members,
            }
            await asyncio.gather(*(questions[part]() for part in parts))

    def rounds(self, part: Part) -> int:
        """Return how many samples it takes until each row of a part is new: 1 for a broker that gives rows."""
        if self._gives_rows:
            return 1
        turn, names = {
            Part.ends: (self._topic_turn, self._topic_names),
            Part.lags: (self._place_turn, self._group_names),
            Part.members: (self._member_turn, self._group_names),
        }[part]
        return turn.rounds(len(names))

    # -- PyMQ's brokers ------------------------------------------------------------------------------------------

    async def _ask_for_rows(self, parts: Collection[Part], *, with_names: bool) -> bool:
        """Return False for a broker that has no rows to give."""
        rows, address = self._admin.rows, self._target.address
        questions: list[Coroutine[Any, Any, bool]] = []
        if Part.ends in parts:
            questions.append(self._take(lambda: rows.ends(address), self.topics))
        if Part.lags in parts:
            ask = partial(rows.lags_and_readers, address, with_names=with_names, with_times=True)
            questions.append(self._take_both(partial(ask, by_topic=self._by_topic)))
        if Part.members in parts:
            questions.append(self._take(lambda: rows.members(address, with_names=with_names), self.members))
        if not all(await asyncio.gather(*questions)):
            return False
        if Part.lags not in parts:
            return True
        for group in [name for name in self.groups if is_system_group(name)]:
            del self.groups[group], self.groups.at_ms[group]
        await self._ask_for_times()
        return True

    async def _take(self, ask: Callable[[], Awaitable[Rows[RowT] | None]], table: Dated[RowT]) -> bool:
        try:
            rows = await ask()
        except PymqError as error:
            return self._note(error)
        if rows is None:
            return False
        table.replace(rows, self._clock.monotonic_ms())
        table.is_whole = not rows.withheld
        return True

    def _note(self, error: PymqError) -> bool:
        """Keep a refusal. Return True: the broker may answer the next time."""
        if isinstance(error, RefusedError):
            self.refusal = error
        return True

    async def _take_both(self, ask: Callable[[], Awaitable[tuple[Rows[GroupLag], Rows[TopicReaders]] | None]]) -> bool:
        try:
            found = await ask()
        except PymqError as error:
            return self._note(error)
        if found is None:
            return False
        now_ms = self._clock.monotonic_ms()
        self.groups.replace(found[0], now_ms)
        self.groups.is_whole = not found[0].withheld
        self.readers.replace(found[1], now_ms)
        return True

    async def _ask_for_times(self) -> None:
        """Ask for the times of the next group that is behind in too many queues for a row, when it is time."""
        far = [name for name, row in self.groups.items() if row.lag and row.consumed_ms is None]
        now_ms = self._clock.monotonic_ms()
        is_time = self._timed_at_ms is None or now_ms - self._timed_at_ms >= self._timed_every_ms
        for group in self._time_turn.next(far, 1) if is_time else ():
            self._timed_at_ms = now_ms
            lags = await or_none(self._admin.groups.topic_lags_at(self._target.address, group, with_times=True))
            if lags is not None:
                self._consumed_ms[group] = group_lag(lags, with_times=True).consumed_ms or 0
        self._consumed_ms = {group: self._consumed_ms[group] for group in far if group in self._consumed_ms}

    def consumed_ms(self, group: str) -> int | None:
        """Return the earliest store time (Unix ms) of a last consumed message, of queues with further ones.

        0 when the group has all messages, None where the time is unknown.
        """
        row = self.groups[group]
        return self._consumed_ms.get(group) if row.consumed_ms is None else row.consumed_ms

    def members_of(self, group: str) -> GroupMembers:
        """Return the group's members; their number is None where it is unknown."""
        return self.members.get(group) or GroupMembers(members=0 if self.members.is_whole else None)

    # -- other brokers -------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        now_ms, address = self._clock.monotonic_ms(), self._target.address
        if self._listed_at_ms is not None and now_ms - self._listed_at_ms < LISTED_EVERY_MS:
            return
        topics = await or_none(self._admin.topics.configs(address))
        groups = await or_none(self._admin.groups.configs(address))
        if topics is None or groups is None:
            return
        self._listed_at_ms = now_ms
        self._topic_names = sorted(topics)
        self._group_names = sorted(group for group in groups if not is_system_group(group))
        self.topics.keep(self._topic_names)
        self.groups.keep(self._group_names)
        self.members.keep(self._group_names)
        self._lags = {group: self._lags[group] for group in self._group_names if group in self._lags}

    async def _ask_for_topics(self) -> None:
        async def ask(topic: str) -> None:
            stats = await or_none(self._admin.topics.stats(topic, [self._target]))
            if stats is not None:
                self.topics.put(topic, topic_ends(list(stats.values())), self._clock.monotonic_ms())

        await for_each(self._topic_turn.next(self._topic_names, self._requests_max), ask)

    async def _ask_for_members(self) -> None:
        async def count(group: str) -> None:
            try:
                online = await self._admin.groups.connections(self._target.address, group)
            except PymqError:
                return
            row = GroupMembers() if online is None else group_members(online)
            self.members.put(group, row, self._clock.monotonic_ms())

        await for_each(self._member_turn.next(self._group_names, self._requests_max), count)

    async def _ask_for_places(self) -> None:
        """Ask for the places of the next groups in turn; the others keep theirs."""
        begun_ms, had_some = self._clock.monotonic_ms(), bool(self._lags)

        async def ask(group: str) -> None:
            lags = await or_none(self._admin.groups.topic_lags_at(self._target.address, group, with_times=True))
            if lags is not None:
                self._lags[group] = lags
                row = group_lag(lags, with_times=True)
                if group in self._by_topic:
                    row = replace(row, by_topic=_known_lags(group, lags))
                self.groups.put(group, row, self._clock.monotonic_ms())

        chosen = self._place_turn.next(self._group_names, self._requests_max)
        for asked in range(0, len(chosen), LAGS_AT_ONCE):
            await asyncio.gather(*map(ask, chosen[asked : asked + LAGS_AT_ONCE]))
            if had_some and self._clock.monotonic_ms() - begun_ms > PLACES_TIME_MAX_MS:
                self._place_turn.give_back(len(chosen) - asked - LAGS_AT_ONCE)
                break
        self.readers.replace(topic_readers(self._lags), self._clock.monotonic_ms())


def _known_lags(group: str, lags: Mapping[str, TopicLag]) -> dict[str, int]:
    records = topic_records(group, lags, 0)
    return {record["topic"]: record["lag"] for record in records if record["lag"] is not None}


class _Turn:
    """Where the last sample ended in a list of names."""

    def __init__(self) -> None:
        self._begin = 0
        self._asked = 0

    def rounds(self, total: int) -> int:
        """Return how many samples of the size of the last one ask for all items."""
        return max(1, -(-total // self._asked)) if self._asked else 1

    def next(self, items: Sequence[str], count_max: int) -> list[str]:
        """Return the next items in turn."""
        if not items:
            return []
        begin = self._begin % len(items)
        chosen = list(islice([*items[begin:], *items[:begin]], count_max))
        self._begin = begin + len(chosen)
        self._asked = len(chosen)
        return chosen

    def give_back(self, count: int) -> None:
        """Begin the next turn with the last ``count`` items, which were not asked for."""
        self._begin -= max(0, count)
        self._asked -= max(0, count)
