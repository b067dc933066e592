"""The write path: places messages in queues and log, encodes them, and commits everything staged at once.

This is the hot loop of a send. A property test holds it equal to :func:`pymq.model.record.encode_record`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from typing import NamedTuple, overload
from zlib import crc32

from pymq.clock import Clock
from pymq.errors import DoesNotFitError, StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.inner_batch import INNER_FLAGS
from pymq.model.layout import (
    CRC_MASK,
    HEAD_TO_PHYSICAL,
    HOST_V4_SIZE_BYTES,
    I32,
    NO_UNIT_FLAG,
    UNIT,
)
from pymq.model.lite_topics import light_properties
from pymq.model.properties import append_properties, tags_code_of
from pymq.model.record import encode_draft, numbers_error, record_size
from pymq.store.disk.fs import Buffer
from pymq.store.index.index_service import IndexService
from pymq.store.index.keyed_records import KeyedRecords
from pymq.store.light.light_queues import LightQueues
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import has_index_entries, has_queue_unit
from pymq.store.queue.batch_queue import AnyQueue, BatchQueue
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable
from pymq.store.settings import StoreSettings
from pymq.store.write.plain_record import pack_middle, pack_record
from pymq.store.write.readable import check_properties
from pymq.store.write.staged_batch import StagedBatch
from pymq.store.write.store_time import next_store_ms
from pymq.store.write.unconfirmed import NEEDS_NOTHING, UnconfirmedCommit, UnconfirmedCommits

# Called with a queue and its new units. queue.listed(units) has one of 20 bytes for each message.
ArrivalListener = Callable[[AnyQueue, bytes], None]

_BATCHES_BEFORE_BULK = 16  # batches of keys that may wait until numpy is loaded: it inserts a hundred times faster


class Placed(NamedTuple):
    """The place that a staged message will have."""

    queue_offset: int
    physical_offset: int
    size_bytes: int


class PlacedBatch(Sequence[Placed]):
    """The places that the messages of a staged batch will have. Each is made on access."""

    __slots__ = ("_offsets", "_queue_offset", "_sizes")

    def __init__(self, queue_offset: int, offsets: list[int], sizes: list[int]) -> None:
        self._queue_offset = queue_offset
        self._offsets = offsets
        self._sizes = sizes

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, place: int) -> Placed: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Placed]: ...
    def __getitem__(self, place: int | slice) -> Placed | Sequence[Placed]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        offset = self._offsets[place]
        return Placed(self._queue_offset + place % len(self), offset, self._sizes[place])


class Appender:
    """Stages and commits. ``closed`` says why nothing is accepted, None while the store serves."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueTable,
        lights: LightQueues,
        index: IndexService | None,
        clock: Clock,
        settings: StoreSettings,
        store_host: bytes,
    ) -> None:
        self._log = log
        self._queues = queues
        self.lights = lights
        self._index = index
        self._clock = clock
        self._settings = settings
        self._store_host = store_host
        self.staged = StagedBatch(log)
        self.unconfirmed = UnconfirmedCommits()
        self.listeners: list[ArrivalListener] = []
        self.last_store_ms = 0
        self.bulk_ready = True  # see IndexService
        self.closed: str | None = "the store is not open: the broker is starting or stopping, send later"
        self.queue_problem: str | None = None  # why queue files lag; the log is not affected

    @property
    def is_writable(self) -> bool:
        return self.closed is None and self._log.broken is None

    def unavailable_error(self) -> StoreUnavailableError:
        """Return the error that says why nothing can be staged now."""
        return StoreUnavailableError(self.closed or self._log.broken or "the store takes no writes now, send later")

    @property
    def anything_staged(self) -> bool:
        return not self.staged.is_empty

    def stage(self, topic: str, queue_id: int, draft: Draft, message_count: int = 1) -> Placed:
        """Give a message its place. It becomes visible with :meth:`commit`. The caller has checked topic and queue.

        ``message_count``: of an inner batch, see :meth:`stage_inner`. Raises StoreUnavailableError when the store takes
        no writes, DoesNotFitError for a record larger than a segment, and for one that no reader would take back.
        """
        if draft.lite_topic:
            return self._stage_lite(topic, queue_id, draft)
        log, store_host = self._log, self._store_host
        if self.closed is not None or log.broken is not None:
            raise self.unavailable_error()
        properties, born_host, sys_flag = draft.properties, draft.born_host, draft.sys_flag
        check_properties(properties)
        queue = self._queues.get(topic, queue_id) or self._queues.make(topic, queue_id)
        store_ms = self.stamp()
        size = queue.overhead_bytes + len(draft.body) + len(properties)
        size += len(born_host) + len(store_host) - 2 * HOST_V4_SIZE_BYTES
        batch = self.staged
        physical_offset = batch.place(size)
        in_queue = not sys_flag & NO_UNIT_FLAG
        queue_offset = queue.next_offset if in_queue else 0
        try:
            if len(born_host) == HOST_V4_SIZE_BYTES == len(store_host):
                parts: Sequence[Buffer] = pack_record(
                    draft, queue, size, queue_offset, physical_offset, store_ms, store_host
                )
            else:
                parts = (encode_draft(draft, topic, queue_id, queue_offset, physical_offset, store_ms, store_host),)
        except DoesNotFitError:
            batch.give_back(physical_offset)
            raise
        if in_queue and isinstance(queue, BatchQueue):
            batch.add_to_batch_queue(queue, parts, physical_offset, size, draft.tags_code, store_ms, message_count)
        elif in_queue and isinstance(queue, ConsumeQueue):
            batch.add(queue, parts, physical_offset, size, draft.tags_code)
        else:
            batch.add_without_unit(parts)
        if has_index_entries(sys_flag):
            batch.keys.add(topic, properties, physical_offset, store_ms)
        return Placed(queue_offset, physical_offset, size)

    def _stage_lite(self, topic: str, queue_id: int, draft: Draft) -> Placed:
        """Do as :meth:`stage` for a message of a lite topic, which gets a place in the light queue, too."""
        lite, draft.lite_topic = draft.lite_topic, ""
        number, offset = self.lights.place(topic, lite)
        draft.properties = append_properties(draft.properties, light_properties(topic, lite, offset))
        placed = self.stage(topic, queue_id, draft)
        self.lights.note_staged(topic, lite, number, offset)
        at, size = placed.physical_offset, placed.size_bytes
        self.staged.lights.append((topic, lite, number, offset, at, size, self.last_store_ms))
        return placed

    def stage_many(self, topic: str, queue_id: int, drafts: Sequence[Draft]) -> Sequence[Placed]:
        """Stage a batch: consecutive queue offsets and places, in one segment unless a host is IPv6.

        The ``drafts`` are those of one request: they differ in body, properties, tags code and flag alone. Raises as
        :meth:`stage` does; then none of the batch is staged.
        """
        log, store_host = self._log, self._store_host
        if self.closed is not None or log.broken is not None:
            raise self.unavailable_error()
        queue = self._queues.get(topic, queue_id) or self._queues.make(topic, queue_id)
        if not drafts:
            return PlacedBatch(queue.next_offset, [], [])
        common = drafts[0]
        is_plain = isinstance(queue, ConsumeQueue) and has_queue_unit(common.sys_flag)
        if not is_plain or not len(common.born_host) == HOST_V4_SIZE_BYTES == len(store_host):
            hosts = len(common.born_host) + len(store_host)
            for draft in drafts:  # all or none: check the later ones before the first is staged
                check_properties(draft.properties)
                log.check_fits(
                    record_size(len(topic.encode()), len(draft.body), len(draft.properties))
                    + hosts - 2 * HOST_V4_SIZE_BYTES
                )  # fmt: skip
            return [self.stage(topic, queue_id, draft) for draft in drafts]
        assert isinstance(queue, ConsumeQueue)
        bodies, owns = [draft.body for draft in drafts], [draft.properties for draft in drafts]
        for own in owns:
            check_properties(own)
        store_ms = self.stamp()
        body_sizes, properties_sizes = [len(body) for body in bodies], [len(own) for own in owns]
        overhead = queue.overhead_bytes
        sizes = [overhead + body + own for body, own in zip(body_sizes, properties_sizes, strict=True)]
        batch = self.staged
        first = batch.place(sum(sizes))
        offsets = list(accumulate(sizes, initial=first))[:-1]
        count, queue_offset = len(sizes), queue.next_offset
        queue_offsets = range(queue_offset, queue_offset + count)
        parts: list[Buffer] = [b""] * (5 * count)
        try:
            middle = pack_middle(common, store_ms, store_host)
            parts[0::5] = map(
                HEAD_TO_PHYSICAL.pack, sizes, repeat(queue.magic), [crc32(body) & CRC_MASK for body in bodies],
                repeat(queue_id), [draft.flag for draft in drafts], queue_offsets, offsets,
            )  # fmt: skip
        except struct.error as error:
            batch.give_back(first)
            raise numbers_error(error) from error
        # The pieces that hold a length are made once for each distinct length.
        middles = {size: middle + I32.pack(size) for size in set(body_sizes)}
        tails = {size: queue.topic_part + size.to_bytes(2, "big") for size in set(properties_sizes)}
        parts[1::5] = map(middles.__getitem__, body_sizes)
        parts[2::5] = bodies
        parts[3::5] = map(tails.__getitem__, properties_sizes)
        parts[4::5] = owns
        batch.add_records(queue, parts, map(UNIT.pack, offsets, sizes, [draft.tags_code for draft in drafts]), count)
        if b"KEY" in b"".join(owns):
            batch.add_keys(topic, owns, offsets, store_ms)
        return PlacedBatch(queue_offset, offsets, sizes)

    def stage_inner(self, topic: str, queue_id: int, draft: Draft, message_count: int) -> Placed:
        """Stage a batch as one record, an inner batch of ``message_count`` messages. The draft's body is the request's.

        The record gets the flags of an inner batch, the properties INNER_NUM and INNER_BASE, and its tags code. Raises
        as :meth:`stage`, DoesNotFitError also when the properties become too long, OSError.
        """
        queue = self._queues.get(topic, queue_id) or self._queues.make(topic, queue_id, holds_batches=True)
        if not isinstance(queue, BatchQueue):
            if self.anything_staged or self.unconfirmed:
                raise StoreUnavailableError(f"{topic} queue {queue_id} becomes a batch queue: send again")
            queue = self._queues.make_batch_queue(topic, queue_id, self._log)
        inner = f"INNER_NUM\x01{message_count}\x02INNER_BASE\x01{queue.next_offset}\x02".encode()
        draft.properties = append_properties(draft.properties, inner)
        draft.tags_code = tags_code_of(draft.properties)
        draft.sys_flag |= INNER_FLAGS
        return self.stage(topic, queue_id, draft, message_count)

    def commit(self, *, await_sync: bool = False, await_confirm: bool = False) -> None:
        """Write everything staged to the log's file at once, add it to the queues, then call the listeners.

        With ``await_sync`` the commit stays invisible until :meth:`confirm` reports it on the disk, with
        ``await_confirm`` until enough slaves have it. Commits behind an unconfirmed one stay invisible too. Raises
        StoreUnavailableError; then nothing staged is kept and no offset is used up.
        """
        batch, log = self.staged, self._log
        start, last_store_ms = log.max_offset, log.last_store_ms
        try:
            log.commit(self.last_store_ms)
        except StoreUnavailableError:
            self.drop_staged()
            raise
        if await_sync or await_confirm or self.unconfirmed:
            end = log.max_offset
            needs = (end if await_sync else NEEDS_NOTHING, end if await_confirm else NEEDS_NOTHING)
            self._keep_unconfirmed(start, last_store_ms, needs)
            return
        if batch.queues:
            for queue in batch.take_queues():
                units = queue.take_staged()
                queue.publish(units)
                self.tell_grown(queue, units)
        if batch.lights:
            self.lights.publish(batch.take_lights())
        # After the queues: an index that fails must not hide what is in the log.
        if batch.keys:
            self.hand_over_keys(batch.take_keys())

    def tell_grown(self, queue: AnyQueue, units: bytes) -> None:
        """Call the listeners for the queue's newest ``units``, and write the queue's file when too many wait for it."""
        if len(queue.tail) >= self._settings.queue_tail_bytes:
            self._write_tail(queue)
        for listener in self.listeners:
            listener(queue, units)

    def _keep_unconfirmed(self, start: int, last_store_ms: int, needs: tuple[int, int]) -> None:
        units = [(queue, queue.take_staged()) for queue in self.staged.take_queues()]
        keys, lights = self.staged.take_keys(), self.staged.take_lights()
        self.unconfirmed.add(UnconfirmedCommit(start, last_store_ms, *needs, units, keys, lights))
        self._note_unconfirmed()

    def confirm(self, synced_offset: int | None = None, confirm_offset: int | None = None) -> None:
        """Make those unconfirmed commits visible that now have what they need.

        The log below ``synced_offset`` is on the disk, and enough slaves have it below ``confirm_offset``. None leaves
        the former value.
        """
        unconfirmed = self.unconfirmed
        if synced_offset is not None:
            unconfirmed.synced_offset = synced_offset
        if confirm_offset is not None:
            unconfirmed.confirm_offset = confirm_offset
        while (commit := unconfirmed.pop_ready()) is not None:
            for queue, units in commit.units:
                queue.publish(units)
                self.tell_grown(queue, units)
            self.lights.publish(commit.lights)
            self._note_unconfirmed()
            if commit.keys:
                self.hand_over_keys(commit.keys)

    def _note_unconfirmed(self) -> None:
        oldest = self.unconfirmed.oldest
        self._log.unconfirmed_from = None if oldest is None else (oldest.start, oldest.last_store_ms)

    def drop_staged(self) -> None:
        """Drop everything staged. Later messages get its offsets."""
        self.lights.drop_staged(self.staged.lights)
        self.staged.drop()

    def hand_over_keys(self, keys: KeyedRecords) -> None:
        """Let the keys of records that became visible wait for the index."""
        if self._index is None:
            return
        self._index.extend(keys)
        batches = 2 if self._index.bulk_ready else _BATCHES_BEFORE_BULK
        if self._index.pending_count >= batches * self._settings.index_batch_count:
            self._index.work()  # the load is high, and inserting must keep up

    def _write_tail(self, queue: AnyQueue) -> None:
        try:
            self._queues.write_tail(queue)
        except OSError as error:
            self.queue_problem = f"consume queue files lag behind: {error.filename}: {error.strerror}"

    def stamp(self) -> int:
        """Return the store time for what is staged now, by the rule of :func:`next_store_ms`."""
        now_ms = self._clock.now_ms()
        if now_ms > self.last_store_ms:
            self.last_store_ms = now_ms
        elif now_ms < self.last_store_ms:
            self.last_store_ms = next_store_ms(self.last_store_ms, now_ms)
        return self.last_store_ms
