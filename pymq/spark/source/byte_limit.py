"""Where a batch of ``maxBytesPerTrigger`` ends: sizes of stored messages, as brokers say them before the read.

No I/O but by the function that asks. A broker lists the entries of a queue, each with the message's place in the log
and its size. The first thousands of entries are added up, which is exact. Beyond them places stand for sizes: what
all queues of a broker have between two places takes at most their distance, because other messages lie between too.
So a batch is never larger than its limit, but for a single message that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pymq.model.layout import RECORD_OVERHEAD_BYTES
from pymq.spark.planning.cluster import Entry, Queue

# One request's entries: what brokers answer at most.
ENTRIES_PER_REQUEST_MAX: Final = 1_000
# The entries of a queue that a batch adds up. Each is 100 bytes of JSON on the way.
ADDED_ENTRIES_MAX: Final = 8_000
# The places that one round of the search asks for: 1,000,000 rows take five rounds.
PLACES_PER_ROUND: Final = 16


Ask = Callable[[Sequence[tuple[Queue, int, int]]], list[list[Entry]]]
"""Returns the entries of each (queue, first offset, count); a queue or a broker may have fewer."""


class _Share:
    """How far a batch goes in one queue."""

    def __init__(self, ask: Ask, queue: Queue, low: int, high: int) -> None:
        self._ask = ask
        self._queue = queue
        self._high = high
        self._entries: list[Entry] = []  # those of the offsets from `end`
        self._added = 0
        self._last: Entry | None = None
        self.end = low

    @property
    def broker_name(self) -> str:
        return self._queue.broker_name

    @property
    def is_whole(self) -> bool:
        return self.end >= self._high

    def take(self, budget_bytes: int) -> int:
        """Take the rows that fit; return their bytes."""
        left = budget_bytes
        while not self.is_whole and left >= RECORD_OVERHEAD_BYTES:
            entry = self._entry(left)
            if entry is None:
                break
            # Messages of an inner batch have one place.
            size = 0 if self._last is not None and self._last.place == entry.place else entry.size_bytes
            if size > left:
                break
            left -= size
            self._last = self._entries.pop()
            self.end += 1
        return budget_bytes - left

    def take_one(self) -> None:
        """Take a row of any size."""
        self.end += 1

    def _entry(self, budget_bytes: int) -> Entry | None:
        """Return the entry at ``end``, None where too many are added up already or the broker has none."""
        if not self._entries and self._added < ADDED_ENTRIES_MAX:
            count = min(ENTRIES_PER_REQUEST_MAX, self._high - self.end, budget_bytes // RECORD_OVERHEAD_BYTES + 1)
            found = self._ask([(self._queue, self.end, min(count, ADDED_ENTRIES_MAX - self._added))])[0]
            self._added += len(found)
            self._entries = found[::-1]
        return self._entries[-1] if self._entries else None

    @property
    def place(self) -> int | None:
        """Where the last added message ends in the log; None where entries are still to be added, or all are."""
        if self.is_whole or self._added < ADDED_ENTRIES_MAX or self._entries or self._last is None:
            return None
        return self._last.end

    def reach(self, place: int) -> int:
        """Take the rows that end at or before a place of the log; return where the last one ends."""
        assert self._last is not None
        base = reached = self._last.end
        known, beyond = self.end, self._high + 1  # rows below `known` fit, those below `beyond` don't
        while beyond - known > 1:
            step = max(1, (beyond - known) // (PLACES_PER_ROUND + 1))
            ends = list(range(known + step, beyond, step))[: PLACES_PER_ROUND + 1]
            answers = self._ask([(self._queue, end - 1, 1) for end in ends])
            for end, found in zip(ends, answers, strict=True):
                at = found[0].end if found else -1
                if not base <= at <= place:
                    beyond = end
                    break
                known, reached, self._last = end, at, found[0]
        self.end = known
        return reached


def within_bytes(
    begin: Mapping[Queue, int], ends: Mapping[Queue, int], bytes_max: int, ask: Ask, turn: int
) -> dict[Queue, int]:
    """Return the ends of a batch of at most ``bytes_max`` stored bytes, of at least one row in any case.

    Each queue has an equal share of the bytes. What a queue leaves goes to those with more rows, and what remains then
    to all, beginning at number ``turn`` of them: so each queue comes first at some time.
    """
    shares = {queue: _Share(ask, queue, begin[queue], end) for queue, end in ends.items() if begin[queue] < end}
    by_rows = sorted(shares, key=lambda queue: (ends[queue] - begin[queue], queue[:3]))
    left = bytes_max
    for number, queue in enumerate(by_rows):
        left -= shares[queue].take(left // (len(by_rows) - number))
    open_ones = [queue for queue in sorted(shares, key=lambda queue: queue[:3]) if not shares[queue].is_whole]
    rotated = _rotated(open_ones, turn)
    for queue in rotated:
        left -= shares[queue].take(left)
    _search(list(shares.values()), left)
    if rotated and all(shares[queue].end == begin[queue] for queue in shares):
        shares[rotated[0]].take_one()
    return {queue: shares[queue].end if queue in shares else end for queue, end in ends.items()}


def _search(shares: Sequence[_Share], budget_bytes: int) -> None:
    """Take rows behind the added ones, up to one place of each broker's log for all of its queues."""
    logs: dict[str, list[tuple[int, _Share]]] = {}
    for share in shares:
        if share.place is not None:
            logs.setdefault(share.broker_name, []).append((share.place, share))
    left = budget_bytes
    for number, log in enumerate(logs.values()):
        base = min(place for place, _ in log)
        goal = base + left // (len(logs) - number)
        # What all queues take between the two places is no more than their distance.
        left -= max(share.reach(goal) if place < goal else base for place, share in log) - base


def _rotated(queues: Sequence[Queue], turn: int) -> list[Queue]:
    at = turn % len(queues) if queues else 0
    return [*queues[at:], *queues[:at]]
