"""Digests of chunks of the log: two copies of a log are compared by them, without sending its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xxhash import xxh3_64, xxh3_64_hexdigest

from pymq.errors import NotFoundError
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES
from pymq.store.log.commit_log import CommitLog, Segment

DAMAGED = ""  # instead of a digest: this copy is damaged, or can't be read
_RESIDENT_BYTES_MAX = 8 << 20  # mapped bytes read before their pages are given back


def chunk_bounds(start: int, end: int, chunk_bytes: int, segment_size_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of ``chunk_bytes`` from ``start`` to ``end``, each cut short at the end of its segment."""
    while start < end:
        segment_end = start - start % segment_size_bytes + segment_size_bytes
        stop = min(start + chunk_bytes, segment_end, end)
        yield start, stop
        start = stop


def chunk_digests(log: CommitLog, chunks: Iterable[tuple[int, int]], *, count_max: int, bytes_max: int) -> list[str]:
    """:func:`chunk_digest` of the first chunks: at most ``count_max`` of them, ``bytes_max`` together."""
    found: list[str] = []
    for start, stop in chunks:
        bytes_max -= stop - start
        if bytes_max < 0 or len(found) == count_max:
            break
        found.append(chunk_digest(log, start, stop))
    return found


def chunk_digest(log: CommitLog, start: int, end: int) -> str:
    """xxh3-64 in hex of these bytes of one segment; :data:`DAMAGED` when they are damaged or unreadable."""
    segment = log.find(start)
    assert segment is not None and start < end <= segment.end
    at, size = start - segment.start, end - start
    try:
        data = segment.read(at, size)
        if _is_damaged(log, segment, data, at):
            return DAMAGED
    except OSError:
        return DAMAGED
    digest = xxh3_64_hexdigest(data)
    segment.note_read(size, min(log.resident_bytes_max, _RESIDENT_BYTES_MAX))
    return digest


def tail_digest(log: CommitLog, end: int, tail_bytes: int) -> str:
    """xxh3-64 in hex of the ``tail_bytes`` bytes before a physical offset.

    Raises NotFoundError when the log does not hold all of them, UnreadableError.
    """
    digest, at = xxh3_64(), end - tail_bytes
    while at < end:
        piece = log.read(at, end - at)
        if not piece:
            raise NotFoundError(f"the log ends at {log.max_offset}, before offset {end}")
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()


def _is_damaged(log: CommitLog, segment: Segment, data: memoryview, at: int) -> bool:
    """True when the digests of its blocks prove damage. They prove nothing about parts of blocks."""
    reaches_end = segment.start + at + len(data) == log.max_offset
    if log.guard is None or at % BLOCK_SIZE_BYTES or (len(data) % BLOCK_SIZE_BYTES and not reaches_end):
        return False
    doubts = log.guard.check(segment, data, at)
    return doubts is not None and bool(doubts.damaged)
