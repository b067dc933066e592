"""Pairs: which groups' lags are asked for by topic, and which of these get series.

There are too many pairs of a group and a topic for a series each. Groups whose page was open a short while ago get
theirs, and the groups that are most behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from heapq import nlargest
from typing import Final, NamedTuple

from pymq.clock import Clock
from pymq.wire.bodies_rows import BY_TOPIC_MAX, GroupLag

WATCHED_MS: Final = 600_000  # after a group's page was open
WATCHED_MAX: Final = 20  # groups
WORST_GROUPS_MAX: Final = 5
TOPICS_OF_GROUP_MAX: Final = 100  # of a watched group, the most behind
WORST_PAIRS_MAX: Final = 200  # of groups that are not watched

Pair = tuple[str, str]  # a group and a topic


def sum_by_topic(rows: Sequence[GroupLag]) -> dict[str, int]:
    """Return a group's lags by topic, summed over its rows of all brokers; none when one of them has no such lags.

    A topic that a full row lacks is left out: its lag there is not known.
    """
    parts = [row.by_topic for row in rows]
    found: Counter[str] = Counter()
    for part in parts:
        if part is None:
            return {}
        found.update(part)
    full = [part for part in parts if part is not None and len(part) >= BY_TOPIC_MAX]
    return {topic: lag for topic, lag in found.items() if all(topic in part for part in full)}


class Watched(NamedTuple):
    """When a group's page was opened (monotonic ms), and for which topic."""

    at_ms: int
    topic: str


class Pairs:
    """Remembers whose page was open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: dict[str, Watched] = {}  # by group, the one that was opened last at the end

    def watch(self, group: str, topic: str) -> None:
        """Note that a group's page is open, with the queues of a topic."""
        self._watched.pop(group, None)
        self._watched[group] = Watched(self._clock.monotonic_ms(), topic)
        while len(self._watched) > WATCHED_MAX:
            del self._watched[next(iter(self._watched))]

    def groups(self, lags: Mapping[str, int | None]) -> list[str]:
        """Return the groups to ask for. ``lags``: those of all groups."""
        now_ms = self._clock.monotonic_ms()
        self._watched = {group: one for group, one in self._watched.items() if now_ms - one.at_ms < WATCHED_MS}
        behind = [group for group, lag in lags.items() if lag]
        worst = nlargest(WORST_GROUPS_MAX, behind, key=lambda group: lags[group] or 0)
        return list(dict.fromkeys([*self._watched, *worst]))

    def chosen(self, lags: Mapping[Pair, int], known: Container[Pair]) -> list[Pair]:
        """Return the pairs that get a point, of those with these lags: the most behind.

        ``known``: that have a series. A lag of 0 counts for these alone, so that one which becomes 0 is seen.
        """
        rooms: dict[str, list[Pair]] = {}
        found = []
        for pair, lag in lags.items():
            group, topic = pair
            watched = self._watched.get(group)
            if watched is not None and topic == watched.topic:
                found.append(pair)
            elif lag or pair in known:
                rooms.setdefault("" if watched is None else group, []).append(pair)
        for room, pairs in rooms.items():
            count_max = TOPICS_OF_GROUP_MAX - 1 if room else WORST_PAIRS_MAX
            found += nlargest(count_max, pairs, key=lambda pair: lags[pair])
        return found
