"""Walks the commit log the faster way: plainly at first, then with numpy in columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned
from pymq.store.scan.scanner import End, scan

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

PLAIN_BYTES_MAX = 4 << 20  # read record by record; behind that, loading numpy pays


def scan_fast(
    log: CommitLog, start: int, *, check_crc: bool, torn_from: int | None = None, stop: int | None = None
) -> Iterator[Records | Scanned | End]:
    """As :func:`scan`: the first records one by one, the rest in columns, for most walks are short."""
    plain_end = start + PLAIN_BYTES_MAX
    for part in scan(log, start, check_crc=check_crc, torn_from=torn_from, stop=stop):
        if isinstance(part, Scanned) and part.offset >= plain_end:
            start = part.offset
            break
        yield part
    else:
        return
    from pymq.store.scan.bulk import scan_bulk  # noqa: PLC0415 - it needs numpy

    yield from scan_bulk(log, start, check_crc=check_crc, torn_from=torn_from, stop=stop)
