"""GroupTables: the tables of a broker in a Raft group, fed from its log, while parts come and go with its role.

A follower takes the records below its confirm offset. A leader's parts begin with all of the log, write records for
what their managers save, and are answered as the records are confirmed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.raft.logged_tables import LoggedTables
from pymq.broker.raft.table_files import TableFiles
from pymq.broker.raft.table_log import TableLog, TableRecord
from pymq.broker.raft.table_records import DELETIONS, DELETIONS_TABLE, TableRecordError
from pymq.broker.raft.tables import Tables
from pymq.broker.work.worker_threads import Result, RunInThread
from pymq.clock import Clock
from pymq.errors import CorruptRecordError, StoreError, StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.names import RAFT_TOPIC
from pymq.model.record import MalformedRecordError, StoredMessage, decode_records
from pymq.store.disk.fs import Files
from pymq.store.store import MessageStore, Placed

log = logging.getLogger(__name__)

QUEUE_ID = 1  # of RAFT_TOPIC
SAVE_INTERVAL_MS = 5_000
SAVE_BYTES_MIN = 64 << 20  # of the log; without a change, the place in it is saved after as many
READ_COUNT = 32
READ_BYTES = 4 << 20


class RecordWriter(Protocol):
    """What is asked of :class:`pymq.broker.messages.writer.Writer`."""

    def put(self, topic: str, queue_id: int, draft: Draft) -> Placed: ...

    def when_committed(self, listener: Callable[[bool], None]) -> None: ...


class GroupTables:
    """The tables of one node. One thread calls everything."""

    def __init__(
        self,
        *,
        files: Files,
        root: str,
        segment_bytes: int,
        clock: Clock,
        store_host: bytes,
        run_in_thread: RunInThread,
        was_plain: bool = False,
    ) -> None:
        """``root``: the store's directory; ``segment_bytes``: of its log; ``store_host``: for the records;
        ``was_plain``: a plain group's broker has written the tables.

        Raises StoreError.
        """
        self._segment_bytes = segment_bytes
        self.problem = ""  # why these tables do not follow the log; empty while they do
        self._files = files
        self._root = root
        self._clock = clock
        self._store_host = store_host
        self._run_in_thread = run_in_thread
        self._saved = TableFiles(ConfigTables(files, root, run_in_thread))
        tables = self._saved.load()
        self.table_log = TableLog(tables, self._write)
        self._was_plain = was_plain
        self._saved_ends = {table.name: table.end for table in tables.all()}
        self._saved_end = tables.end
        self._is_saving = False
        self._next_save_ms = clock.monotonic_ms() + SAVE_INTERVAL_MS
        self._store: MessageStore | None = None
        self._writer: RecordWriter | None = None
        self._schedule_turn_end: Callable[[], None] = lambda: None
        self._savers: LoggedTables | None = None
        self._whole_segment: int | None = None  # the newest segment that has all tables, or may do without
        self._next_offset: int | None = None  # in the queue of records; None: look for it

    @property
    def tables(self) -> Tables:
        """What is confirmed."""
        return self.table_log.tables

    # -- the broker's parts ------------------------------------------------------------------------------------------

    def config_tables(self, *, leads: bool) -> LoggedTables:
        """Return the savers for the managers of new parts; ``leads``: the parts are a leader's."""
        self._savers = LoggedTables(self._files, self._root, self._run_in_thread, self.table_log, leads=leads)
        return self._savers

    def open(
        self, store: MessageStore, writer: RecordWriter, schedule_turn_end: Callable[[], None], *, leads: bool
    ) -> None:
        """Use this store, which is recovered, before the managers load. ``leads``: the parts are a leader's.

        Raises StoreError when a record can't be read.
        """
        self._store, self._writer, self._schedule_turn_end = store, writer, schedule_turn_end
        self._next_offset = self._whole_segment = None
        self.table_log.follow()
        if self._was_plain:
            self._take_over(store.physical_max_offset)
        if self.tables.end < store.physical_min_offset and self.tables.all():
            log.warning(
                "the tables of the Raft group are as of offset %d, the log begins at %d: they are made from it again",
                self.tables.end,
                store.physical_min_offset,
            )
            self.table_log.replace(Tables())
        if leads:
            if self.problem:
                raise StoreError(f"this broker can't lead its Raft group: {self.problem}")
            try:
                self.table_log.lead(list(self._records()))
                self._apply_deletions()
            except (TableRecordError, CorruptRecordError, MalformedRecordError) as error:
                raise StoreError(f"a record of the Raft group's tables can't be read: {error}") from error

    def _take_over(self, end: int) -> None:
        """Have the tables of a plain group count as of ``end``: records before are of a group that is no more.

        The first leader writes them to the log. Raises StoreError.
        """
        self._was_plain = False
        self.table_log.replace(Tables(end))
        self._saved.save((), (), end)
        self._saved_end = end

    def close(self) -> None:
        """Use no parts any more, and save what is confirmed. Raises StoreError."""
        self.table_log.follow()
        self._store = self._writer = self._savers = None
        self._schedule_turn_end = lambda: None

    # -- what happens ------------------------------------------------------------------------------------------------

    def confirmed(self, offset: int) -> None:
        """What the log has below ``offset`` is confirmed, and, on a follower, in its queues."""
        if self.table_log.is_leading:
            if self.table_log.confirm(offset):
                self._schedule_turn_end()  # what was answered may have led to the next change
        elif not self.problem:
            self._take(offset)

    def flush(self) -> None:
        """Write what waits for its time: another node is about to lead."""
        for saver in self._savers.savers if self._savers is not None else ():
            saver.flush()

    def tick(self) -> None:
        """Write what the log lacks of a leader's tables, and save from time to time. Call it about every second."""
        if self.table_log.is_leading:
            self._begin()
            self._keep_whole()
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_save_ms and not self._is_saving:
            self._next_save_ms = now_ms + SAVE_INTERVAL_MS
            self._save_soon()

    def _begin(self) -> None:
        """Write the tables that a plain broker left, if the log has none."""
        for saver in self._savers.savers if self._savers is not None else ():
            saver.begin()

    def _keep_whole(self) -> None:
        """Write all tables into each new segment, and once as a new leader behind the first one.

        The leader before may have died between a new segment and its tables.
        """
        store = self._store
        if store is None:
            return
        segment = store.physical_max_offset // self._segment_bytes
        if self._whole_segment is None:
            self._whole_segment = segment if segment == 0 else -1
        if segment > self._whole_segment:
            try:
                self.table_log.write_whole()
            except StoreUnavailableError as error:
                log.debug("the tables of the Raft group are not written whole now, trying again: %s", error)
            else:
                self._whole_segment = segment

    def _take(self, offset: int) -> None:
        """Take the records that end at or below ``offset``."""
        if self._store is None:
            return
        offset = min(offset, self._store.dispatched_end)
        try:
            for record in self._records():
                if record.end > offset:
                    break
                if self.table_log.take(record) == DELETIONS_TABLE:
                    self._apply_deletions()
                assert self._next_offset is not None
                self._next_offset += 1
            self.table_log.pass_over(offset)
        except (TableRecordError, CorruptRecordError, MalformedRecordError) as error:
            self.problem = f"the tables are as of offset {self.tables.end}, a record behind it can't be read: {error}"
            log.error("%s", self.problem)

    def _apply_deletions(self) -> None:
        """Delete what a leader has deleted of topics. What the disk refuses is asked of the leader again."""
        table = self.table_log.planned(DELETIONS_TABLE)
        if table is None or self._store is None:
            return
        ends = {topic: end for topic, end in table.as_object()[DELETIONS].items() if isinstance(end, int)}
        try:
            self._store.delete_topics_below(ends)
        except (StoreUnavailableError, OSError) as error:
            log.warning("what the leader has deleted of topics is still here, trying again: %s", error)

    def _records(self) -> Iterator[TableRecord]:
        """Yield the records behind the tables, of which those before ``_next_offset`` were taken."""
        store = self._store
        queue = store.queue_view(RAFT_TOPIC, QUEUE_ID) if store is not None else None
        if store is None or queue is None:
            return
        if self._next_offset is None:
            self._next_offset = queue.max_offset - queue.count_from(self.tables.end)
            self.table_log.is_log_cut = self.tables.end < store.physical_min_offset
        offset = self._next_offset
        while offset < queue.max_offset:
            messages, offset = _read(store, offset)
            for message in messages:
                yield TableRecord(message.physical_offset + message.size_bytes, message.body)

    # -- records of a leader -----------------------------------------------------------------------------------------

    def _write(self, bodies: Sequence[bytes]) -> list[int]:
        writer = self._writer
        if writer is None:
            raise StoreUnavailableError("the broker changes its role: ask again in a moment")
        ends = []
        for body in bodies:
            placed = writer.put(RAFT_TOPIC, QUEUE_ID, Draft(body, b"", self._clock.now_ms(), self._store_host))
            ends.append(placed.physical_offset + placed.size_bytes)
        writer.when_committed(self._committed)
        self._schedule_turn_end()
        return ends

    def _committed(self, is_stored: bool) -> None:
        if not is_stored and self._store is not None:
            self.table_log.drop_unwritten(self._store.physical_max_offset, "the change could not be written to the log")

    # -- files -------------------------------------------------------------------------------------------------------

    def _save_soon(self) -> None:
        tables = self.tables
        changed = [table.copy() for table in tables.all() if table.end != self._saved_ends.get(table.name)]
        if not changed and tables.end < self._saved_end + SAVE_BYTES_MIN:
            return
        names, end = [table.name for table in tables.all()], tables.end
        self._is_saving = True

        def work() -> int:
            self._saved.save(changed, names, end)
            return end

        def done(result: Result) -> None:
            self._is_saving = False
            try:
                result.result()
            except (StoreError, OSError) as error:
                log.warning("the tables of the Raft group could not be saved, trying again: %s", error)
                return
            self._saved_end = end
            self._saved_ends |= {table.name: table.end for table in changed}

        self._run_in_thread(work, done)


def _read(store: MessageStore, offset: int) -> tuple[list[StoredMessage], int]:
    """Return records of the queue from ``offset`` on, at least one, and the offset behind them."""
    result = store.get(RAFT_TOPIC, QUEUE_ID, offset, READ_COUNT, READ_BYTES)
    messages = decode_records(b"".join(result.chunks))
    if not messages:
        raise MalformedRecordError(f"no record is at offset {offset} of queue {QUEUE_ID} of {RAFT_TOPIC}")
    return messages, messages[-1].queue_offset + 1
