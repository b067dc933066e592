"""Reads whole pieces of the log at once, column by column with numpy, when recovery has much to read.

The columns accept only the common record: version 1, all lengths and the checksum right, no NUL in the properties.
Everything else goes through :mod:`pymq.store.scan.scanner`, which alone decides where the log ends. A property test
holds both equal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.model import sysflag
from pymq.model.layout import (
    BODY_AT,
    BOTH_LENGTHS_BYTES,
    HOST_V6_EXTRA_BYTES,
    HOST_V6_FLAGS,
    I32,
    MAGIC_V1,
    PROPERTIES_LENGTH_BYTES,
    PROPERTIES_SIZE_MAX_BYTES,
    RECORD_OVERHEAD_BYTES,
    STORE_TIMESTAMP_AT,
    TOPIC_LENGTH_BYTES,
)
from pymq.model.layout_dtypes import BE_INT32, BE_INT64, HEADS_V4, HEADS_V4_RAW, Int64s
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.log.log_record import Scanned
from pymq.store.scan.columns import Records, checksums_fit, gather
from pymq.store.scan.scanner import End, Window, is_blank, is_torn, read_piece
from pymq.store.scan.templates import RecordTemplate, TemplatedRecords, template_of

PIECE_BYTES = 1 << 20  # columns of larger pieces don't fit the processor's caches: a third slower at 4 MiB
_EQUAL_COUNT_MIN = 4  # after so many neighbors of one size, more of them are looked for at once
_MAGIC = int.from_bytes(MAGIC_V1.to_bytes(4, "big", signed=True), sys.byteorder, signed=True)
_FIT_PART_MIN = 0.75  # when a smaller part of the records fits the template, _columns reads them all
_PROBE_COUNT = 8  # records that are compared first
RUN_COUNT_MIN = 8  # fewer neighbors than this are not worth their columns
_unpack_size = I32.unpack_from


def scan_bulk(
    log: CommitLog,
    start: int,
    *,
    check_crc: bool,
    torn_from: int | None = None,
    stop: int | None = None,
) -> Iterator[Records | Scanned | End]:
    """Scan as :func:`pymq.store.scan.scanner.scan` does, with most records in columns. Raises OSError."""
    offset = start
    while (segment := log.find(offset)) is not None and (stop is None or offset < stop):
        before = offset
        for part in _in_piece(segment, offset, check_crc, torn_from, stop):
            offset = part.end if isinstance(part, Records) else part.offset + part.size
            yield part
        if offset > before:
            continue
        # A record larger than a piece, the end of the segment, or the end of the good records.
        window = Window(segment, stop=stop)
        record = window.record(offset - segment.start, check_crc)
        if record is not None and not _is_lost(record, segment, torn_from):
            offset += record.size
            yield record
        elif record is None and is_blank(window, offset - segment.start):
            offset = segment.end
        else:
            break
    yield End(offset)


def _in_piece(
    segment: Segment, offset: int, check_crc: bool, torn_from: int | None, stop: int | None
) -> Iterator[Records | Scanned]:
    """Yield the good records that lie completely in the piece at ``offset``, up to the first bad one."""
    size = PIECE_BYTES if stop is None else min(PIECE_BYTES, stop - offset)
    view = read_piece(segment, offset - segment.start, size)
    piece = view.obj if isinstance(view.obj, bytes) and len(view.obj) == len(view) else bytes(view)
    starts, end = _chain(piece)
    if not len(starts):
        return
    edges = np.append(starts, end)
    records, good = templated_records(piece, offset, edges, check_crc) or _columns(piece, offset, edges, check_crc)
    window = Window(segment, stop=stop)
    for first, after in _runs(good):
        if good[first] and after - first >= RUN_COUNT_MIN:
            yield records.between(first, after)
            continue
        for place in range(first, after):
            at = int(records.offsets[place]) - segment.start
            record = records.at(place) if good[place] else window.record(at, check_crc)
            if record is None or _is_lost(record, segment, torn_from):
                return
            yield record


def _is_lost(record: Scanned, segment: Segment, torn_from: int | None) -> bool:
    return torn_from is not None and record.offset >= torn_from and is_torn(record, record.offset - segment.start)


def _chain(piece: bytes) -> tuple[Int64s, int]:
    """Return the starts of the records that lie completely in the piece, and the end of the last one.

    Trusts the sizes that the records state.
    """
    parts: list[Int64s] = []
    starts: list[int] = []
    at, last, equal_count, before = 0, len(piece) - RECORD_OVERHEAD_BYTES, 0, 0
    while at <= last:
        size = _unpack_size(piece, at)[0]
        if size < RECORD_OVERHEAD_BYTES or at + size > len(piece):
            break
        equal_count = equal_count + 1 if size == before else 0
        if equal_count == _EQUAL_COUNT_MIN:
            more = _equal_sizes(piece, at, size)
            parts += [np.array(starts, np.int64), more]
            starts, equal_count = [], 0
            at = int(more[-1]) + size
            continue
        starts.append(at)
        before = size
        at += size
    return np.concatenate([*parts, np.array(starts, np.int64)]), at


def _equal_sizes(piece: bytes, at: int, size: int) -> Int64s:
    """Return the starts of the records from ``at`` on that have the size of the first: long runs are common."""
    count = (len(piece) - at) // size
    sizes = np.ndarray((count,), BE_INT32, piece, at, (size,))
    others = np.flatnonzero(sizes != size)
    return at + size * np.arange(int(others[0]) if len(others) else count)


def _runs(good: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Return (start, stop) of each run of equal values."""
    edges = [0, *(np.flatnonzero(good[1:] != good[:-1]) + 1).tolist(), len(good)]
    return pairwise(edges)


def _columns(piece: bytes, offset: int, edges: Int64s, check_crc: bool) -> tuple[Records, NDArray[np.bool_]]:
    """Return the records between the ``edges``, and for each whether it is surely good."""
    starts, ends = edges[:-1], edges[1:]
    raw = np.frombuffer(piece, np.uint8)
    heads = gather(piece, starts, HEADS_V4)
    good = (heads["magic"] == MAGIC_V1) & (heads["physical"] == starts + offset)
    if (heads["sys_flag"] & HOST_V6_FLAGS).any():
        shifts = _host_shifts(heads["sys_flag"], ends - starts)
        body_starts = starts + BODY_AT + shifts.body
        body_sizes = gather(piece, body_starts - I32.size, BE_INT32).astype(np.int64)
        store_ms = gather(piece, starts + STORE_TIMESTAMP_AT + shifts.store_time, BE_INT64).astype(np.int64)
        good &= shifts.fits
    else:
        body_starts = starts + BODY_AT
        body_sizes, store_ms = heads["body_size"].astype(np.int64), heads["store_ms"].astype(np.int64)
    good &= (body_sizes >= 0) & (body_starts + body_sizes + BOTH_LENGTHS_BYTES <= ends)
    body_ends = np.where(good, body_starts + body_sizes, body_starts)
    topic_ends = body_ends + TOPIC_LENGTH_BYTES + raw[body_ends].astype(np.int64)
    good &= topic_ends + PROPERTIES_LENGTH_BYTES <= ends
    topic_ends = np.where(good, topic_ends, body_ends + TOPIC_LENGTH_BYTES)
    properties_sizes = raw[topic_ends].astype(np.int64) << 8 | raw[topic_ends + 1]
    properties_at = topic_ends + PROPERTIES_LENGTH_BYTES
    good &= (properties_sizes <= PROPERTIES_SIZE_MAX_BYTES) & (properties_at + properties_sizes == ends)
    if check_crc:
        good &= checksums_fit(piece, body_starts, body_ends, heads["crc"])
    properties = [piece[at:end] for at, end in zip(properties_at.tolist(), ends.tolist(), strict=True)]
    if b"\0" in b"".join(properties):
        good &= np.array([b"\0" not in each for each in properties])
    names, topics = _topics(piece, body_ends + TOPIC_LENGTH_BYTES, topic_ends)
    for number, name in enumerate(names):
        if not name:
            good &= topics != number
    records = Records(
        starts + offset,
        ends - starts,
        names,
        topics,
        heads["queue"].astype(np.int64),
        heads["queue_offset"].astype(np.int64),
        heads["sys_flag"].astype(np.int64),
        store_ms,
        properties,
    )
    return records, good


def _share_a_template(template: RecordTemplate, piece: bytes, ends: Int64s) -> bool:
    """Return whether most records may fit, from a few samples: that is enough to reject most mixed pieces."""
    step = max(len(ends) // _PROBE_COUNT, 1)
    probed = [piece.startswith(template.head, end - template.tail_bytes) for end in ends[::step].tolist()]
    return sum(probed) >= _FIT_PART_MIN * len(probed)


def templated_records(
    piece: bytes, offset: int, edges: Int64s, check_crc: bool
) -> tuple[Records, NDArray[np.bool_]] | None:
    """Return the records between the ``edges`` of a piece at physical offset ``offset``, and for each whether it is
    surely good: those that fit the first record's template. Returns None when they are too few.
    """
    starts, ends = edges[:-1], edges[1:]
    template = template_of(piece, int(starts[0]), int(ends[0]), offset)
    if template is None or not _share_a_template(template, piece, ends):
        return None
    heads = gather(piece, starts, HEADS_V4)
    raw, sizes, body_sizes = heads.view(HEADS_V4_RAW), ends - starts, heads["body_size"].astype(np.int64)
    good: NDArray[np.bool_] = (body_sizes >= 0) & (sizes - body_sizes == BODY_AT + template.tail_bytes)
    good &= (raw["magic"] == _MAGIC) & (raw["sys_flag"] == raw["sys_flag"][0])
    good &= heads["physical"] == starts + offset
    tails = (
        gather(piece, ends - template.width, np.dtype((np.void, template.width)))
        .view(np.uint8)
        .reshape(-1, template.width)
    )
    if not (good.all() and template.all_fit(tails)):
        good &= template.fit(tails)
        if np.count_nonzero(good) < _FIT_PART_MIN * len(good):
            return None
    if check_crc:
        good &= checksums_fit(piece, starts + BODY_AT, ends - template.tail_bytes, heads["crc"])
    records = Records(
        starts + offset,
        sizes,
        [template.topic],
        np.zeros(len(starts), np.int64),
        heads["queue"].astype(np.int64),
        heads["queue_offset"].astype(np.int64),
        np.full(len(starts), int(heads["sys_flag"][0]), np.int64),
        heads["store_ms"].astype(np.int64),
        TemplatedRecords(template, tails),
    )
    return records, good


class _Shifts(NamedTuple):
    """By how many bytes IPv6 hosts shift two fields of each record; 0 where the record is too small for the hosts."""

    store_time: Int64s
    body: Int64s
    fits: NDArray[np.bool_]


def _host_shifts(sys_flags: NDArray[Any], sizes: Int64s) -> _Shifts:
    store_time = np.where(sys_flags & sysflag.BORN_HOST_V6, HOST_V6_EXTRA_BYTES, 0)
    body = store_time + np.where(sys_flags & sysflag.STORE_HOST_V6, HOST_V6_EXTRA_BYTES, 0)
    fits = sizes >= RECORD_OVERHEAD_BYTES + body
    return _Shifts(np.where(fits, store_time, 0), np.where(fits, body, 0), fits)


def _topics(piece: bytes, starts: Int64s, ends: Int64s) -> tuple[list[str], Int64s]:
    """Return the distinct topic names ("" for an invalid one), and for each record an index into them."""
    first = piece[starts[0] : ends[0]]
    if first and starts[-1] + len(first) <= len(piece) and (ends - starts == len(first)).all():
        same = np.ndarray((len(piece) - len(first) + 1,), f"V{len(first)}", piece, 0, (1,))[starts] == np.void(first)
        if same.all():
            return [_topic(first)], np.zeros(len(starts), np.int64)
    raw = [piece[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(raw))}
    return [_topic(name) for name in numbers], np.fromiter(map(numbers.__getitem__, raw), np.int64, len(raw))


def _topic(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in name else name
