"""The bytes of an AppendRequest: a long one becomes parts that end where records do, each with its bytes of the log.

The core names ranges and knows no bytes. A follower's core counts whole records alone. So every part ends where a
record does, and is a complete request with the position before it, its pieces, and the memberships in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from pymq.errors import CorruptRecordError
from pymq.model.layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_OVERHEAD_BYTES, RECORD_START
from pymq.raft.messages import AppendRequest, Piece
from pymq.raft.state import Position

PART_BYTES_MAX = 1 << 20  # a longer record goes alone
HEAD_BYTES = RECORD_START.size  # size and magic
# Magic -> the least size of such a record.
_LEAST = {MAGIC_V1: RECORD_OVERHEAD_BYTES, MAGIC_V2: RECORD_OVERHEAD_BYTES, MAGIC_BLANK: HEAD_BYTES}
_NEXT_STEP = "damage is not copied: repair the log from another member (pymq store recover)"


class LogSource(Protocol):
    """The log to read: a :class:`pymq.store.store.MessageStore`."""

    def read_log(self, offset: int, size_max: int) -> memoryview:
        """Return bytes from ``offset`` on, at most to the end of their segment."""
        ...


class Part(NamedTuple):
    """A request, and the bytes from the end of its ``previous`` to its own end."""

    request: AppendRequest
    data: bytes


def parts(request: AppendRequest, log: LogSource, *, bytes_max: int = PART_BYTES_MAX) -> Iterator[Part]:
    """Yield the request in parts of at most ``bytes_max`` bytes; one without bytes as it is.

    Raises CorruptRecordError where a long request meets bytes that begin no record, and NotFoundError and
    UnreadableError as the log does. Parts that were yielded before are good.
    """
    at, end = request.previous.end, request.end
    if at == end:
        yield Part(request, b"")
        return
    previous = request.previous
    while at < end:
        data = _whole_records(log, at, end, bytes_max)
        part = between(request, previous, at + len(data))
        yield Part(part, data)
        at += len(data)
        previous = Position(part.pieces[-1].epoch, at)


def _whole_records(log: LogSource, at: int, end: int, bytes_max: int) -> bytes:
    """Return whole records from ``at`` on, together at most ``bytes_max`` bytes, but at least one."""
    if end - at <= bytes_max:
        return _read(log, at, end - at)  # a request ends where a record does
    data = _read(log, at, max(bytes_max, HEAD_BYTES))
    size = whole_size(data, at)
    if size:
        return data[:size]
    record_size = RECORD_START.unpack_from(data)[0] if len(data) >= HEAD_BYTES else 0
    if not len(data) < record_size <= end - at:
        raise CorruptRecordError(at, f"the record at {at} goes beyond {end}, where a record ends; {_NEXT_STEP}")
    return _read(log, at, record_size)


def _read(log: LogSource, at: int, size: int) -> bytes:
    """Return ``size`` bytes of the log, also across the ends of segments."""
    found = bytearray()
    while len(found) < size:
        piece = log.read_log(at + len(found), size - len(found))
        if not piece:
            raise CorruptRecordError(at + len(found), f"the log ends at {at + len(found)}, it was to go to {at + size}")
        found += piece
    return bytes(found)


def whole_size(data: bytes | memoryview, start: int) -> int:
    """Return the size of the whole records that ``data`` begins with; ``start`` is its offset in the log.

    A blank record counts with all it covers. Raises CorruptRecordError for bytes that begin no record.
    """
    at, end, unpack = 0, len(data), RECORD_START.unpack_from
    while at + HEAD_BYTES <= end:
        size, magic = unpack(data, at)
        if size < _LEAST.get(magic, 1 << 32):
            head = bytes(data[at : at + HEAD_BYTES]).hex()
            raise CorruptRecordError(
                start + at, f"the {HEAD_BYTES} bytes at offset {start + at} ({head}) begin no record; {_NEXT_STEP}"
            )
        if at + size > end:
            break
        at += size
    return at


def between(request: AppendRequest, previous: Position, end: int) -> AppendRequest:
    """Return the part of a request behind ``previous`` up to ``end``, both ends of records in its range."""
    return AppendRequest(
        sender=request.sender,
        to=request.to,
        term=request.term,
        previous=previous,
        pieces=tuple(
            Piece(piece.epoch, max(piece.begin, previous.end), min(piece.end, end))
            for piece in request.pieces
            if piece.begin < end and piece.end > previous.end
        ),
        memberships=tuple(entry for entry in request.memberships if previous.end < entry.end <= end),
        confirm_offset=request.confirm_offset,
    )
