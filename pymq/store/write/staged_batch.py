"""StagedBatch: everything staged since the last commit: bytes for the log, units for queues, keys for the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pymq.model.layout import BLANK_SIZE_BYTES, UNIT
from pymq.store.disk.fs import Buffer
from pymq.store.index.keyed_records import KeyedRecords
from pymq.store.light.light_queues import StagedLight
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.batch_queue import AnyQueue, BatchQueue
from pymq.store.queue.consume_queue import ConsumeQueue

_pack_unit = UNIT.pack


class StagedBatch:
    """The appender owns the batch, and the encoders of records fill it.

    An encoder takes a record's place in the log first, then adds its bytes. Records are added in the order of their
    places. ``queues`` has the queues with staged units, ``lights`` the staged messages of light queues.
    """

    __slots__ = ("keys", "lights", "log", "place", "queues")

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.queues: list[AnyQueue] = []
        self.keys = KeyedRecords()
        self.lights: list[StagedLight] = []
        # Takes the place for a number of bytes. Raises StoreError when no segment could hold them.
        self.place = log.reserve

    @property
    def is_empty(self) -> bool:
        return not self.queues and not self.log.anything_staged

    @property
    def next_place(self) -> int:
        """The physical offset of the next record if it fits into the current segment."""
        return self.log.staged_end

    def give_back(self, place: int) -> None:
        """Give the newest taken place back: no bytes were added for it."""
        self.log.staged_end = place

    def fits(self, size: int) -> bool:
        """Return whether ``size`` bytes fit into the current segment."""
        return self.log.staged_end + size + BLANK_SIZE_BYTES <= self.log.segment_end

    def add(self, queue: ConsumeQueue, parts: Sequence[Buffer], at: int, size: int, tags_code: int) -> None:
        """Add a record of ``size`` bytes at physical offset ``at``, and its unit. It gets the queue's next offset."""
        self.log.parts += parts
        staged = queue.staged
        if not staged:
            self.queues.append(queue)
        staged.append(_pack_unit(at, size, tags_code))
        queue.next_offset += 1

    def add_to_batch_queue(
        self, queue: BatchQueue, parts: Sequence[Buffer], at: int, size: int, tags_code: int, store_ms: int, count: int
    ) -> None:
        """Do as :meth:`add` for a record with ``count`` messages. They get the queue's next offsets."""
        self.log.parts += parts
        if not queue.staged:
            self.queues.append(queue)
        queue.stage(at, size, tags_code, store_ms, queue.next_offset, count)

    def add_without_unit(self, parts: Sequence[Buffer]) -> None:
        """Add a record that is in no queue."""
        self.log.parts += parts

    def add_records(self, queue: ConsumeQueue, parts: Sequence[Buffer], units: Iterable[bytes], count: int) -> None:
        """Add ``count`` records back to back, and their packed units."""
        self.log.parts += parts
        if count and not queue.staged:
            self.queues.append(queue)
        queue.staged += units
        queue.next_offset += count

    def add_keys(self, topic: str, properties: list[bytes], offsets: list[int], store_ms: int) -> None:
        """Note records that may have keys, all of one topic and one store time."""
        keys, count = self.keys, len(offsets)
        keys.topics += [topic] * count
        keys.properties += properties
        keys.offsets += offsets
        keys.times_ms += [store_ms] * count

    def take_queues(self) -> list[AnyQueue]:
        """Return the queues with staged units, and remove them from the batch."""
        queues, self.queues = self.queues, []
        return queues

    def take_keys(self) -> KeyedRecords:
        """Return the records that may have keys, and remove them from the batch."""
        keys, self.keys = self.keys, KeyedRecords()
        return keys

    def take_lights(self) -> list[StagedLight]:
        """Return the messages of light queues, and remove them from the batch."""
        lights, self.lights = self.lights, []
        return lights

    def drop(self) -> None:
        """Drop everything staged. Later messages get its offsets."""
        self.log.rollback()
        self.keys = KeyedRecords()
        self.lights = []
        for queue in self.queues:
            queue.drop_staged()
        self.queues = []
