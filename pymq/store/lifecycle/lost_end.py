"""Finds what a disk has lost although it had called it synced, by reading the newest segments again.

Recovery trusts the checkpoint: what lies below is not read, and a damaged record behind it is stepped over, so that no
offset is given twice. A replica need not live with such a hole, because other replicas have the bytes. Its log has to
end before the hole, else it would vote, and lead, with a log that it does not have.
"""

from __future__ import annotations

from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.log.commit_log import CommitLog
from pymq.store.scan.fast_scanner import scan_fast
from pymq.store.scan.scanner import End

CHECKED_SEGMENT_COUNT = 2  # a disk's cache holds less than the newest full segment and the one behind it


def damaged_end(log: CommitLog, checkpoint: Checkpoint) -> int | None:
    """Return where the first damaged record of the newest segments begins; None when all are whole. Raises OSError.

    Only bytes count that the checkpoint calls synced: behind them a crash may leave anything.
    """
    if checkpoint.durable is None:
        return None
    stop = min(checkpoint.durable.log_offset, log.end_of_files)
    newest = [segment.start for segment in log.segments if segment.start < stop][-CHECKED_SEGMENT_COUNT:]
    if not newest:
        return None
    for part in scan_fast(log, newest[0], check_crc=True, torn_from=newest[0], stop=stop):
        if isinstance(part, End) and part.offset < stop:
            return part.offset
    return None
