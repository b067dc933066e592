"""QueueEnds: the ends of queues of a topic at one moment, and what a group lacks there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from pymq.model.tables import TopicConfig

if TYPE_CHECKING:
    from pymq.store.store import MessageStore

QUEUES_AT_ONCE: Final = 1024  # that are looked at before the next rest; few topics have more


class Behind(NamedTuple):
    """Sums over queues: messages after the committed offsets, these offsets, how many there are, and the queues that
    have messages and no committed offset."""

    lag: int = 0
    committed: int = 0
    offsets: int = 0
    unknown_queues: int = 0

    def plus(self, other: Behind) -> Behind:
        """Return the sums over both."""
        return Behind(
            self.lag + other.lag,
            self.committed + other.committed,
            self.offsets + other.offsets,
            self.unknown_queues + other.unknown_queues,
        )


class QueueEnds:
    """The ends of a topic's queues, or of some of them. Use it before the next rest: the queues grow."""

    __slots__ = ("_filled", "_ids", "ends", "ids", "total", "views")

    def __init__(self, store: MessageStore, topic: TopicConfig, ids: range) -> None:
        """``ids``: of the queues, one of :func:`pieces`."""
        self.ids = ids
        self.views = store.queue_views_of(topic.topic_name, ids)
        self.ends = [0 if view is None else view.max_offset for view in self.views]
        self.total = sum(self.ends)
        self._ids = _as_set(ids)
        self._filled: list[bool] | None = None

    def behind(self, committed: Mapping[int, int]) -> Behind:
        """Return what is left of a group with these committed offsets by queue id."""
        return Behind(*self.behind_each([committed])[0])

    def behind_each(self, committed: Iterable[Mapping[int, int]]) -> list[tuple[int, int, int, int]]:
        """Return :meth:`behind` for each of many groups: a plain tuple, because there are 50,000 of them."""
        ids, total = self._ids, self.total
        return [
            (total - (taken := sum(offsets.values())), taken, len(offsets), 0)
            if offsets.keys() == ids  # nearly always
            else self._behind_some(offsets)
            for offsets in committed
        ]

    def _behind_some(self, committed: Mapping[int, int]) -> tuple[int, int, int, int]:
        """Return what is left of a group that has not committed in each of the queues, or in others, too."""
        if self._filled is None:
            self._filled = [view is not None and view.max_offset > view.min_offset for view in self.views]
        if not committed:
            return 0, 0, 0, sum(self._filled)
        lag = taken = count = unknown = 0
        for queue_id, end, is_filled in zip(self.ids, self.ends, self._filled, strict=True):
            offset = committed.get(queue_id)
            if offset is None:
                unknown += is_filled
            else:
                lag += end - offset
                taken += offset
                count += 1
        return lag, taken, count, unknown


def pieces(topic: TopicConfig) -> Iterator[range]:
    """Return the ids of a topic's queues in pieces, between which a rest may be taken."""
    count = topic.queue_count
    return (range(start, min(start + QUEUES_AT_ONCE, count)) for start in range(0, count, QUEUES_AT_ONCE))


@lru_cache(maxsize=64)  # topics have few different numbers of queues
def _as_set(ids: range) -> Set[int]:
    return frozenset(ids)
