"""CheckPoints: what has been handed out and is neither acknowledged nor delivered again. Without I/O.

The revive topic holds the same as records; :mod:`pymq.broker.pop.revive_log` keeps both equal.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from itertools import islice, takewhile
from operator import or_
from typing import NamedTuple

# Check points of all groups, and of one. A check point takes about 600 bytes and stands for up to 32 messages.
CHECK_POINT_COUNT_MAX = 400_000
GROUP_CHECK_POINT_COUNT_MAX = 100_000
# Removed check points stay in the heap of due times until then; it is rebuilt when there are more than this many.
COMPACT_SLACK_COUNT = 10_000


class CheckPointKey(NamedTuple):
    """What an acknowledgement names: one hand-out of one queue to one group. ``topic`` may be a retry topic."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int


class CheckPoint:
    """One hand-out. ``left`` holds a bit for each message that is neither acknowledged nor delivered again;
    ``turn_acks`` one for each message that is acknowledged with the turn's commit."""

    __slots__ = ("due_ms", "invisible_ms", "key", "left", "offsets", "revive_offset", "revive_queue_id", "turn_acks")

    def __init__(
        self,
        key: CheckPointKey,
        offsets: Sequence[int],
        *,
        invisible_ms: int,
        due_ms: int,
        revive_queue_id: int,
        revive_offset: int,
        acked_bits: int = 0,
    ) -> None:
        """``offsets``: of the messages in the key's queue, each one once. ``due_ms``: when those that are left are
        delivered again."""
        self.key = key
        self.offsets = offsets
        self.invisible_ms = invisible_ms
        self.due_ms = due_ms
        self.revive_queue_id = revive_queue_id
        self.revive_offset = revive_offset
        self.left = ((1 << len(offsets)) - 1) & ~acked_bits
        self.turn_acks = 0

    def left_offsets(self) -> list[int]:
        """Return the offsets of the messages that are left."""
        return self.offsets_of(self.left) if self.left else []

    def offsets_of(self, bits: int) -> list[int]:
        """Return the offsets of the messages that have these bits, at least one."""
        if not bits & (bits - 1):
            return [self.offsets[bits.bit_length() - 1]]
        return [offset for number, offset in enumerate(self.offsets) if bits >> number & 1]

    def bit_left(self, offset: int) -> int:
        """Return the bit of the message at ``offset`` if it is left, else 0."""
        offsets = self.offsets
        number = offset - offsets[0]  # mostly they follow one another
        if not 0 <= number < len(offsets) or offsets[number] != offset:
            if offset not in offsets:
                return 0
            number = offsets.index(offset)
        return self.left & 1 << number

    def bits_left(self, offsets: Iterable[int]) -> int:
        """Return the bits of those messages at ``offsets`` that are left."""
        return reduce(or_, map(self.bit_left, offsets), 0)

    @property
    def left_count(self) -> int:
        return self.left.bit_count()


class CheckPoints:
    """The open check points by key, by due time and by place in the revive topic."""

    def __init__(self, revive_queue_count: int) -> None:
        self._open: dict[CheckPointKey, CheckPoint] = {}
        self._due: list[tuple[int, int, CheckPoint]] = []
        self._number = 0
        # Of each revive queue: the open check points in the order of their records, which is that of their offsets.
        self._by_place: list[dict[int, CheckPoint]] = [{} for _ in range(revive_queue_count)]
        self._ends = [0] * revive_queue_count  # behind the last record of each revive queue that was taken in
        self._group_counts: dict[str, int] = {}
        # (topic, perhaps a retry topic, group, queue id) -> messages that are left
        self.invisible: dict[tuple[str, str, int], int] = {}
        self.get = self._open.get

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: CheckPointKey) -> bool:
        return key in self._open

    def count_of(self, group: str) -> int:
        """Return the number of the group's open check points."""
        return self._group_counts.get(group, 0)

    def is_full_for(self, group: str) -> bool:
        """Return True when no further check point of the group may be made."""
        return len(self._open) >= CHECK_POINT_COUNT_MAX or self.count_of(group) >= GROUP_CHECK_POINT_COUNT_MAX

    # -- records -------------------------------------------------------------------------------------------------

    def add(self, point: CheckPoint) -> None:
        """Take in a check point from its record. One of the same key, an older record of the same, gives way."""
        self.pass_record(point.revive_queue_id, point.revive_offset)
        earlier = self._open.get(point.key)
        if earlier is not None:
            if earlier.revive_offset >= point.revive_offset and earlier.revive_queue_id == point.revive_queue_id:
                return  # the record was read before
            point.left &= earlier.left
            self._remove(earlier)
        if not point.left:
            return
        self._open[point.key] = point
        self._by_place[point.revive_queue_id][point.revive_offset] = point
        group = point.key.group
        self._group_counts[group] = self._group_counts.get(group, 0) + 1
        self._count(point.key, point.left_count)
        self._number += 1
        heapq.heappush(self._due, (point.due_ms, self._number, point))
        self._compact()

    def ack(self, key: CheckPointKey, bits: int) -> None:
        """Strike messages off a check point by their bits. An unknown key and bits that are not left change nothing."""
        point = self._open.get(key)
        if point is None:
            return
        before = point.left_count
        point.left &= ~bits
        self._count(key, point.left_count - before)
        if not point.left:
            self._remove(point)

    def of(self, *, topics: Collection[str] = (), groups: Collection[str] = ()) -> list[CheckPoint]:
        """Return the open check points of these topics, and of these groups."""
        return [point for key, point in self._open.items() if key.topic in topics or key.group in groups]

    def drop(self, point: CheckPoint) -> None:
        """Forget a check point whose messages can't be delivered again: topic or group are gone."""
        if self._open.get(point.key) is point:
            self._remove(point)

    def pass_record(self, revive_queue_id: int, revive_offset: int) -> None:
        """Take note that a record of a revive queue was taken in. One behind a gap is read again with the gap."""
        if revive_offset == self._ends[revive_queue_id]:
            self._ends[revive_queue_id] = revive_offset + 1

    def begin_at(self, revive_queue_id: int, revive_offset: int) -> None:
        """Take in records of a revive queue from an offset on."""
        self._ends[revive_queue_id] = revive_offset

    def end(self, revive_queue_id: int) -> int:
        """Return the offset behind the last record that was taken in."""
        return self._ends[revive_queue_id]

    def finished_offset(self, revive_queue_id: int) -> int:
        """Return the last offset in a revive queue before which no record is needed any more; -1 for none.

        A start reads from the next one.
        """
        oldest = next(iter(self._by_place[revive_queue_id]), None)
        return (self._ends[revive_queue_id] if oldest is None else oldest) - 1

    def older_than(self, revive_queue_id: int, revive_offset: int, count_max: int) -> list[CheckPoint]:
        """Return open check points whose records lie before an offset of a revive queue, the oldest ones first."""
        oldest = islice(self._by_place[revive_queue_id].values(), count_max)
        return list(takewhile(lambda point: point.revive_offset < revive_offset, oldest))

    # -- time ----------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """Return when the next check point is due (Unix ms); None while none is open."""
        while self._due and not self._is_current(self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int) -> CheckPoint | None:
        """Return a check point that is due and take it off the heap; None when none is. It stays open."""
        while self._due and self._due[0][0] <= now_ms:
            entry = heapq.heappop(self._due)
            if self._is_current(entry):
                return entry[2]
        return None

    def put_off(self, point: CheckPoint, due_ms: int) -> None:
        """Make a check point due again later."""
        point.due_ms = due_ms
        self._number += 1
        heapq.heappush(self._due, (due_ms, self._number, point))

    def clock_went_back(self, now_ms: int, grace_ms: int = 0) -> None:
        """Make no check point wait longer than its invisible time from now on: the clock was set back.

        Those that would wait up to ``grace_ms`` longer stay as they are.
        """
        for point in list(self._open.values()):
            if point.due_ms - now_ms > point.invisible_ms + grace_ms:
                self.put_off(point, now_ms + point.invisible_ms)

    def _is_current(self, entry: tuple[int, int, CheckPoint]) -> bool:
        due_ms, _, point = entry
        return self._open.get(point.key) is point and point.due_ms == due_ms

    def _remove(self, point: CheckPoint) -> None:
        key = point.key
        del self._open[key]
        self._by_place[point.revive_queue_id].pop(point.revive_offset, None)
        self._group_counts[key.group] -= 1
        if not self._group_counts[key.group]:
            del self._group_counts[key.group]
        self._count(key, -point.left_count)

    def _count(self, key: CheckPointKey, added: int) -> None:
        queue = key.topic, key.group, key.queue_id
        count = self.invisible.get(queue, 0) + added
        if count:
            self.invisible[queue] = count
        else:
            self.invisible.pop(queue, None)

    def _compact(self) -> None:
        if len(self._due) > 2 * len(self._open) + COMPACT_SLACK_COUNT:
            self._due = [entry for entry in self._due if self._is_current(entry)]
            heapq.heapify(self._due)
