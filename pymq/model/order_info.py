"""OrderInfo: which messages of a queue an orderly pop handed out last, and which of them are acknowledged.

RocketMQ keeps one for each queue of a group in ``config/consumerOrderInfo.json``. Java: ConsumerOrderInfoManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

MESSAGES_MAX = 64  # an acknowledgement is one bit of Java's long


class OrderInfo(NamedTuple):
    """One hand-out of one queue. Times are Unix ms of the broker's clock. It never changes: others are made from it."""

    attempt_id: str | None  # the pop's, as the client gave it
    pop_time_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]  # of the messages, ascending, at least one
    last_used_ms: int = 0
    acked_bits: int = 0
    counts: Mapping[int, int] = {}  # offset -> how often the message was handed out before; never 0
    visible_ms: Mapping[int, int] = {}  # offset -> when a message may be handed out again, if that was changed

    def left(self, committed: int) -> list[int]:
        """Return the offsets that are not acknowledged. Those before the group's committed offset are."""
        return [
            offset
            for number, offset in enumerate(self.offsets)
            if offset >= committed and not self.acked_bits >> number & 1
        ]

    def free_ms(self, committed: int) -> int:
        """Return until when the queue hands out nothing: the last of its messages is invisible; 0 if none is left."""
        end_ms = self.pop_time_ms + self.invisible_ms
        return max((self.visible_ms.get(offset, end_ms) for offset in self.left(committed)), default=0)

    def is_again(self, attempt_id: str | None) -> bool:
        """Return True for the attempt that got these messages: it gets them again, its answer may be lost."""
        return attempt_id is not None and attempt_id == self.attempt_id

    @property
    def next_offset(self) -> int:
        """The first offset that is not acknowledged, or the one behind all."""
        return next(iter(self.left(0)), self.offsets[-1] + 1)

    def acked(self, offset: int, now_ms: int) -> OrderInfo:
        """Return it with one more acknowledgement. ``offset`` must be one of its own."""
        return self._replace(acked_bits=self.acked_bits | 1 << self.offsets.index(offset), last_used_ms=now_ms)

    def hidden(self, offset: int, until_ms: int, now_ms: int) -> OrderInfo:
        """Return it with another end of one message's invisible time."""
        return self._replace(visible_ms={**self.visible_ms, offset: until_ms}, last_used_ms=now_ms)

    def after(self, before: OrderInfo | None) -> OrderInfo:
        """Return it with the counts of messages that ``before`` had handed out already."""
        if before is None:
            return self
        if before.is_again(self.attempt_id):
            return self._replace(counts=before.counts)
        handed_out = set(before.offsets)
        return self._replace(
            counts={offset: before.counts.get(offset, 0) + 1 for offset in self.offsets if offset in handed_out}
        )

    def count_info(self, queue_id: int) -> str:
        """Return what ``orderCountInfo`` says of the queue: each count, then the least of all messages."""
        texts = [f"0 qo{queue_id}%{offset} {count}" for offset, count in self.counts.items()]
        least = min(self.counts.values(), default=0) if len(self.counts) == len(self.offsets) else 0
        return ";".join([*texts, f"0 {queue_id} {least}"])


def to_saved(info: OrderInfo) -> dict[str, Any]:
    """Return the JSON of an entry. Its offsets are distances from the first one."""
    first = info.offsets[0]
    entry: dict[str, Any] = {
        "popTime": info.pop_time_ms,
        "i": info.invisible_ms,
        "l": info.last_used_ms,
        "cm": info.acked_bits,
        "o": [first, *(offset - first for offset in info.offsets[1:])],
    }
    if info.attempt_id is not None:
        entry["a"] = info.attempt_id
    for name, numbers in (("oc", info.counts), ("ot", info.visible_ms)):
        if numbers:
            entry[name] = {str(offset): number for offset, number in numbers.items()}
    return entry


def from_saved(entry: Mapping[str, Any]) -> OrderInfo:
    """Return the order information of a saved entry. Raises ValueError."""
    try:
        first, *distances = [int(number) for number in entry["o"]]
        offsets = (first, *(first + distance for distance in distances))
        if len(offsets) > MESSAGES_MAX or list(offsets) != sorted(set(offsets)) or first < 0:
            raise ValueError(f"its offsets {list(offsets)[:8]} are not ascending, below 0 or more than {MESSAGES_MAX}")
        attempt_id = entry.get("a")
        return OrderInfo(
            attempt_id=None if attempt_id is None else str(attempt_id),
            pop_time_ms=int(entry["popTime"]),
            invisible_ms=int(entry.get("i") or 0),
            offsets=offsets,
            last_used_ms=int(entry.get("l") or 0),
            acked_bits=int(entry.get("cm") or 0),
            counts=_numbers(entry.get("oc")),
            visible_ms=_numbers(entry.get("ot")),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it lacks a member, or one has another type: {error!r}") from error


def _numbers(value: Any) -> dict[int, int]:
    return {int(offset): int(number) for offset, number in (value or {}).items()}
