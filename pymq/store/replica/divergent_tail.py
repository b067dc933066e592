"""The divergent tail: what a log holds that its master's does not. It is kept under ``divergent/`` and truncated.

The order is safe at any crash point. First the bytes and a record of the truncation reach the disk. Then the checkpoint
stops vouching for the tail. Then the log is truncated, and queues, index and checkpoint after it. A crash leaves the
log truncated, or still longer and made of whole records; calling :func:`truncate_log` again truncates the rest.
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
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore

DIVERGENT_DIRECTORY = "divergent"
LOG_SUFFIX = ".log"
STATE_SUFFIX = ".json"
TEMPORARY_SUFFIX = ".tmp"
PIECE_BYTES = 1 << 20
_ZEROS = bytes(PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class TruncatedTail:
    """Log bytes from ``start`` to ``end`` were truncated. ``path`` keeps them; empty when the log ended at ``start``.

    ``message_count``: their messages that belong to queues. ``time_ms``: wall clock. ``why``: who asked for it.
    """

    start: int
    end: int
    message_count: int
    time_ms: int
    path: str
    why: str = ""


def list_truncations(files: Files, root: str) -> list[TruncatedTail]:
    """The truncations recorded in a broker's directory, oldest first. Raises OSError."""
    directory = f"{root}/{DIVERGENT_DIRECTORY}"
    names = [name for name in files.listdir(directory) if name.endswith(STATE_SUFFIX)]
    truncations = [_decode(files.read_bytes(f"{directory}/{name}"), f"{directory}/{name}") for name in names]
    return sorted(truncations, key=lambda truncation: (truncation.time_ms, -truncation.start))


def truncate_log(
    files: Files,
    root: str,
    settings: StoreSettings,
    end: int,
    clock: Clock,
    *,
    why: str = "",
    log_directory: str | None = None,
) -> TruncatedTail:
    """Make a stopped broker's log end at ``end``, or at the begin of the record that holds this offset.

    Raises StoreError when a broker uses the directory or ``end`` lies before the log's begin, OSError when the disk
    fails.
    """
    store = MessageStore(
        root=root, files=files, clock=clock, settings=settings, owner="pymq: truncate", log_directory=log_directory
    )
    store.open()
    try:
        boundary = store.find_boundary(end)
        start, log_end, now_ms = boundary.offset, store.physical_max_offset, clock.now_ms()
        name = f"{start:020d}-{log_end:020d}-{now_ms}{LOG_SUFFIX}"
        path = f"{root}/{DIVERGENT_DIRECTORY}/{name}" if start < log_end else ""
        truncation = TruncatedTail(start, log_end, boundary.message_count, now_ms, path, why)
        if path:
            _keep(store, files, truncation)
            store.truncate(boundary)
    finally:
        store.close()
    return truncation


def _keep(store: MessageStore, files: Files, truncation: TruncatedTail) -> None:
    """Bring the bytes to the disk, then the record, which says that all of them are there. Raises OSError."""
    directory = truncation.path.rpartition("/")[0]
    make_directory(files, directory)
    with closing(files.open(truncation.path, create=True)) as file:
        file.truncate(0)
        at = truncation.start
        while at < truncation.end:
            piece = store.read_log(at, PIECE_BYTES)
            if piece != _ZEROS[: len(piece)]:  # holes stay holes
                file.pwrite(at - truncation.start, piece)
            at += len(piece)
        file.truncate(truncation.end - truncation.start)
        file.sync()
    path = truncation.path.removesuffix(LOG_SUFFIX) + STATE_SUFFIX
    with closing(files.open(path + TEMPORARY_SUFFIX, create=True)) as file:
        file.truncate(0)
        file.pwrite(0, json.dumps(asdict(truncation), indent=2).encode() + b"\n")
        file.sync()
    files.replace(path + TEMPORARY_SUFFIX, path)
    files.sync_dir(directory)


def _decode(raw: bytes, path: str) -> TruncatedTail:
    try:
        state = decode_json(raw, TruncatedTail)
    except JsonError as error:
        raise StoreError(f"{path} is not the record of a truncation: {error}; move it away") from error
    kept = path.removesuffix(STATE_SUFFIX) + LOG_SUFFIX  # the directory may have been moved since
    return replace(state, path=kept) if state.path else state
