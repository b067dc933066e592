"""Writes a sound copy of a damaged directory: readable messages stay in place, lost ones are reported exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pymq.clock import Clock
from pymq.errors import NotFoundError, StoreError, UsageError
from pymq.model import fastjson
from pymq.offline.digest_check import patch_flipped_bits
from pymq.offline.directory import Directory, open_directory
from pymq.offline.findings import Report
from pymq.offline.log_files import open_log
from pymq.offline.log_walk import record_at
from pymq.offline.repair_log import LostRange, copy_log, fill_ranges
from pymq.offline.repair_queues import Rebuilt, rebuild_queues
from pymq.offline.verify import Verification, verify
from pymq.store.disk.checkpoint import LIGHT_COUNT_UNKNOWN, Checkpoint, CheckpointFile, Durable
from pymq.store.disk.fs import Files
from pymq.store.disk.saved_tables import CONSEQUENCES, SavedTables
from pymq.store.light.light_queues import LIGHT_DIRECTORY
from pymq.store.log.opening import WAYS_OUT
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore

# Rebuilt, or absent in a stopped broker's directory; everything else is copied unchanged.
_NOT_COPIED = {
    "commitlog",
    "consumequeue",
    "batchconsumequeue",
    LIGHT_DIRECTORY,
    "consumequeue_ext",
    "index",
    "digests",
    "coldlog",
    "checkpoint",
    "abort",
    "abort.bak",
    "lock",
}
_COPY_BYTES = 4 << 20


@dataclass(slots=True)
class RepairReport:
    """What a repair found, kept and lost. Offsets in ``ranges`` are physical."""

    found: Report
    target: str
    message_count: int = 0
    ranges: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    healed: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def lost_count(self) -> int:
        return sum(one["count"] for one in self.lost)

    def as_json(self) -> dict[str, Any]:
        return {
            "directory": self.found.directory,
            "target": self.target,
            "damage": dict(self.found.counts),
            "messages_kept": self.message_count,
            "messages_lost": self.lost_count,
            "lost_ranges": list(self.ranges),
            "lost_messages": list(self.lost),
            "bits_turned_back": list(self.healed),
            "notes": list(self.notes),
        }


def check_target(files: Files, source: str, target: str) -> None:
    """Raise UsageError when ``target`` is not empty, or lies inside the source directory, which stays unchanged."""
    if f"{target}/".startswith(f"{source}/"):
        raise UsageError(f"{target} lies inside {source}, which a repair leaves unchanged: name a directory elsewhere")
    if files.exists(target) and (not files.is_dir(target) or files.listdir(target)):
        raise UsageError(f"{target} exists already: name a directory that does not exist or is empty")


def repair(
    directory: Directory, files: Files, target: str, clock: Clock, advance: Callable[[int], None] | None = None
) -> RepairReport:
    """Read ``directory``, write ``target``. Raises UsageError, NotFoundError, StoreError, OSError.

    The log is read twice and written once; ``advance`` gets the bytes of the first read and of the write.
    """
    check_target(files, directory.root, target)
    if not directory.log.segments:
        raise NotFoundError(
            f"{directory.log_directory} holds no segment that can be read, so there is nothing to copy; {WAYS_OUT}"
        )
    healed = patch_flipped_bits(directory)
    verification = Verification(directory, advance)
    found = verification.run()
    report = RepairReport(found, target)
    report.healed = [
        {"file": segment.path, "position": at, "physical_offset": segment.start + at, "bit": mask.bit_length() - 1}
        for segment, at, mask in healed
    ]
    ranges = [LostRange(one.start, one.end, one.reason) for one in verification.damaged.ranges]
    for offset in sorted(verification.bad_records):
        record = record_at(directory.log, offset)
        assert record is not None
        ranges.append(
            LostRange(offset, offset + record.size, "its queue leads elsewhere: the record's head is damaged")
        )
    new_log = f"{target}/commitlog"
    copy_log(directory.log, found.log_end, files, new_log, advance)
    for one in fill_ranges(directory.log, ranges, files, new_log):
        path, position = directory.log.place(one.start)
        report.ranges.append(
            {
                "file": path,
                "position": position,
                "physical_offset": one.start,
                "bytes": one.end - one.start,
                "reason": one.reason,
            }
        )
    _copy_rest(directory, files, target, report)
    settings = _settings(directory)
    _rebuild(directory, verification, files, target, settings, report)
    _open_once(files, target, clock, settings)
    _check(directory, target)
    return report


def _settings(directory: Directory) -> StoreSettings:
    """Return the files' own geometry, so that a broker with the old configuration opens the new directory."""
    settings = directory.settings
    queue_size = next((reader.file_size_bytes for reader in directory.queues() if reader.file_size_bytes), None)
    batch_size = next((reader.file_size_bytes for reader in directory.batch_queues() if reader.file_size_bytes), None)
    options = directory.options
    slots = int(options.get("maxHashSlotNum", settings.index_slot_count))
    entries = int(options.get("maxIndexNum", settings.index_entry_count))
    for path in directory.index_paths():
        file = directory.files.open(path)
        slots, entries = directory.index_geometry(file.size()) or (slots, entries)
        file.close()
    return StoreSettings(
        segment_size_bytes=directory.log.segment_size or settings.segment_size_bytes,
        queue_file_size_bytes=queue_size
        or int(options.get("mappedFileSizeConsumeQueue", settings.queue_file_size_bytes)),
        batch_queue_file_size_bytes=batch_size
        or int(options.get("mapperFileSizeBatchConsumeQueue", settings.batch_queue_file_size_bytes)),
        index_slot_count=slots,
        index_entry_count=entries,
        index_enabled=options.get("messageIndexEnable", "true").strip().lower() == "true",
        delay_levels_ms=settings.delay_levels_ms,
    )


def _rebuild(
    directory: Directory,
    verification: Verification,
    files: Files,
    target: str,
    settings: StoreSettings,
    report: RepairReport,
) -> None:
    log = open_log(files, f"{target}/commitlog")
    try:
        rebuilt = rebuild_queues(log, verification.queues, files, f"{target}/consumequeue", settings)
    finally:
        log.close()
    report.message_count = rebuilt.message_count
    report.lost = _lost_rows(rebuilt)
    doubtful = {one.physical_offset for one in verification.report.findings if one.kind == "index"} - {None}
    if doubtful:
        report.notes.append(
            f"keys of {len(doubtful)} records differ from the old index: the records stay unchanged, see verify"
        )
    report.notes += [f"the record at {offset} repeats an offset and is in no queue" for offset in rebuilt.left_out]
    # Opening the store builds index and light queues from the log, because the checkpoint says that there are none.
    durable = Durable(
        log_offset=verification.report.log_end,
        queue_offset=verification.report.log_end,
        unit_count=rebuilt.unit_count,
        index_offset=directory.log.start,
        light_count=LIGHT_COUNT_UNKNOWN,
    )
    checkpoint = Checkpoint(rebuilt.last_store_ms, rebuilt.last_store_ms, durable=durable)
    CheckpointFile(files, f"{target}/checkpoint").save(checkpoint)


def _lost_rows(rebuilt: Rebuilt) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "queue_id": queue_id, "from_offset": start, "to_offset": end - 1, "count": end - start}
        for (topic, queue_id), ranges in sorted(rebuilt.lost.items())
        for start, end in ranges
    ]


def _copy_rest(directory: Directory, files: Files, target: str, report: RepairReport) -> None:
    """Copy tables, a bad one from its backup, and other parts' files (timers, static topics)."""
    for name in directory.files.listdir(directory.root):
        source = f"{directory.root}/{name}"
        if name not in _NOT_COPIED and source != directory.log_directory:
            _copy_tree(directory.files, source, files, f"{target}/{name}", report)
    saved = SavedTables(files, target)
    if missing := saved.missing():
        saved.forget(missing)
        report.notes += [f"config/{name} is lost: {CONSEQUENCES[name]}" for name in missing]


def _with_tables(names: list[str]) -> list[str]:
    """Return the names in a directory, also of tables of which there is only the backup."""
    return sorted({*names, *(name.removesuffix(".bak") for name in names if name.endswith(".json.bak"))})


def _copy_tree(source_files: Files, source: str, files: Files, target: str, report: RepairReport) -> None:
    if source_files.is_dir(source):
        files.makedirs(target)
        for name in _with_tables(source_files.listdir(source)):
            _copy_tree(source_files, f"{source}/{name}", files, f"{target}/{name}", report)
        files.sync_dir(target)
        return
    if source.endswith(".json") and not _is_table(source_files, source):
        if _is_table(source_files, source + ".bak"):
            report.notes.append(f"{source} is bad: its backup replaces it")
            source += ".bak"
        else:
            report.notes.append(
                f"{source} is bad, and so is its backup: it is left out, and a broker starts with an empty one"
            )
            return
    _copy_file(source_files, source, files, target)


def _is_table(files: Files, path: str) -> bool:
    try:
        return isinstance(fastjson.loads(files.read_bytes(path)), dict)
    except (OSError, fastjson.JsonError):
        return False


def _copy_file(source_files: Files, source: str, files: Files, target: str) -> None:
    one = source_files.open(source)
    size = one.size()
    copy = files.open(target, create=True, size=size)
    try:
        at = one.next_data(0)
        while at is not None and at < size:
            chunk = one.pread(at, min(_COPY_BYTES, size - at))
            if chunk.count(0) != len(chunk):
                copy.pwrite(at, chunk)
            at = one.next_data(at + len(chunk)) if chunk else None
        copy.sync()
    finally:
        one.close()
        copy.close()


def _open_once(files: Files, target: str, clock: Clock, settings: StoreSettings) -> None:
    """Open the new directory as a broker would: builds the index, and proves that it opens without a loss."""
    store = MessageStore(root=target, files=files, clock=clock, settings=settings)
    opened = store.open()
    store.insert_waiting_keys()
    store.close()
    if opened.damaged or opened.truncated_bytes:
        raise StoreError(
            f"the repaired {target} still has damage: {opened.damaged}, {opened.truncated_bytes} bytes were truncated"
        )


def _check(directory: Directory, target: str) -> None:
    copy = open_directory(directory.files, target, options=_without_paths(directory.options))
    try:
        result = verify(copy)
    finally:
        copy.close()
    if not result.sound:
        first = result.first_bad
        raise StoreError(f"the repaired {target} does not pass its check: {first.text if first else 'see verify'}")


def _without_paths(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != "storePathCommitLog"}
