"""OpenHalves: the open transactions of a broker, by the place of their half message in the half topic's queue.

A half message that producers are asked about is stored again, as RocketMQ does. All its copies are one transaction,
which is known by the queue offset of the first one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum

import msgspec

from pymq.model.record import StoredMessage
from pymq.model.transactions import first_offset_of, immunity_ms_of

OUTCOMES_MAX = 10_000  # of ended transactions, to answer who ends one again


class Outcome(Enum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    DISCARDED = "moved to TRANS_CHECK_MAX_TIME_TOPIC after its last check"


class OpenHalf(msgspec.Struct, eq=False):
    """The newest copy of the half message of an open transaction. One is no other, whatever they hold."""

    queue_offset: int
    physical_offset: int
    first_offset: int
    begun_ms: int  # Unix time, when the transaction began by the broker's clock
    stored_ms: int  # when this copy was stored
    immunity_ms: int | None  # as the message asks for it
    topic: str = ""  # its target
    copies: tuple[int, ...] = ()  # queue offsets of earlier copies


def open_half(message: StoredMessage, topic: str) -> OpenHalf:
    """Return the open transaction of a stored half message, as if it had begun when this copy was stored."""
    return OpenHalf(
        message.queue_offset,
        message.physical_offset,
        first_offset_of(message),
        message.store_timestamp_ms,
        message.store_timestamp_ms,
        immunity_ms_of(message),
        topic,
    )


class OpenHalves:
    """Open transactions in the order of their newest copies, and how the last ones ended."""

    def __init__(self) -> None:
        self._by_offset: dict[int, OpenHalf] = {}
        self._by_first: dict[int, OpenHalf] = {}
        self._outcomes: OrderedDict[int, Outcome] = OrderedDict()  # by first offset
        self.count_by_topic: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._by_offset)

    def add(self, half: OpenHalf) -> OpenHalf | None:
        """Add a transaction, or the next copy of one. Return the copy that it replaces."""
        earlier = self._by_first.get(half.first_offset)
        if earlier is not None:
            half.copies = (*earlier.copies, earlier.queue_offset)
            half.begun_ms = min(half.begun_ms, earlier.begun_ms)
            self._remove(earlier)
        self._put(half)
        return earlier

    def restore(self, begun: Iterable[OpenHalf], ended: Iterable[OpenHalf]) -> None:
        """Undo a commit that failed: forget what it began, and put back what it ended."""
        for half in begun:
            self._outcomes.pop(half.first_offset, None)
            if self._by_offset.get(half.queue_offset) is half:
                self._remove(half)
        for half in ended:
            self._outcomes.pop(half.first_offset, None)
            self._put(half)
        self._by_offset = dict(sorted(self._by_offset.items()))

    def remove(self, half: OpenHalf) -> None:
        """Remove one without an outcome."""
        if self._by_offset.get(half.queue_offset) is half:
            self._remove(half)

    def end(self, half: OpenHalf, outcome: Outcome) -> None:
        """Remove a transaction that has ended."""
        self._remove(half)
        self.note(half.first_offset, outcome)

    def note(self, first_offset: int, outcome: Outcome) -> None:
        """Remember how a transaction ended; the oldest outcomes are forgotten."""
        self._outcomes[first_offset] = outcome
        if len(self._outcomes) > OUTCOMES_MAX:
            self._outcomes.popitem(last=False)

    def find(self, first_offset: int) -> OpenHalf | None:
        """Return the open transaction that began at this queue offset."""
        return self._by_first.get(first_offset)

    def at(self, queue_offset: int) -> OpenHalf | None:
        """Return the open transaction whose newest copy is at this queue offset."""
        return self._by_offset.get(queue_offset)

    def first(self) -> OpenHalf | None:
        """Return the one whose newest copy is the oldest."""
        return next(iter(self._by_offset.values()), None)

    def outcome(self, first_offset: int) -> Outcome | None:
        """Return how a transaction ended; None when that is forgotten, or it never was."""
        return self._outcomes.get(first_offset)

    def all(self) -> list[OpenHalf]:
        """Return all of them, oldest copy first."""
        return list(self._by_offset.values())

    def _put(self, half: OpenHalf) -> None:
        self._by_offset[half.queue_offset] = self._by_first[half.first_offset] = half
        self.count_by_topic[half.topic] = self.count_by_topic.get(half.topic, 0) + 1

    def _remove(self, half: OpenHalf) -> None:
        del self._by_offset[half.queue_offset]
        del self._by_first[half.first_offset]
        count = self.count_by_topic[half.topic] - 1
        if count:
            self.count_by_topic[half.topic] = count
        else:
            del self.count_by_topic[half.topic]
