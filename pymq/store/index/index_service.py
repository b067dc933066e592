"""IndexService: the key index. Keys of committed records wait, and are inserted in bulk after the answer is sent."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import cast

from pymq.clock import Clock
from pymq.errors import StoreUnavailableError, UnreadableError
from pymq.model.javahash import index_key_hash
from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.disk.fs import Files, lacked_room, make_directory
from pymq.store.index.entry_proof import PROOF_BYTES_MAX, Prover
from pymq.store.index.index_doubts import find_doubt, next_offset
from pymq.store.index.index_file import DamagedEntryError, IndexFile, index_file_size
from pymq.store.index.index_lookup import find_records_in_steps
from pymq.store.index.keyed_records import KeyColumns, KeyedRecords, KeyRows, joined
from pymq.store.integrity.checked_read import record_store_ms
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import has_index_entries
from pymq.store.scan.scanner import End, scan
from pymq.store.settings import StoreSettings

_BULK_COUNT_MIN = 32  # with fewer keys numpy costs more than it saves, and a quiet broker need not import it
_PLAIN_COUNT_MAX = 512  # keys inserted one by one at a time, while numpy is not loaded
_PENDING_COUNT_MAX = 1 << 16  # more records do not wait in memory: they are read from the log again
_COLUMNS_COUNT = 4096  # hashed keys inserted together: more keys cost less each
_PROOF_BYTES_AT_ONCE = 32 << 20  # a look-up without rests, some 20 ms
_PROOF_BYTES_A_TICK = 4 << 20
DAMAGED_FILES_MAX = 3  # that look-ups have made again, until the next start
_RELEASE_COUNT = 1 << 18  # entries inserted before the mapped pages are given back


class IndexService:
    """All index files of a store. One thread calls everything; only :meth:`sync` may run in another."""

    def __init__(self, files: Files, directory: str, log: CommitLog, clock: Clock, settings: StoreSettings) -> None:
        self._files = files
        self._directory = directory
        self._log = log
        self._clock = clock
        self._settings = settings
        self.files: list[IndexFile] = []
        self.bulk_ready = True  # a server turns it off until numpy is loaded, which would block the event loop
        self.problem: str | None = None  # why keys wait; None when all is well
        self.notes: list[str] = []  # what the last :meth:`load` found wrong
        self._damage_count = 0  # of files that look-ups found damaged
        self.prover = Prover(lambda offset: record_store_ms(log, offset), lambda: self.bulk_ready)
        self.is_rebuilding = False  # lost keys are inserted again from the log, and look-ups say so
        self._columns: list[KeyColumns] = []  # hashed keys that wait; their records come before the pending ones
        self._pending = KeyedRecords()
        self._behind_from: int | None = None  # the index can't follow: it reads records from here on from the log
        self._sealed_ms = 0  # end time of the newest full file: RocketMQ's indexMsgTimestamp
        self._inserted = 0
        self._lock = Lock()  # guards the two sets below; never held while the disk works
        self._sync_lock = Lock()  # a file being synced must not be closed
        self._unsynced: set[IndexFile] = set()
        self._directory_unsynced = False

    # -- opening ------------------------------------------------------------------------------------------------

    def load(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        """Open the files and drop entries that may not have reached the disk.

        Returns the physical offset from which on keys have to be inserted. A file that can't be what it was is removed
        with those behind it (:attr:`notes`). Raises OSError.
        """
        make_directory(self._files, self._directory)
        for name in self._files.listdir(self._directory):
            if name.isdigit() and len(name) == 17 and self._has_size(name):
                self.files.append(self._open(name, create=False))
        while self.files and not self.files[-1].sane:
            self._delete_newest()
            clean = False
        start = self._load_known(checkpoint, log_min_offset, clean=clean)
        # Else a flipped bit of the number in the checkpoint would stay in every later one.
        self._sealed_ms = max(0, min(self._sealed_ms, max((file.end_ms for file in self.files), default=0)))
        doubt = find_doubt(self.files, self._log)
        if doubt is None:
            return start
        while len(self.files) > doubt[0]:
            self._delete_newest()
        start = max(next_offset(self.files[-1], self._log) if self.files else log_min_offset, log_min_offset)
        self._sealed_ms = self.files[-1].end_ms if self.files else 0
        self.notes.append(f"{doubt[1]}: keys of records from {start} on are inserted again")
        return start

    def _load_known(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        self._sealed_ms = checkpoint.index_ms
        durable = checkpoint.durable
        if durable is not None and durable.index_name == 0:
            while self.files:
                self._delete_newest()
            return durable.index_offset
        if durable is not None and any(file.name == durable.index_name for file in self.files):
            while self.files[-1].name > durable.index_name:
                self._delete_newest()
            if self.files[-1].count < durable.index_count:
                found = self.files[-1]
                self.notes.append(f"{found.path} counts {found.count - 1} keys, it had {durable.index_count - 1}")
                self._delete_newest()
                return self._load_foreign(checkpoint, log_min_offset, clean=clean)
            if self.files[-1].count != durable.index_count or not clean:
                try:
                    self._roll_back(durable.index_count)
                except OSError as error:
                    if not lacked_room(error):
                        raise
                    self.notes.append(f"no room to put {self.files[-1].path} in order: it is made again")
                    self._delete_newest()
                    return self._load_foreign(checkpoint, log_min_offset, clean=clean)
            return durable.index_offset
        if durable is not None:
            self.notes.append(f"{self._directory}/{durable.index_name}, the newest index file, is gone")
        return self._load_foreign(checkpoint, log_min_offset, clean=clean)

    def _has_size(self, name: str) -> bool:
        """Cut a file that is too long. Remove one that is too short, which a crash or damage leaves: return False."""
        file = self._files.open(f"{self._directory}/{name}")
        size, wanted = file.size(), index_file_size(self._settings.index_slot_count, self._settings.index_entry_count)
        if size > wanted:
            file.truncate(wanted)
        file.close()
        if size < wanted:
            self._files.remove(file.path)
        if size and size != wanted:
            self.notes.append(f"{file.path} had {size} bytes, an index file has {wanted}")
        return size >= wanted

    def _load_foreign(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        """Keep files by RocketMQ's rule where PyMQ's checkpoint does not vouch for them. The others are made again."""
        while not clean and self.files and self.files[-1].end_ms > checkpoint.index_ms:
            self._delete_newest()
        start = next_offset(self.files[-1], self._log) if self.files else log_min_offset
        return max(start, log_min_offset)

    def _open(self, name: str, *, create: bool) -> IndexFile:
        s = self._settings
        path = f"{self._directory}/{name}"
        return IndexFile(self._files, path, s.index_slot_count, s.index_entry_count, create=create)

    def _roll_back(self, count: int) -> None:
        self.files[-1].roll_back(count)
        with self._lock:
            self._unsynced.add(self.files[-1])

    def _delete_newest(self) -> None:
        file = self.files.pop()
        self._close_file(file)
        self._files.remove(file.path)
        self._directory_unsynced = True

    def _close_file(self, file: IndexFile) -> None:
        with self._sync_lock:
            with self._lock:
                self._unsynced.discard(file)
            file.close()

    def truncate(self, log_end: int) -> None:
        """Drop the entries of records from ``log_end`` on, so that no key points behind the log."""
        self._pending.truncate(log_end)
        self._columns = [columns.below(log_end) for columns in self._columns]
        while self.files and self.files[-1].count > 1 and self.files[-1].end_offset >= log_end:
            count = self.files[-1].count_below(log_end)
            if count > 1:
                try:
                    self._roll_back(count)
                except OSError as error:
                    if not lacked_room(error):
                        raise  # else the entries stay: a look-up compares each with its record
                return
            self._delete_newest()

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
            self._pending = KeyedRecords()
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
        if self.pending_count > _PENDING_COUNT_MAX:
            self._behind_from = self.next_offset
            self._columns, self._pending = [], KeyedRecords()

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
            f"the key index pauses: {error.filename or self._directory}: {error.strerror}; "
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
                if len(self._pending) >= self._settings.index_batch_count:
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
            file = self._writable_file()
            with self._changing(file):
                del entries[: file.insert(entries)]
        self._note_inserted(len(rows))

    def _insert_columns(self, columns: KeyColumns) -> None:
        hashes, offsets, times_ms = columns
        done = 0
        while done < len(hashes):
            file = self._writable_file()
            with self._changing(file):
                done += file.insert_bulk(hashes[done:], offsets[done:], times_ms[done:])
        self._note_inserted(done)

    def _note_inserted(self, count: int) -> None:
        """Give the mapped pages back from time to time."""
        self._inserted += count
        if self._inserted >= _RELEASE_COUNT:
            self.release()

    def _writable_file(self) -> IndexFile:
        """The newest file, or a new one when it is full."""
        newest = self.files[-1] if self.files else None
        return newest if newest is not None and not newest.full else self._make_file(newest)

    @contextmanager
    def _changing(self, file: IndexFile) -> Iterator[None]:
        """Count the file as changed afterwards: a sync that runs meanwhile may miss the change."""
        try:
            yield
        finally:
            with self._lock:
                self._unsynced.add(file)

    def _make_file(self, newest: IndexFile | None) -> IndexFile:
        stamp = self._clock.local_time()  # Java: IndexService.getAndCreateLastIndexFile
        name = int(f"{stamp:%Y%m%d%H%M%S}{stamp.microsecond // 1000:03d}")
        if newest is not None:
            name = max(name, newest.name + 1)
        file = self._open(str(name), create=True)
        if newest is not None:
            try:
                file.preset(newest.end_ms, newest.end_offset)
            except OSError:
                file.close()
                self._files.remove(file.path)
                raise
            newest.release()
            self._sealed_ms = newest.end_ms
        self.files.append(file)
        self._directory_unsynced = True
        return file

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
        kept = self.files.index(damage.file)
        while len(self.files) > kept:
            self._delete_newest()
        self._columns, self._pending = [], KeyedRecords()
        self._sealed_ms = self.files[-1].end_ms if self.files else 0
        start = next_offset(self.files[-1], self._log) if self.files else self._log.min_offset
        self.rebuild_from(max(start, self._log.min_offset))

    # -- durability, cleaning -----------------------------------------------------------------------------------

    def position(self) -> tuple[int, int, int, int]:
        """(next offset, newest file's name, its entry count, RocketMQ's indexMsgTimestamp) as they are now."""
        newest = self.files[-1] if self.files else None
        return self.next_offset, newest.name if newest else 0, newest.count if newest else 0, self._sealed_ms

    def sync(self) -> None:
        """Bring what was inserted before the call to the disk. Safe from another thread. Raises OSError."""
        with self._sync_lock:
            with self._lock:
                changed, self._unsynced = self._unsynced, set()
                directory, self._directory_unsynced = self._directory_unsynced, False
            try:
                for file in changed:
                    file.sync()
                if directory:
                    self._files.sync_dir(self._directory)
            except OSError:
                with self._lock:
                    self._unsynced |= changed
                    self._directory_unsynced |= directory
                raise

    def take_old_files(self, log_min_offset: int, durable_name: int) -> list[IndexFile]:
        """Take files out of use whose records are all deleted, for :meth:`delete_file`.

        The newest file stays, and the one that the last checkpoint names (``durable_name``): recovery starts from it.
        """
        old: list[IndexFile] = []
        while len(self.files) > 1 and self.files[0].end_offset < log_min_offset and self.files[0].name < durable_name:
            old.append(self.files.pop(0))
        return old

    def delete_file(self, file: IndexFile) -> None:
        """Close and remove a file that was taken out of use. Safe from another thread. Raises OSError."""
        self._close_file(file)
        self._files.remove(file.path)

    def close(self) -> None:
        with self._sync_lock:
            for file in self.files:
                file.close()
            self.files = []
