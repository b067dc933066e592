"""Finds out at a start which index files can't be what they were, without reading all their entries.

Index files follow each other without a gap: between the last record of one and the first of the next no record has
keys. So a file that is missing, exchanged or renamed leaves a gap or goes back. The first and the last entry of each
file must lead to records with their keys, which an emptied or overwritten file can't show. A record that can't be read
shows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymq.model.javahash import index_key_hash
from pymq.store.index.index_file import IndexFile
from pymq.store.index.keyed_records import KeyRows
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, has_index_entries
from pymq.store.scan.scanner import End, record_in, scan

_SECOND_MS = 1000
GAP_BYTES_MAX = 16 << 20  # of the log, searched between two files: records without keys are rare


def find_doubt(files: Sequence[IndexFile], log: CommitLog) -> tuple[int, str] | None:
    """The number of the first file that can't be trusted, and why; None when all can."""
    end = log.min_offset
    for number, file in enumerate(files):
        if not file.sane:
            return number, f"{file.path} has a header that can't be true"
        if file.count <= 1:
            if number + 1 < len(files):
                return number, f"{file.path} is empty, but newer files follow it"
            return None
        first, last = file.entry(1), file.entry(file.count - 1)
        if first[1] != file.begin_offset or last[1] != file.end_offset or last[1] < first[1]:
            return number, f"{file.path} has other entries than its header says"
        if number and first[1] < end:
            return number, f"{file.path} begins with the record at {first[1]}, the file before it ends at {end}"
        for key_hash, offset, _, _ in (first, last):
            if not entry_fits(log, key_hash, offset):
                return number, f"{file.path} leads to a record at {offset} that has no such key"
        if not _times_fit(file, log):
            return number, f"{file.path} says other times than its records"
        lost = _keyed_record_between(log, end, first[1], is_first=not number)
        if lost is not None:
            return number, f"no index file has the keys of the record at {lost}, and {file.path} begins behind it"
        end = last[1]
    return None


def _times_fit(file: IndexFile, log: CommitLog) -> bool:
    """False when the header says other times than the first and the last record, by which look-ups pass over files.

    After a start the end time is known to a second.
    """
    first = _record_at(log, file.begin_offset) if file.begin_offset >= log.min_offset else None
    last = _record_at(log, file.end_offset) if file.end_offset >= log.min_offset else None
    if first is not None and first.store_ms != file.begin_ms:
        return False
    return last is None or last.store_ms < file.begin_ms or abs(last.store_ms - file.end_ms) < _SECOND_MS


def entry_fits(log: CommitLog, key_hash: int, offset: int) -> bool:
    """False when the record at ``offset`` is in the log, readable, and has no key with this hash."""
    if offset < log.min_offset:
        return True  # deleted since
    if offset >= log.end_of_files:
        return False
    record = _record_at(log, offset)
    return record is None or key_hash in key_hashes(record)


def leads_into_record(file: IndexFile, log: CommitLog, offset: int) -> bool:
    """True when ``offset``, where no good record begins, lies inside one: then the entry is wrong, not the log.

    Records are walked from the one that the entry before leads to, because physical offsets ascend.
    """
    number = file.count_below(offset)
    start = max(file.entry(number - 1)[1] if number > 1 else 0, log.min_offset)
    try:
        for record in scan(log, start, check_crc=False):
            if isinstance(record, End) or not start <= record.offset < min(offset, start + GAP_BYTES_MAX):
                return False
            if record.offset + record.size > offset:
                return True
    except OSError:
        pass  # a bad place of the disk
    return False


def key_hashes(record: Scanned) -> list[int]:
    """The hash of each key of a record, in the order of their entries."""
    rows = KeyRows()
    rows.add_record(record.topic, record.properties, record.offset, record.store_ms)
    return [index_key_hash(record.topic, key.decode("utf-8", "replace")) for key in rows.keys]


def next_offset(file: IndexFile, log: CommitLog) -> int:
    """The physical offset from which on keys are in no file, when ``file`` is the newest.

    The keys of its last record may lie in two files: then they are inserted again.
    """
    offset = file.end_offset
    record = _record_at(log, offset) if log.min_offset <= offset < log.end_of_files else None
    if record is None:
        return offset + 1
    count = 0
    while count < file.count - 1 and file.entry(file.count - 1 - count)[1] == offset:
        count += 1
    return offset + record.size if count >= len(key_hashes(record)) else offset


def _record_at(log: CommitLog, offset: int) -> Scanned | None:
    segment = log.find(offset)
    try:
        return None if segment is None else record_in(segment, offset)
    except OSError:
        return None


def _keyed_record_between(log: CommitLog, start: int, end: int, *, is_first: bool) -> int | None:
    """The first record between two physical offsets, both exclusive, that has keys. ``is_first``: ``start`` counts."""
    start = max(start, log.min_offset)
    try:
        for record in scan(log, start, check_crc=False):
            if isinstance(record, End) or record.offset >= min(end, start + GAP_BYTES_MAX):
                break
            counts = is_first or record.offset > start
            if counts and has_index_entries(record.sys_flag) and key_hashes(record):
                return record.offset
    except OSError:
        pass  # a bad place of the disk
    return None
