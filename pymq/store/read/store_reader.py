"""What can be read from an open store: messages, records, raw bytes of the log, offsets and times of queues."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from pymq.store.index.index_service import IndexService
from pymq.store.integrity.checked_read import read_record, record_store_ms
from pymq.store.integrity.log_digests import chunk_bounds, chunk_digests, tail_digest
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.batch_queue import BatchQueue
from pymq.store.queue.queue_table import QueueTable
from pymq.store.queue.queue_view import QueueView
from pymq.store.read.batch_reading import get_batches
from pymq.store.read.reading import Accept, GetResult, GetStatus, Pace, RecordPrefilter, get_messages
from pymq.store.read.time_lookup import offset_by_time
from pymq.store.read.windows import WindowReader
from pymq.store.settings import StoreSettings


class StoreReader:
    """The reading half of :class:`~pymq.store.store.MessageStore`. It changes nothing."""

    def __init__(self, log: CommitLog, queues: QueueTable, index: IndexService | None, settings: StoreSettings) -> None:
        self.settings = settings
        self.is_bulk_ready = True  # what MessageStore.set_bulk_ready said last
        self._log = log
        self._queues = queues
        self._index = index
        self._windows = WindowReader(log)

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        bytes_max: int,
        tag_codes: frozenset[int] | None = None,
        accept: Accept | None = None,
        prefilter: RecordPrefilter | None = None,
        pace: Pace | None = None,
    ) -> GetResult:
        """Messages from ``offset`` on. ``tag_codes``: signed 32-bit hashes, None for all.

        ``accept`` sees each record, or only those that ``prefilter`` leaves. ``pace`` may end a filtered read early.
        Behind the end of a topic that was made again, the reader goes on at its begin. Raises CorruptRecordError when
        the first message to return is damaged.
        """
        queue = self._queues.get(topic, queue_id)
        if isinstance(queue, BatchQueue):
            result = get_batches(
                queue, self._windows, self.settings, offset, count_max, bytes_max, tag_codes, accept, pace
            )
        else:
            result = get_messages(
                queue, self._windows, self.settings, offset, count_max, bytes_max, tag_codes, accept, prefilter, pace
            )
        if result.status is GetStatus.OFFSET_OVERFLOW_BADLY and self._queues.deleted_end(topic):
            result.next_offset = result.min_offset  # the offset is of the topic's time before it was made again
        return result

    def record_at(self, physical_offset: int) -> memoryview:
        """The record that begins at a physical offset.

        Raises NotFoundError outside the log, CorruptRecordError when no record begins there or it is damaged,
        UnreadableError when the disk fails.
        """
        return read_record(self._log, physical_offset)

    @property
    def unconfirmed_bytes(self) -> int:
        """The size of the log's tail that consumers may not see yet."""
        return self._log.max_offset - self._log.visible_end[0]

    def read_log(self, offset: int, size_max: int) -> memoryview:
        """Bytes of the log from a physical offset on, at most to the end of their segment or of the log.

        They need not begin with a record. Empty at the log's end. Raises NotFoundError outside the log,
        UnreadableError when the disk fails.
        """
        return self._log.read(offset, size_max)

    def tail_digest(self, end: int, tail_bytes: int) -> str:
        """xxh3-64 in hex of the ``tail_bytes`` bytes of the log before the physical offset ``end``.

        Raises as :meth:`read_log`, also when the log does not hold all of them.
        """
        return tail_digest(self._log, end, tail_bytes)

    def chunk_digests(self, start: int, end: int, chunk_bytes: int, *, count_max: int, bytes_max: int) -> list[str]:
        """xxh3-64 in hex of each chunk between two physical offsets, "" for a chunk that is damaged or unreadable.

        A chunk ends early at the end of its segment. Returns at most ``count_max`` digests, of ``bytes_max`` together.
        """
        chunks = chunk_bounds(start, end, chunk_bytes, self.settings.segment_size_bytes)
        return chunk_digests(self._log, chunks, count_max=count_max, bytes_max=bytes_max)

    def queue_view(self, topic: str, queue_id: int) -> QueueView | None:
        """The offsets and units of one queue; None when it never had a message."""
        return self._queues.get(topic, queue_id)

    def queue_views_of(self, topic: str, ids: range) -> Sequence[QueueView | None]:
        """Do as :meth:`queue_view` for several queues of one topic."""
        return self._queues.get_some(topic, ids)

    def queue_views(self) -> Iterator[QueueView]:
        """Every queue that has or had messages, as they are at the time of the call."""
        return iter(self._queues)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First readable offset; 0 for a queue that never had a message."""
        queue = self._queues.get(topic, queue_id)
        return queue.min_offset if queue else 0

    def queue_end(self, topic: str, queue_id: int) -> int | None:
        """The next message's offset; None when there is no such queue."""
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue else None

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The next message's offset; 0 for a queue that never had a message."""
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue else 0

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        """First offset stored at or after ``timestamp_ms`` (``upper``: last one at or before). Clamped to the queue."""
        queue = self._queues.get(topic, queue_id)
        return queue.offset_of(offset_by_time(queue.units, self._log, timestamp_ms, upper)) if queue else 0

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store timestamp (ms) of one message, -1 when it isn't there."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return -1
        return record_store_ms(self._log, queue.unit(offset)[0])

    def store_time_at(self, physical_offset: int) -> int:
        """Store timestamp (ms) of the record at a physical offset, -1 when no good record is there."""
        return record_store_ms(self._log, physical_offset)

    def earliest_store_time(self) -> int:
        """Store timestamp (ms) of the oldest record, -1 for an empty log."""
        return record_store_ms(self._log, self._log.min_offset)

    def find_by_key(
        self, topic: str, key: str, count_max: int, begin_ms: int = 0, end_ms: int = 1 << 62
    ) -> list[memoryview]:
        """Records of the topic with this unique key or key word, newest first. At most ``query_count_max``."""
        if self._index is None:
            return []
        return self._index.find(topic, key, min(count_max, self.settings.query_count_max), begin_ms, end_ms)

    def find_by_key_in_steps(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
    ) -> Generator[None, None, list[memoryview]]:
        """Do as :meth:`find_by_key`. Yields now and then when many keys share the place of this one."""
        if self._index is None:
            return []
        count_max = min(count_max, self.settings.query_count_max)
        return (yield from self._index.find_in_steps(topic, key, count_max, begin_ms, end_ms))

    @property
    def is_bulk_wanted(self) -> bool:
        """True when work of a look-up takes long without numpy."""
        return self._index is not None and self._index.prover.is_numpy_wanted

    def queues(self) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue that has or had messages."""
        return ((queue.topic, queue.queue_id) for queue in self._queues)

    @property
    def queue_count(self) -> int:
        """The number of queues that have or had messages."""
        return len(self._queues)

    def expired_queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of queues that had messages and whose records are all deleted."""
        names = [(queue.topic, queue.queue_id) for queue in self._queues]
        return [name for name in names if self.is_expired(*name)]

    def is_expired(self, topic: str, queue_id: int) -> bool:
        """True for a queue that had messages and whose records are all deleted."""
        queue = self._queues.get(topic, queue_id)
        return queue is not None and 0 < queue.max_offset == queue.min_offset == queue.next_offset

    @property
    def broken(self) -> str | None:
        """Why the log takes no more writes until it is opened again, after a failed sync; None while it takes them."""
        return self._log.broken

    @property
    def write_problem(self) -> str | None:
        """Why the last write to the log failed; None after one that succeeded. The next one tries again."""
        return self._log.write_problem

    @property
    def physical_min_offset(self) -> int:
        """The log's begin."""
        return self._log.min_offset

    @property
    def physical_max_offset(self) -> int:
        """The log's end."""
        return self._log.max_offset

    @property
    def synced_offset(self) -> int:
        """Below this physical offset everything is on the disk."""
        return self._log.synced_offset
