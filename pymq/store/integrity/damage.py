"""Finds the damaged bytes of a block that fails its digest, and counts the records that are refused because of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from xxhash import xxh3_64_digest

from pymq.errors import CorruptRecordError
from pymq.model.layout import I32, MAGIC_AT, MAGIC_BLANK, RECORD_START
from pymq.store.integrity.digest_file import BAD
from pymq.store.log.commit_log import Segment
from pymq.store.log.doubts import Span
from pymq.store.log.log_record import magic_positions, parse_record

log = logging.getLogger(__name__)

REFUSED_COUNT_MAX = 10_000  # records kept in memory; for a disk that loses more, a list is of no use
# How far before a block the search begins for a record that reaches into it.
_SEARCH_BACK_BYTES = (1 << 13, 1 << 16, 1 << 20, 1 << 24)


class Refusals:
    """Counts refused records and logs each of them once."""

    def __init__(self) -> None:
        self.count = 0  # RocketMQ has no such number; the broker's runtime info shows it as corruptMessages
        self._offsets: set[int] = set()
        self._first = 0

    def note(self, error: CorruptRecordError) -> None:
        """Count and log a record, unless that was done before."""
        offset = error.physical_offset
        if offset in self._offsets or len(self._offsets) >= REFUSED_COUNT_MAX:
            return
        self._offsets.add(offset)
        if not self.count:
            self._first = offset
        self.count += 1
        log.error("corrupt record: %s", error)

    @property
    def problem(self) -> str | None:
        """For the list of what an operator should know; None when nothing was refused."""
        if not self.count:
            return None
        return (
            f"corrupt messages were found, the first at {self._first} in the commit log: they are refused, all others "
            f"are served; `pymq store verify` on the stopped store lists them"
        )


def explain(segment: Segment, at: int, block: bytes, wanted: bytes) -> list[Span]:
    """The damaged bytes of the block at position ``at`` of a segment, whose digest should be ``wanted``.

    A single flipped bit is found by trying every bit. Otherwise the bytes that no good record covers are damaged. A
    record's checksum covers its body alone, so good records may cover the whole block: then all of it counts as
    damaged. Raises OSError.
    """
    start = segment.start + at
    gaps = uncovered(segment, at, len(block))
    if wanted != BAD:
        suspected = [position for a, b in gaps for position in range(a - at, b - at)]
        flipped = find_flip(block, wanted, suspected)
        if flipped is None:
            flipped = find_flip(block, wanted, range(len(block)))
        if flipped is not None:
            return [(start + flipped // 8, start + flipped // 8 + 1)]
    return [(segment.start + a, segment.start + b) for a, b in gaps] or [(start, start + len(block))]


def find_flip(block: bytes, wanted: bytes, positions: Iterable[int]) -> int | None:
    """The one bit that must be flipped to get the digest ``wanted``: 8 * byte + bit, lowest first. None without one.

    Tries the bytes at ``positions``; all bytes of a block take about 15 ms.
    """
    trial = bytearray(block)
    for at in positions:
        byte = block[at]
        for bit in range(8):
            trial[at] = byte ^ (1 << bit)
            if xxh3_64_digest(trial) == wanted:
                return 8 * at + bit
        trial[at] = byte
    return None


def uncovered(segment: Segment, at: int, size: int) -> list[Span]:
    """The parts of ``size`` bytes from position ``at`` of a segment that no record with a good checksum covers."""
    end = at + size
    for back in _SEARCH_BACK_BYTES:
        start = max(0, at - back)
        gaps = _gaps(at, end, _good_records(segment, start, end))
        if start == 0 or not gaps or gaps[0][0] > at:
            return gaps
    return gaps


def _good_records(segment: Segment, start: int, end: int) -> Iterable[Span]:
    """Spans of the good records, and of the blank record, that begin between two positions, in order."""
    # A record that begins in the last bytes has its magic behind them.
    area = bytes(segment.read(start, min(end + 7, segment.end - segment.start) - start))
    reached = start
    for at in (start + hit - MAGIC_AT for hit in magic_positions(area)):
        if at < reached:
            continue  # inside a good record, or it begins before the area
        size = int.from_bytes(segment.read(at, I32.size), "big")
        room = segment.end - segment.start - at
        if size <= room and parse_record(segment.read(at, size), 0, segment.start + at, True) is not None:
            reached = at + size
            yield at, reached
    blank = area.rfind(I32.pack(MAGIC_BLANK))
    blank_at = start + blank - MAGIC_AT
    left = segment.end - segment.start - blank_at
    if blank_at >= reached and bytes(segment.read(blank_at, RECORD_START.size)) == RECORD_START.pack(left, MAGIC_BLANK):
        yield blank_at, blank_at + left


def _gaps(start: int, end: int, covered: Iterable[Span]) -> list[Span]:
    gaps = []
    for a, b in covered:
        if b <= start:
            continue
        if a > start:
            gaps.append((start, min(a, end)))
        start = b
        if start >= end:
            return gaps
    return [*gaps, (start, end)]
