"""The fast way into the store for the most common record: IPv4 hosts, no transaction, a queue known beforehand.

It writes the same bytes as :meth:`MessageStore.stage` (a property test holds them equal), but without look-ups
and result objects, because it runs once for every plain send.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

from pymq.errors import DoesNotFitError
from pymq.model.draft import Draft
from pymq.model.inner_batch import INNER_FLAGS
from pymq.model.layout import (
    BATCH_ENTRY_BODY_AT,
    BATCH_ENTRY_SIZES,
    BATCH_UNIT,
    BLANK_SIZE_BYTES,
    CRC_MASK,
    HEAD_TO_PHYSICAL,
    HEAD_V4,
    HOST_V4_SIZE_BYTES,
    MAGIC_V1,
    NOT_COMPACTED,
    PROPERTIES_LENGTH_BYTES,
    PROPERTIES_SIZE_MAX_BYTES,
    SENT_PROPERTIES_MAX_BYTES,
    SYS_FLAG_V4_MASK,
    TOPIC_V1_SIZE_MAX_BYTES,
    UNIT,
)
from pymq.model.properties import has_broker_word, tags_code_of
from pymq.model.record import numbers_error
from pymq.store.queue.batch_queue import BatchQueue
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable
from pymq.store.write.appender import Appender
from pymq.store.write.plain_record import I16, pack_middle, pack_record
from pymq.store.write.readable import check_properties

if TYPE_CHECKING:
    from pymq.store.write.uniform_batch import Encoded

_TAGS = b"TAGS\x01"
_KEYS = b"KEYS\x01"
_UNIQUE = b"UNIQ_KEY\x01"
_SEPARATOR = 2
_pack_start = HEAD_TO_PHYSICAL.pack
_unpack_entry = BATCH_ENTRY_SIZES.unpack_from
_pack_head = HEAD_V4.pack
_pack_unit = UNIT.pack
_pack_batch_unit = BATCH_UNIT.pack


class PlainStager:
    """Stages plain records. :meth:`MessageStore.commit` commits them with all others."""

    __slots__ = ("_appender", "_batch", "_host", "_queues")

    def __init__(self, appender: Appender, queues: QueueTable, store_host: bytes) -> None:
        self._appender = appender
        self._queues = queues
        self._batch = appender.staged
        self._host = store_host

    def check_writable(self) -> None:
        """Raise StoreUnavailableError, which says why, while nothing can be staged."""
        if not self._appender.is_writable:
            raise self._appender.unavailable_error()

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue to stage to, None when its records are not plain ones."""
        if len(self._host) != HOST_V4_SIZE_BYTES or len(topic.encode()) > TOPIC_V1_SIZE_MAX_BYTES:
            return None
        queue = self._queues.get(topic, queue_id) or self._queues.make(topic, queue_id)
        return queue if isinstance(queue, ConsumeQueue) else None

    def batch_queue(self, topic: str, queue_id: int) -> BatchQueue | None:
        """Return the batch queue to stage inner batches to, None when there is none or its records are not plain."""
        if len(self._host) != HOST_V4_SIZE_BYTES or len(topic.encode()) > TOPIC_V1_SIZE_MAX_BYTES:
            return None
        queue = self._queues.get(topic, queue_id) or self._queues.make(topic, queue_id)
        return queue if isinstance(queue, BatchQueue) else None

    def stage_inner(self, queue: BatchQueue, draft: Draft, count: int) -> tuple[int, int, int]:
        """Stage an inner batch of ``count`` messages, as :meth:`MessageStore.stage_inner` does.

        Returns (physical offset, size in bytes, queue offset of the first message); see :meth:`stage`.
        """
        store, batch = self._appender, self._batch
        log = batch.log
        parts = log.parts
        if parts:
            store_ms = store.last_store_ms  # see :meth:`stage`
        elif store.is_writable:
            store_ms = store.stamp()
        else:
            raise store.unavailable_error()
        queue_offset = queue.units.message_end + queue.pending_count
        properties = b"%bINNER_NUM\x01%d\x02INNER_BASE\x01%d\x02" % (draft.properties, count, queue_offset)
        draft.properties = properties
        draft.sys_flag |= INNER_FLAGS
        properties_size = len(properties)
        if properties_size > PROPERTIES_SIZE_MAX_BYTES or 0 in properties:
            check_properties(properties)
        size = queue.overhead_bytes + len(draft.body) + properties_size
        at = log.staged_end
        if size + BLANK_SIZE_BYTES > log.segment_end - at:
            at = batch.place(size)
            parts = log.parts
        else:
            log.staged_end = at + size
        try:
            parts += pack_record(draft, queue, size, queue_offset, at, store_ms, self._host)
        except DoesNotFitError:
            batch.give_back(at)
            raise
        if not queue.staged:
            batch.queues.append(queue)
        keyed = draft.keyed
        code = tags_code_of(keyed) if _TAGS in keyed else 0
        queue.staged.append(_pack_batch_unit(at, size, code, store_ms, queue_offset, count, NOT_COMPACTED, 0))
        queue.pending_count += count
        keys = batch.keys
        keys.topics.append(queue.topic)
        keys.properties.append(keyed)
        keys.offsets.append(at)
        keys.times_ms.append(store_ms)
        return at, size, queue_offset

    def stage(self, queue: ConsumeQueue, draft: Draft) -> tuple[int, int]:
        """Stage a record; return (physical offset, size in bytes). Its queue offset is the old ``queue.next_offset``.

        The draft has its ``keyed``, and a ``born_host`` of 8 bytes. The transaction bits of its ``sys_flag`` are 0, or
        those of a committed message. Raises as :meth:`MessageStore.stage` does.
        """
        # StagedBatch.place, add, KeyedRecords.add and pack_record, written out: calls cost a fifth of a staged record.
        store, batch = self._appender, self._batch
        log = batch.log
        parts = log.parts
        if parts:
            # Something is staged already, so the store takes writes, and one commit has one store time.
            store_ms = store.last_store_ms
        elif store.is_writable:
            store_ms = store.stamp()
        else:
            raise store.unavailable_error()
        body, properties = draft.body, draft.properties
        body_size, properties_size = len(body), len(properties)
        if properties_size > PROPERTIES_SIZE_MAX_BYTES or 0 in properties:
            check_properties(properties)
        size = queue.overhead_bytes + body_size + properties_size
        at = log.staged_end
        if size + BLANK_SIZE_BYTES > log.segment_end - at:
            at = batch.place(size)
            parts = log.parts
        else:
            log.staged_end = at + size
        queue_offset = queue.next_offset
        try:
            head = _pack_head(
                size, queue.magic, crc32(body) & CRC_MASK, queue.queue_id, draft.flag, queue_offset, at,
                draft.sys_flag & SYS_FLAG_V4_MASK, draft.born_timestamp_ms, draft.born_host, store_ms, self._host,
                draft.reconsume_times, draft.prepared_transaction_offset, body_size,
            )  # fmt: skip
        except struct.error as error:
            batch.give_back(at)
            raise numbers_error(error) from error
        parts += (head, body, queue.topic_part, I16[properties_size], properties)
        staged = queue.staged
        if not staged:
            batch.queues.append(queue)
        staged.append(_pack_unit(at, size, draft.tags_code))
        queue.next_offset = queue_offset + 1
        keys = batch.keys
        keys.topics.append(queue.topic)
        keys.properties.append(draft.keyed)
        keys.offsets.append(at)
        keys.times_ms.append(store_ms)
        return at, size

    def stage_lite(self, queue: ConsumeQueue, draft: Draft, lite: str, number: int, offset: int) -> tuple[int, int]:
        """Do as :meth:`stage` for a message of a lite topic.

        It gets ``offset`` of light queue ``number``, as :attr:`LightReader.place` gives them and the draft's properties
        say it.
        """
        at, size = self.stage(queue, draft)
        store, topic = self._appender, queue.topic
        store.lights.note_staged(topic, lite, number, offset)
        self._batch.lights.append((topic, lite, number, offset, at, size, store.last_store_ms))
        return at, size

    def stage_batch(
        self, queue: ConsumeQueue, draft: Draft, count_max: int, unusual: tuple[bytes, ...]
    ) -> tuple[list[int], int] | None:
        """Stage the entries of a batch request's body, each with the draft's shared properties behind its own.

        Returns (physical offsets, total bytes), or None with nothing staged when the batch is not a plain one: it is
        malformed, has too many entries or properties, has one of the ``unusual`` words or a name of the broker's own
        in it, or doesn't fit into the current segment. The shared properties have no TAGS and no KEYS. Their UNIQ_KEY
        is a key of each entry; without one each entry has its own.
        """
        entries, shared = bytes(draft.body), draft.properties
        store = self._appender
        if not store.is_writable:
            raise store.unavailable_error()
        store_ms = store.stamp()
        if store.bulk_ready:
            uniform = self._encode_uniform(queue, draft, store_ms)
            if uniform is not None:
                own = uniform.own + shared
                if (
                    len(uniform.offsets) > count_max
                    or _is_unusual(own, (*unusual, b"\0"))
                    or has_broker_word(own.decode("latin-1"))
                ):
                    return None
                owns: list[bytes] | None = None
                if _KEYS in uniform.own or _UNIQUE not in shared:
                    owns = _own_properties(uniform.joined, uniform.own_size, len(uniform.offsets))
                return self._take(queue, [uniform.records], [uniform.units], uniform.offsets, owns, shared, store_ms)
        if _is_unusual(entries, unusual) or b"\0" in shared:
            return None
        position, queue_offset = self._batch.next_place, queue.next_offset
        queue_id, topic_part, overhead = queue.queue_id, queue.topic_part, queue.overhead_bytes
        shared_size, tagged = len(shared), _TAGS in entries
        # UNIQ_KEY has the only underscore of most messages.
        may_be_brokers = entries.count(b"_") > entries.count(_UNIQUE)
        parts: list[bytes] = []
        units: list[bytes] = []
        offsets: list[int] = []
        at, end, body_head, tail, last_body_size, last_properties_size = 0, len(entries), b"", b"", -1, -1
        try:
            middle = pack_middle(draft, store_ms, self._host)
            while at < end:
                size, flag, body_size = _unpack_entry(entries, at)
                body_end = at + BATCH_ENTRY_BODY_AT + body_size
                stop = at + size
                own_size = entries[body_end] << 8 | entries[body_end + 1]
                own_at = body_end + PROPERTIES_LENGTH_BYTES
                if body_size < 0 or stop > end or own_at + own_size != stop:
                    return None
                body = entries[at + BATCH_ENTRY_BODY_AT : body_end]
                own = entries[own_at:stop]
                if (
                    (own_size and own[-1] != _SEPARATOR)
                    or b"\0" in own
                    or (may_be_brokers and has_broker_word(own.decode("latin-1")))
                ):
                    return None
                if body_size != last_body_size:
                    last_body_size, body_head = body_size, middle + body_size.to_bytes(4, "big")
                if own_size != last_properties_size:
                    if own_size + shared_size > SENT_PROPERTIES_MAX_BYTES:
                        return None
                    last_properties_size, tail = own_size, topic_part + I16[own_size + shared_size]
                size = overhead + body_size + own_size + shared_size
                parts += (
                    _pack_start(size, MAGIC_V1, crc32(body) & CRC_MASK, queue_id, flag, queue_offset, position),
                    body_head,
                    body,
                    tail,
                    own,
                    shared,
                )
                units.append(_pack_unit(position, size, tags_code_of(own) if tagged else 0))
                offsets.append(position)
                queue_offset += 1
                position += size
                at = stop
        except (struct.error, IndexError):
            return None
        if not offsets or len(offsets) > count_max:
            return None
        owns = parts[4::6] if _KEYS in entries or _UNIQUE not in shared else None
        return self._take(queue, parts, units, offsets, owns, shared, store_ms)

    def _encode_uniform(self, queue: ConsumeQueue, draft: Draft, store_ms: int) -> Encoded | None:
        from pymq.store.write.uniform_batch import BatchPlace, encode_uniform  # noqa: PLC0415 - it needs numpy

        try:
            return encode_uniform(draft, BatchPlace(queue, self._batch.next_place, store_ms, self._host))
        except DoesNotFitError:  # a number too large for its field: the loop finds it, too
            return None

    def _take(
        self,
        queue: ConsumeQueue,
        parts: list[bytes],
        units: list[bytes],
        offsets: list[int],
        owns: list[bytes] | None,
        shared: bytes,
        store_ms: int,
    ) -> tuple[list[int], int] | None:
        """Stage encoded records if the current segment has room for them, else return None.

        ``owns``: the entries' own properties, if there may be keys among them. A UNIQ_KEY of the batch, in ``shared``,
        stands behind them, so it is a key of each entry.
        """
        batch, size, count = self._batch, sum(map(len, parts)), len(offsets)
        if not batch.fits(size):
            return None
        batch.place(size)
        batch.add_records(queue, parts, units, count)
        keyed = [shared] * count if owns is None else [own + shared for own in owns]
        batch.add_keys(queue.topic, keyed, offsets, store_ms)
        return offsets, size


def _is_unusual(properties: bytes, words: tuple[bytes, ...]) -> bool:
    return any(properties.find(word) >= 0 for word in words)


def _own_properties(own: bytes, size: int, count: int) -> list[bytes]:
    """Return each entry's properties from those of all ``count`` entries, ``size`` bytes each."""
    if not size:
        return [b""] * count
    return [own[at : at + size] for at in range(0, len(own), size)]
