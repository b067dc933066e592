"""Gives up tables and segments of the log that are gone, so that a broker starts again. Lost offsets stay taken.

Each missing segment becomes a sparse file with one blank record, which PyMQ and RocketMQ skip. A log that lost its end
goes on in the next segment. Units of lost messages become blank units, so consumers go on behind them, and the next
start keeps every queue's end (:mod:`pymq.store.queue.queue_ends`). The order is safe at any crash point: until the last
file is there, no broker starts, and another call continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

from pymq.errors import NotFoundError
from pymq.model.layout import (
    BATCH_UNIT_RANGE,
    BATCH_UNIT_SIZE_BYTES,
    BLANK_UNIT,
    BLANK_UNIT_SIZE,
    UNIT,
    UNIT_SIZE_BYTES,
)
from pymq.offline.blank_records import fill
from pymq.offline.directory import Directory
from pymq.offline.log_files import LogFiles
from pymq.offline.repair_log import LostRange, store_ms
from pymq.store.disk.checkpoint import CheckpointFile, Durable
from pymq.store.disk.fs import File, Files, sync_if_there
from pymq.store.disk.saved_tables import CONSEQUENCES, SavedTables
from pymq.store.integrity.digest_file import DigestFiles
from pymq.store.queue.queue_ends import Ends, save_queue_ends
from pymq.store.queue.queue_table import BATCH_QUEUES
from pymq.store.queue.sums_file import SumsFile
from pymq.store.replica.epoch_table import ENDED_AT, ENTRIES, epoch_table

_EPOCH_ID = "epochId"


@dataclass(slots=True)
class AcceptedLoss:
    """What is given up: the missing segments by their starts, and the messages by queue."""

    directory: str
    segments: list[int] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    log_end: int | None = None  # where the log goes on, when it lost its end
    tables: dict[str, str] = field(default_factory=dict)  # saved ones that are gone, and what a start lacks then

    @property
    def lost_count(self) -> int:
        return sum(one["count"] for one in self.lost)

    def as_json(self) -> dict[str, Any]:
        return {
            "directory": self.directory,
            "missing_segments": list(self.segments),
            "messages_lost": self.lost_count,
            "lost_messages": list(self.lost),
            "log_goes_on_at": self.log_end,
            "missing_tables": dict(self.tables),
        }


def lost_segments(log: LogFiles) -> list[int]:
    """Return the starts of the missing and empty segments, the oldest first.

    Raises NotFoundError for a log without any file.
    """
    if not log.segments:
        raise NotFoundError(
            f"{log.directory} holds no segment: rebuild the directory from another broker (`pymq store recover`), or "
            f"move it away to start with an empty one"
        )
    size = log.segment_size
    starts = {start for begin, end in log.gaps for start in range(begin, end, size)}
    starts.update(range(log.end_of_files, log.vouched_end, size))
    starts.update(start for start in log.empty if start < log.vouched_end)
    return sorted(starts)


def accept_loss(directory: Directory, files: Files, new_epoch_id: str, *, is_confirmed: bool) -> AcceptedLoss:
    """Find what is missing; when it ``is_confirmed``, give it up. ``files`` writes; the caller holds the directory.

    ``new_epoch_id``: 16 hex digits that no other epoch has. Raises NotFoundError, StoreError, OSError.
    """
    log, root = directory.log, directory.root
    saved = SavedTables(files, root)
    tables = {name: CONSEQUENCES[name] for name in saved.missing()}
    result = AcceptedLoss(root, lost_segments(log) if log.segments or not tables else [], tables=tables)
    if is_confirmed and result.tables:
        saved.forget(list(result.tables))
    if not result.segments:
        return result
    old_end, size = log.end_of_files, log.segment_size
    if result.segments[-1] >= old_end:
        result.log_end = result.segments[-1] + size
    lost = _Lost(result.segments, size)
    durable = directory.checkpoint.durable
    # Below this offset all units are known to be on the disk. A start drops the others and makes them again.
    queued_end = lost.after(durable.queue_offset) if durable is not None else result.segments[-1] + size
    ends: Ends = {}
    for kind in _KINDS:
        _find_lost(files, root, kind, lost, result, ends)
    if is_confirmed:
        save_queue_ends(files, root, ends)
        _save_checkpoint(files, directory, lost)
        if result.log_end is not None:
            _end_epoch(files, root, old_end, new_epoch_id)
        for topic, queues in ends.items():
            for kind, queue_id in product(_KINDS, queues):
                _blank_units(files, f"{root}/{kind.directory}/{topic}/{queue_id}", kind, lost, queued_end)
        _drop_derived(files, root, result.segments)
        for start in result.segments:
            _make_segment(files, log, start)
    return result


class _Lost:
    """The physical offsets in missing segments."""

    def __init__(self, starts: list[int], segment_size: int) -> None:
        self._starts = set(starts)
        self._size = segment_size

    def __contains__(self, offset: int) -> bool:
        return offset - offset % self._size in self._starts

    def after(self, offset: int) -> int:
        """Return the offset, or where the missing segments around it end."""
        while offset in self:
            offset += self._size - offset % self._size
        return offset


def _end_epoch(files: Files, root: str, end: int, new_epoch_id: str) -> None:
    """Begin a new entry where the log's end is lost: slaves have other bytes there, and must not take ours for them."""
    table = epoch_table(files, root)
    content = table.load()
    entries = content.get(ENTRIES)
    if not isinstance(entries, list) or not entries:
        return
    kept = [entry for entry in entries if entry["start"] < end]
    epoch = max(entry["epoch"] for entry in entries)
    content[ENTRIES] = [*kept, {"epoch": epoch, "start": end, _EPOCH_ID: new_epoch_id}]
    content.pop(ENDED_AT, None)
    table.save(content)


def _find_lost(files: Files, root: str, kind: _Kind, lost: _Lost, result: AcceptedLoss, ends: Ends) -> None:
    """Add the ends of queues with lost messages to ``ends``, and note in ``result`` what each loses."""
    root = f"{root}/{kind.directory}"
    for topic in files.listdir(root) if files.is_dir(root) else []:
        for name in filter(str.isdigit, files.listdir(f"{root}/{topic}")):
            end, count = 0, 0
            ranges: list[range] = []
            for unit in _units(files, f"{root}/{topic}/{name}", kind):
                end = unit.offsets.stop
                if unit.size != BLANK_UNIT_SIZE and unit.place in lost:
                    ranges.append(unit.offsets)
                    count += len(unit.offsets)
            if ranges:
                ends.setdefault(topic, {})[int(name)] = end
                result.lost.append({
                    "topic": topic, "queue_id": int(name), "from_offset": ranges[0].start,
                    "to_offset": ranges[-1].stop - 1, "count": count,
                })  # fmt: skip


class _Kind(NamedTuple):
    """A kind of queue: the directory of all of them, and the size of a unit."""

    directory: str
    unit_size: int


_KINDS = (_Kind("consumequeue", UNIT_SIZE_BYTES), _Kind(BATCH_QUEUES, BATCH_UNIT_SIZE_BYTES))


class _Unit(NamedTuple):
    """One unit: its file and the position there, the queue offsets that it stands for, and its record."""

    file: File
    at: int
    offsets: range
    place: int
    size: int


def _units(files: Files, path: str, kind: _Kind) -> Iterator[_Unit]:
    """Yield each unit in a queue's files; nothing without the directory."""
    for name in files.listdir(path) if files.is_dir(path) else []:
        if len(name) == 20 and name.isdigit():
            file = files.open(f"{path}/{name}")
            try:
                raw = file.pread(0, file.size())
                for at in range(0, len(raw) - kind.unit_size + 1, kind.unit_size):
                    place, size, _ = UNIT.unpack_from(raw, at)
                    first, count = (int(name) + at) // kind.unit_size, 1
                    if kind.unit_size == BATCH_UNIT_SIZE_BYTES:
                        first, count = BATCH_UNIT_RANGE.unpack_from(raw, at)
                    if size > 0:
                        yield _Unit(file, at, range(first, first + count), place, size)
            finally:
                file.close()


def _blank_units(files: Files, path: str, kind: _Kind, lost: _Lost, queued_end: int) -> None:
    """Make units of lost records blank ones, except those that a start drops and makes again."""
    touched = set()
    for unit in _units(files, path, kind):
        if unit.size != BLANK_UNIT_SIZE and unit.place in lost and unit.place < queued_end:
            unit.file.pwrite(unit.at, BLANK_UNIT)
            touched.add(unit.file.path)
    for name in touched:
        sync_if_there(files, name)


def _drop_derived(files: Files, root: str, starts: list[int]) -> None:
    """Remove the index, which points at lost records, the digests of lost segments, and the checksums of units."""
    sums = SumsFile(files, f"{root}/digests")
    if files.exists(sums.path):
        files.remove(sums.path)
    digests = DigestFiles(files, f"{root}/digests")
    for start in set(digests.segment_starts()) & set(starts):
        digests.remove(start)
    if files.is_dir(f"{root}/index"):
        files.remove_tree(f"{root}/index")
        files.sync_dir(root)


def _save_checkpoint(files: Files, directory: Directory, lost: _Lost) -> None:
    """Vouch for the blank segments, and for no key. Offsets inside of lost segments move behind them."""
    before, start = directory.checkpoint, directory.log.start
    durable = before.durable
    if durable is None:
        end = lost.after(directory.log.vouched_end)
        if end == directory.log.vouched_end:
            return
        durable = Durable(log_offset=end, log_begin=start)  # the next start makes all queues again
    durable = replace(
        durable,
        log_offset=lost.after(durable.log_offset),
        queue_offset=lost.after(durable.queue_offset),
        index_offset=start,
        index_name=0,
        index_count=0,
    )
    CheckpointFile(files, f"{directory.root}/checkpoint").save(replace(before, index_ms=0, durable=durable))


def _make_segment(files: Files, log: LogFiles, start: int) -> None:
    """Make the file under another name and rename it once it is complete and on the disk."""
    end = start + log.segment_size
    path = f"{log.directory}/{start:020d}"
    file = files.open(f"{path}.tmp", create=True)
    try:
        file.truncate(0)
        file.truncate(log.segment_size)
        for offset, raw in fill(start, end, end, store_ms(log, LostRange(start, end, ""))):
            file.pwrite(offset - start, raw)
        file.sync()
    finally:
        file.close()
    files.replace(f"{path}.tmp", path)
    files.sync_dir(log.directory)
