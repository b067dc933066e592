"""IndexService: the key index. Keys of committed records wait, and are inserted in bulk after the answer is sent."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import cast

from pymq.clock import Clock
from pymq.errors import StoreUnavailableError, UnreadableError
from pymq.model.javahash import index_key_hash
from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.disk.fs import Files
from pymq.store.index.entry_proof import PROOF_BYTES_MAX, Prover
from pymq.store.index.index_file import DamagedEntryError, IndexFile
from pymq.store.index.index_files import IndexFiles
from pymq.store.index.index_lookup import find_records_in_steps
from pymq.store.index.keyed_records import (
    BATCH_PROPERTIES_BYTES,
    KeyColumns,
    KeyedRecords,
    KeyRows,
    WaitingRecords,
    joined,
)
from pymq.store.integrity.checked_read import record_store_ms
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import has_index_entries
from pymq.store.scan.scanner import End, scan
from pymq.store.settings import StoreSettings

_BULK_COUNT_MIN = 32  # with fewer keys numpy costs more than it saves, and a quiet broker need not import it
_PLAIN_COUNT_MAX = 512  # keys inserted one by one at a time, while numpy is not loaded
_PENDING_COUNT_MAX = 1 << 16  # more records do not wait in memory: they are read from the log again
_PENDING_BYTES_MAX = 16 << 20  # nor do more properties
_COLUMNS_COUNT = 4096  # hashed keys inserted together: more keys cost less each
_PROOF_BYTES_AT_ONCE = 32 << 20  # a look-up without rests, some 20 ms
_PROOF_BYTES_A_TICK = 4 << 20
DAMAGED_FILES_MAX = 3  # that look-ups have made again, until the next start
_RELEASE_COUNT = 1 << 18  # entries inserted before the mapped pages are given back


class IndexService:
    """The key index of a store. One thread calls everything, but for what :class:`IndexFiles` (:attr:`disk`) allows."""

    def __init__(self, files: Files, directory: str, log: CommitLog, clock: Clock, settings: StoreSettings) -> None:
        self.disk = IndexFiles(files, directory, log, clock, settings)
        self._log = log
        self._settings = settings
        self.bulk_ready = True  # a server turns it off until numpy is loaded, which would block the event loop
        self.problem: str | None = None  # why keys wait; None when all is well
        self._damage_count = 0  # of files that look-ups found damaged
        self.prover = Prover(lambda offset: record_store_ms(log, offset), lambda: self.bulk_ready)
        self.is_rebuilding = False  # lost keys are inserted again from the log, and look-ups say so
        self._columns: list[KeyColumns] = []  # hashed keys that wait; their records come before the pending ones
        self._pending = WaitingRecords()
        self._behind_from: int | None = None  # the index can't follow: it reads records from here on from the log
        self._inserted = 0

    @property
    def files(self) -> list[IndexFile]:
        """The index files, oldest first."""
        return self.disk.files

    @property
    def notes(self) -> list[str]:
        """What the last :meth:`load` found wrong."""
        return self.disk.notes

    def load(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        """Open the files. Returns the physical offset from which on keys have to be inserted. Raises OSError."""
        return self.disk.load(checkpoint, log_min_offset, clean=clean)

    def truncate(self, log_end: int) -> None:
        """Drop the entries of records from ``log_end`` on, so that no key points behind the log."""
        self._pending.truncate(log_end)
        self._columns = [columns.below(log_end) for columns in self._columns]
        self.disk.truncate(log_end)

    # -- inserting ----------------------------------------------------------------------------------------------

    def add(self, topic: str, properties: bytes, physical_offset: int, store_ms: int) -> None:
        """Let one record's keys wait; insert at once when many wait."""
        if self._behind_from is not None:
            return
        self._pending.add(topic, properties, physical_offset, store_ms)
        if len(self._pending) >= self._settings.index_batch_count:
            self.work()
            self._bound_pending()

    def add_columns(self, columns: KeyColumns) -> None:
        """Let the keys of many records wait; insert at once when many wait.

        When the index can't follow, it reads them from the log later.
        """
        self.bulk_ready = True  # numpy is loaded: it made the columns
        if self._behind_from is not None or not len(columns.offsets):
            return
        if self._pending:
            from pymq.store.index.bulk_keys import waiting_keys  # noqa: PLC0415 - it needs numpy

            self._columns.append(waiting_keys(self._pending))
            self._pending = WaitingRecords()
        self._columns.append(columns)
        if self._columns_count >= _COLUMNS_COUNT:
            self.work()
            self._bound_pending()

    def extend(self, records: KeyedRecords) -> None:
        """Let the records of one commit wait. When the index can't follow, it reads them from the log later."""
        if self._behind_from is not None:
            return
        self._pending.extend(records)
        self._bound_pending()

    def _bound_pending(self) -> None:
        if self.pending_count > _PENDING_COUNT_MAX or self._pending.size_bytes > _PENDING_BYTES_MAX:
            self._behind_from = self.next_offset
            self._columns, self._pending = [], WaitingRecords()

    @property
    def next_offset(self) -> int:
        """Keys of every record below this physical offset are in the files."""
        if self._behind_from is not None:
            return self._behind_from
        first = next((int(columns.offsets[0]) for columns in self._columns if len(columns.offsets)), None)
        if first is not None:
            return first
        return self._pending.offsets[0] if self._pending else self._log.visible_end[0]

    @property
    def _columns_count(self) -> int:
        return sum(len(columns.offsets) for columns in self._columns)

    @property
    def pending_count(self) -> int:
        return len(self._pending) + self._columns_count

    @property
    def waiting(self) -> bool:
        return bool(self._pending or self._columns) or self._behind_from is not None

    def work(self) -> None:
        """Insert one batch of the keys that wait. A full disk pauses it (:attr:`problem`), and it tries again.

        An error that only a bug can cause pauses it too: messages are stored and served without their keys.
        """
        if self._behind_from is not None and not self._pending:
            self._read_behind()
        columns, batch = self._columns, KeyedRecords()
        if not columns:
            batch = self._pending.first(self._settings.index_batch_count if self.bulk_ready else _PLAIN_COUNT_MAX)
        if not columns and not batch:
            return
        try:
            if columns:
                self._insert_columns(joined(columns))
            else:
                self._insert(batch)
        except OSError as error:
            self._pause(error)
            return
        except Exception as error:
            self.problem = (
                f"the key index pauses: {type(error).__name__}: {error}; this is a bug or a broken installation, "
                f"keys wait until it is mended and the broker restarted"
            )
            return
        self.problem = None
        self._columns = []
        self._pending.drop_first(len(batch))

    def _pause(self, error: OSError) -> None:
        self.problem = (
            f"the key index pauses: {error.filename or self.disk.directory}: {error.strerror}; "
            f"make room, it catches up by itself"
        )

    def catch_up(self) -> None:
        """Insert all keys that wait, unless lost ones are inserted again: then that goes on in the background."""
        if not self.is_rebuilding:
            self.drain()

    def drain(self) -> None:
        """Insert all keys that wait, unless the disk is full."""
        for _ in self._drain_in_steps():
            pass

    def _drain_in_steps(self) -> Generator[None]:
        """Do as :meth:`drain`, with a rest after each batch. Keys that come during the rests need not be inserted."""
        end = self._log.visible_end[0]
        while self.waiting and self.next_offset < end:
            before = self.next_offset, self.pending_count
            self.work()
            if self.problem is not None or (self.next_offset, self.pending_count) == before:
                return
            yield

    def rebuild_from(self, offset: int) -> None:
        """Insert the keys of records from a physical offset on in the background. Until then look-ups are refused."""
        self._behind_from, self.is_rebuilding = offset, True

    @property
    def rebuild_problem(self) -> str | None:
        """What an operator should know; None when no lost keys are inserted again."""
        if not self.is_rebuilding:
            return None
        return (
            f"the key index lost files and is made again from the log: keys of records from {self.next_offset} to "
            f"{self._log.visible_end[0]} can't be looked up yet; try again, or look messages up by id"
        )

    def _complete_in_steps(self) -> Generator[None]:
        """Insert all keys that wait, so that a look-up misses none. Raises StoreUnavailableError while many do."""
        if self.is_rebuilding:
            self.work()
        self._refuse_while_rebuilding()
        yield from self._drain_in_steps()
        self._refuse_while_rebuilding()  # another look-up may have found damage during a rest

    def _refuse_while_rebuilding(self) -> None:
        if (problem := self.rebuild_problem) is not None:
            raise StoreUnavailableError(problem)

    def release(self) -> None:
        """Give the mapped pages of the newest file back to the system."""
        if self.files:
            self._inserted = 0
            self.files[-1].release()

    def _read_behind(self) -> None:
        assert self._behind_from is not None
        start = max(self._behind_from, self._log.min_offset)
        for record in scan(self._log, start, check_crc=False):
            if isinstance(record, End) or record.offset >= self._log.visible_end[0]:
                self._behind_from, self.is_rebuilding = None, False
                return
            self._behind_from = record.offset + record.size
            if has_index_entries(record.sys_flag):
                self._pending.add(record.topic, record.properties, record.offset, record.store_ms)
                if (
                    len(self._pending) >= self._settings.index_batch_count
                    or self._pending.size_bytes >= BATCH_PROPERTIES_BYTES
                ):
                    return

    def _insert(self, records: KeyedRecords) -> None:
        """Insert the records' keys. Raises OSError; inserted keys stay then, and :meth:`find` skips their doubles."""
        if len(records) < _BULK_COUNT_MIN or not self.bulk_ready:
            self._insert_plain(records)
            return
        from pymq.store.index.bulk_keys import waiting_keys  # noqa: PLC0415 - it needs numpy

        self._insert_columns(waiting_keys(records))

    def _insert_plain(self, records: KeyedRecords) -> None:
        rows = KeyRows()
        for record in zip(records.topics, records.properties, records.offsets, records.times_ms, strict=True):
            rows.add_record(*record)
        entries = [
            (index_key_hash(topic, key.decode("utf-8", "replace")), offset, store_ms)
            for topic, key, offset, store_ms in zip(rows.topics, rows.keys, rows.offsets, rows.times_ms, strict=True)
        ]
        while entries:
            file = self.disk.writable()
            with self.disk.changing(file):
                del entries[: file.insert(entries)]
        self._note_inserted(len(rows))

    def _insert_columns(self, columns: KeyColumns) -> None:
        hashes, offsets, times_ms = columns
        done = 0
        while done < len(hashes):
            file = self.disk.writable()
            with self.disk.changing(file):
                done += file.insert_bulk(hashes[done:], offsets[done:], times_ms[done:])
        self._note_inserted(done)

    def _note_inserted(self, count: int) -> None:
        """Give the mapped pages back from time to time."""
        self._inserted += count
        if self._inserted >= _RELEASE_COUNT:
            self.release()

    # -- finding ------------------------------------------------------------------------------------------------

    def find(self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int) -> list[memoryview]:
        """Records of the topic that have the key, newest first. The record itself proves topic and key.

        Damaged records are left out. If they are all there is, raises CorruptRecordError or UnreadableError: one of
        them may be the record that is looked for. A look-up ends after ``WALK_COUNT_MAX`` entries. Without a record by
        then, raises SearchLimitError. A damaged index file is made again: until then raises StoreUnavailableError.
        """
        steps = self.find_in_steps(topic, key, count_max, begin_ms, end_ms, proof_bytes=_PROOF_BYTES_AT_ONCE)
        try:
            while True:
                next(steps)
        except StopIteration as stop:
            return cast("list[memoryview]", stop.value)

    def find_in_steps(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int, *, proof_bytes: int = PROOF_BYTES_MAX
    ) -> Generator[None, None, list[memoryview]]:
        """Do as :meth:`find`, with rests in which the index may change."""
        asked = (topic, key, count_max, begin_ms, end_ms)
        while True:
            yield from self._complete_in_steps()  # raises when files that were to be read are made again meanwhile
            try:
                found = yield from find_records_in_steps(self.files[:], self._log, asked, self.prover, proof_bytes)
            except DamagedEntryError as damage:
                if damage.file in self.files:  # not yet made again because of another look-up
                    self._make_again(damage)
                continue
            if not self.is_rebuilding:
                return found

    def prove_some(self) -> None:
        """Go on with the proof for which a look-up was refused, if one was."""
        with suppress(StoreUnavailableError, UnreadableError):  # the next look-up says it
            try:
                self.prover.work(_PROOF_BYTES_A_TICK)
            except DamagedEntryError as damage:
                if damage.file in self.files:
                    self._make_again(damage)

    def _make_again(self, damage: DamagedEntryError) -> None:
        """Remove the damaged file and those behind it, and insert their keys from the log."""
        self._damage_count += 1
        if self._damage_count > DAMAGED_FILES_MAX:
            raise StoreUnavailableError(
                f"the key index is damaged again and again, {DAMAGED_FILES_MAX} times since the start: {damage}; look "
                "messages up by id, and check the disk"
            ) from damage
        start = self.disk.keep(self.files.index(damage.file))
        self._columns, self._pending = [], WaitingRecords()
        self.rebuild_from(start)

    def position(self) -> tuple[int, int, int, int]:
        """(next offset, newest file's name, its entry count, RocketMQ's indexMsgTimestamp) as they are now."""
        return self.next_offset, *self.disk.position()
