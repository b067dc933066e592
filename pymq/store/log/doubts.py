"""The result of comparing bytes that were read from the log with their digests."""

from __future__ import annotations

from typing import NamedTuple

from pymq.store.log.log_record import parse_record

Span = tuple[int, int]  # physical offsets, the second exclusive


class Doubts(NamedTuple):
    """Parts of the log whose bytes can't be trusted.

    ``damaged``: wrong bytes; a record with any of them is refused. ``unproven``: bytes without a digest, or of a
    damaged block; a record with any of them is served when its own checksum and structure are right.
    """

    damaged: list[Span]
    unproven: list[Span]

    def touch(self, start: int, end: int) -> bool:
        """True when some of the bytes are damaged."""
        return any(start < to and a < end for a, to in self.damaged)

    def refuse(self, record: memoryview, offset: int, topic: str | None = None) -> bool:
        """True when the record at this physical offset must not be served. ``topic``: the topic of the queue read."""
        end = offset + len(record)
        if self.touch(offset, end):
            return True
        if not any(offset < to and start < end for start, to in self.unproven):
            return False
        parsed = parse_record(record, 0, offset, True)
        return parsed is None or (topic is not None and parsed.topic != topic)
