"""What a log had that its master's hasn't: kept under ``divergent/`` with a record of it, then cut from the log.

The order is safe at any crash point. The bytes and their record are on the disk before anything else happens; then the
checkpoint stops vouching for what will go; then the log is cut, and queues, index and checkpoint after it. A crash
leaves a log that is cut, or one that goes on behind the place, whole records all of it: asking again cuts the rest.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass, replace

from pymq.clock import Clock
from pymq.errors import StoreError
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.store.disk.fs import Files, make_directory
from pymq.store.log.commit_log import CommitLog
from pymq.store.replica.divergent_directory import DIVERGENT_DIRECTORY
from pymq.store.scan.scanner import End, Scanned, find_later_record, has_queue_unit, scan_fast
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore

LOG_SUFFIX = ".log"
STATE_SUFFIX = ".json"
TEMPORARY_SUFFIX = ".tmp"
PIECE_BYTES = 1 << 20
_ZEROS = bytes(PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class TruncationState:
    """Log bytes from ``start`` to ``end`` that were cut, kept in ``path``; empty when the log ended at ``start``.

    ``message_count``: messages of queues among them; ``time_ms``: when, wall clock; ``why``: who asked for it.
    """

    start: int
    end: int
    message_count: int
    time_ms: int
    path: str
    why: str = ""


def list_truncations(files: Files, root: str) -> list[TruncationState]:
    """The cuts of a broker's directory, in the order they were made. Raises OSError."""
    directory = f"{root}/{DIVERGENT_DIRECTORY}"
    names = [name for name in files.listdir(directory) if name.endswith(STATE_SUFFIX)]
    truncations = [_decode(files.read_bytes(f"{directory}/{name}"), f"{directory}/{name}") for name in names]
    return sorted(truncations, key=lambda truncate: (truncate.time_ms, -truncate.start))


def truncate_log(
    files: Files,
    root: str,
    settings: StoreSettings,
    end: int,
    clock: Clock,
    *,
    why: str = "",
    log_directory: str | None = None,
) -> TruncationState:
    """Makes a stopped broker's log end at ``end``, or at the begin of the record that holds this offset.

    Raises StoreError when a broker uses the directory, or for an offset before the log's begin, OSError when the disk
    fails.
    """
    store = MessageStore(
        root=root, files=files, clock=clock, settings=settings, owner="pymq: cut", log_directory=log_directory
    )
    store.open()
    try:
        start, last_store_ms = _boundary(store.log, end)
        log_end, now_ms = store.physical_max_offset, clock.now_ms()
        name = f"{start:020d}-{log_end:020d}-{now_ms}{LOG_SUFFIX}"
        path = f"{root}/{DIVERGENT_DIRECTORY}/{name}" if start < log_end else ""
        truncate = TruncationState(start, log_end, _count_messages(store.log, start), now_ms, path, why)
        if path:
            _keep(store, files, truncate)
            _truncate(store, start, last_store_ms)
    finally:
        store.close()
    return truncate


def _boundary(log: CommitLog, end: int) -> tuple[int, int]:
    """(the begin of the record that holds ``end``, or ``end`` where one ends, store time of the record before it).

    In a damaged place it is the begin of that. Raises StoreError before the log's begin, OSError.
    """
    end = min(end, log.max_offset)
    if end < log.min_offset:
        raise StoreError(f"the log begins at {log.min_offset}, it can't be cut at {end}: start with an empty directory")
    segment = log.find(max(end - 1, log.min_offset))
    at, last_ms = segment.start if segment is not None else end, 0
    while at < end:
        for part in scan_fast(log, at, check_crc=True, stop=end):
            if isinstance(part, End):
                at = part.offset
            else:
                last_ms = part.store_ms if isinstance(part, Scanned) else int(part.store_ms[-1])
        later = find_later_record(log, at, 0) if at < end else None
        if later is None or later.offset == at or later.offset >= end:
            break
        at = later.offset
    return at, last_ms


def _count_messages(log: CommitLog, start: int) -> int:
    """Those of queues from a physical offset on. Raises OSError."""
    count = 0
    while start < log.max_offset:
        for part in scan_fast(log, start, check_crc=False, stop=log.max_offset):
            if isinstance(part, End):
                start = part.offset
            elif isinstance(part, Scanned):
                count += has_queue_unit(part.sys_flag)
            else:
                count += sum(map(has_queue_unit, part.sys_flags.tolist()))
        later = find_later_record(log, start, 0)
        if later is None or later.offset <= start:
            break
        start = later.offset
    return count


def _keep(store: MessageStore, files: Files, truncate: TruncationState) -> None:
    """Brings the bytes to the disk, then their record, which says that they are all there. Raises OSError."""
    directory = f"{store.root}/{DIVERGENT_DIRECTORY}"
    make_directory(files, directory)
    with closing(files.open(truncate.path, create=True)) as file:
        file.truncate(0)
        at = truncate.start
        while at < truncate.end:
            piece = store.read_log(at, PIECE_BYTES)
            if piece != _ZEROS[: len(piece)]:  # holes stay holes
                file.pwrite(at - truncate.start, piece)
            at += len(piece)
        file.truncate(truncate.end - truncate.start)
        file.sync()
    path = truncate.path.removesuffix(LOG_SUFFIX) + STATE_SUFFIX
    with closing(files.open(path + TEMPORARY_SUFFIX, create=True)) as file:
        file.truncate(0)
        file.pwrite(0, json.dumps(asdict(truncate), indent=2).encode() + b"\n")
        file.sync()
    files.replace(path + TEMPORARY_SUFFIX, path)
    files.sync_dir(directory)


def _truncate(store: MessageStore, end: int, last_store_ms: int) -> None:
    """The log ends at ``end`` now, and so do queues and index. The store can only be closed then. Raises OSError."""
    store.checkpoints.distrust_behind(end)
    store.log.truncate(end, last_store_ms)
    if store.digests is not None:
        store.digests.truncate(end)
    store.log.sync()
    store.queue_table.settle_all(store.log, end, trusted=True)
    if store.index is not None:
        store.index.truncate(end)


def _decode(raw: bytes, path: str) -> TruncationState:
    try:
        state = decode_json(raw, TruncationState)
    except JsonError as error:
        raise StoreError(f"{path} is not the record of a truncation: {error}; move it away") from error
    kept = path.removesuffix(STATE_SUFFIX) + LOG_SUFFIX  # the directory may have been moved since
    return replace(state, path=kept) if state.path else state
