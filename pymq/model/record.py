"""Encodes and decodes one stored message, and the entries of a batch request.

This is the complete and plain implementation. Hot loops elsewhere do parts of it faster, and property tests hold them
equal. The byte table is in :mod:`pymq.model.layout`.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict, Unpack
from zlib import crc32

from pymq.errors import DoesNotFitError, PymqError
from pymq.model import sysflag
from pymq.model.compression import decompress_body
from pymq.model.draft import Draft
from pymq.model.hosts import unpack_host
from pymq.model.ids import encode_offset_id
from pymq.model.layout import (
    BATCH_COUNT_MAX,
    BATCH_ENTRY_BODY_AT,
    BATCH_ENTRY_HEAD,
    BATCH_ENTRY_OVERHEAD_BYTES,
    BODY_AFTER_STORE_HOST_BYTES,
    BODY_AT,
    BORN_HOST_AT,
    CRC_MASK,
    HEAD_AFTER_HOSTS,
    HEAD_TO_BORN_TIMESTAMP,
    HEAD_V4,
    HOST_V4_SIZE_BYTES,
    HOST_V6_EXTRA_BYTES,
    HOST_V6_FLAGS,
    HOST_V6_SIZE_BYTES,
    I16,
    I32,
    I64,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_BYTES,
    PROPERTIES_SIZE_MAX_BYTES,
    RECORD_OVERHEAD_BYTES,
    RECORD_START,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
    SYS_FLAG_V4_MASK,
    TOPIC_LENGTH_BYTES,
    TOPIC_V1_SIZE_MAX_BYTES,
)
from pymq.model.properties import KEYS, TAGS, UNIQ_KEY, decode_properties

log = logging.getLogger(__name__)

_EMPTY_TOPIC_AT = BODY_AT + TOPIC_LENGTH_BYTES


class MalformedRecordError(PymqError):
    """Bytes that should be a record or a batch entry are not."""


def body_crc(body: bytes | memoryview) -> int:
    """Return the CRC-32 of the stored body, with its sign bit cleared, as RocketMQ does for every CRC."""
    return crc32(body) & CRC_MASK


@dataclass(slots=True)
class StoredMessage:
    """One decoded record. ``body`` holds the bytes as stored; :meth:`content` decompresses them.

    ``born_host`` and ``store_host`` are raw: 4 or 16 address bytes and a 32-bit port. Times are in Unix ms.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size_bytes: int
    body: bytes
    raw_properties: bytes
    flag: int
    sys_flag: int
    body_crc: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    broker_name: str = ""
    _properties: dict[str, str] | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The properties, parsed on first use; the same dict afterwards."""
        if self._properties is None:
            self._properties = decode_properties(self.raw_properties)
        return self._properties

    @property
    def tags(self) -> str:
        return self.properties.get(TAGS, "")

    @property
    def keys(self) -> str:
        return self.properties.get(KEYS, "")

    @property
    def offset_message_id(self) -> str:
        """Store host and physical offset in upper-case hexadecimal."""
        return encode_offset_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """The producer's unique key, or the offset message id when the producer set none."""
        return self.properties.get(UNIQ_KEY) or self.offset_message_id

    @property
    def born_address(self) -> tuple[str, int]:
        return unpack_host(self.born_host)

    @property
    def store_address(self) -> tuple[str, int]:
        return unpack_host(self.store_host)

    def content(self) -> bytes:
        """Return the body as its producer wrote it. Raises InflateError."""
        return decompress_body(self.body, self.sys_flag)


def record_size(topic_size: int, body_size: int, properties_size: int, sys_flag: int = 0) -> int:
    """Return the size in bytes of a record with these part sizes. The bits of ``sys_flag`` give the host sizes."""
    size = RECORD_OVERHEAD_BYTES + topic_size + body_size + properties_size
    size += HOST_V6_EXTRA_BYTES * (bool(sys_flag & sysflag.BORN_HOST_V6) + bool(sys_flag & sysflag.STORE_HOST_V6))
    return size + (1 if topic_size > TOPIC_V1_SIZE_MAX_BYTES else 0)


def numbers_error(error: struct.error) -> DoesNotFitError:
    """Return the error for a length or a number that its field of a record can't hold."""
    return DoesNotFitError(f"a length or a number of the message doesn't fit into its field of a record: {error}")


def encode_record(
    *,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    body: bytes | memoryview,
    properties: bytes,
    flag: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_timestamp_ms: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """Return a complete record. The hosts' lengths determine the host bits of ``sys_flag``.

    Raises DoesNotFitError for a length or a number that its field can't hold.
    """
    if {len(born_host), len(store_host)} - {HOST_V4_SIZE_BYTES, HOST_V6_SIZE_BYTES}:
        raise DoesNotFitError(
            f"a record's hosts have {HOST_V4_SIZE_BYTES} or {HOST_V6_SIZE_BYTES} bytes, these have {len(born_host)} "
            f"and {len(store_host)}"
        )
    sys_flag &= SYS_FLAG_V4_MASK
    if len(born_host) > HOST_V4_SIZE_BYTES:
        sys_flag |= sysflag.BORN_HOST_V6
    if len(store_host) > HOST_V4_SIZE_BYTES:
        sys_flag |= sysflag.STORE_HOST_V6
    size = record_size(len(topic), len(body), len(properties), sys_flag)
    wide = len(topic) > TOPIC_V1_SIZE_MAX_BYTES
    magic = MAGIC_V2 if wide else MAGIC_V1
    try:
        return b"".join(
            (
                HEAD_TO_BORN_TIMESTAMP.pack(
                    size, magic, body_crc(body), queue_id, flag, queue_offset, physical_offset, sys_flag,
                    born_timestamp_ms,
                ),
                born_host,
                I64.pack(store_timestamp_ms),
                store_host,
                HEAD_AFTER_HOSTS.pack(reconsume_times, prepared_transaction_offset, len(body)),
                body,
                I16.pack(len(topic)) if wide else bytes((len(topic),)),
                topic,
                I16.pack(len(properties)),
                properties,
            )
        )  # fmt: skip
    except struct.error as error:
        raise numbers_error(error) from error


def encode_draft(
    draft: Draft,
    topic: str,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
    store_host: bytes,
) -> bytes:
    """Return the record of a draft at its place, as :func:`encode_record` does. Raises DoesNotFitError."""
    return encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        body=draft.body,
        properties=draft.properties,
        flag=draft.flag,
        sys_flag=draft.sys_flag,
        born_timestamp_ms=draft.born_timestamp_ms,
        born_host=draft.born_host,
        store_timestamp_ms=store_timestamp_ms,
        store_host=store_host,
        reconsume_times=draft.reconsume_times,
        prepared_transaction_offset=draft.prepared_transaction_offset,
    )


class RecordChanges(TypedDict, total=False):
    """What a record of a message has otherwise than the message."""

    topic: bytes
    queue_id: int
    queue_offset: int
    physical_offset: int
    properties: bytes
    sys_flag: int
    prepared_transaction_offset: int


def encode_message(message: StoredMessage, **changes: Unpack[RecordChanges]) -> bytes:
    """Return the record of a decoded message, with these changes."""
    fields: RecordChanges = {
        "topic": message.topic.encode(),
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "properties": message.raw_properties,
        "sys_flag": message.sys_flag,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        **changes,
    }
    return encode_record(
        **fields,
        body=message.body,
        flag=message.flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host,
        store_timestamp_ms=message.store_timestamp_ms,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
    )


def encode_blank(size_bytes: int) -> bytes:
    """Return the 8-byte blank record for a segment's end. ``size_bytes`` is all the space left, these 8 included."""
    return RECORD_START.pack(size_bytes, MAGIC_BLANK)


def decode_record(buffer: bytes | memoryview, at: int = 0, *, check_crc: bool = False) -> StoredMessage:
    """Decode the record that starts at ``at``. Checks every length against the bytes present.

    Raises MalformedRecordError, with ``check_crc`` also for a wrong body CRC.
    """
    try:
        return _decode(memoryview(buffer), at, check_crc)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRecordError(f"the record at {at} is cut short or damaged: {error}") from error


def _host_size(is_v6: int) -> int:
    return HOST_V6_SIZE_BYTES if is_v6 else HOST_V4_SIZE_BYTES


def _decode(buffer: memoryview, at: int, check_crc: bool) -> StoredMessage:
    size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born_ms = HEAD_TO_BORN_TIMESTAMP.unpack_from(
        buffer, at
    )
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise MalformedRecordError(f"the record at {at} has magic {magic & 0xFFFFFFFF:#x}, not a message's magic")
    if size < RECORD_OVERHEAD_BYTES or at + size > len(buffer):
        raise MalformedRecordError(f"the record at {at} says {size} bytes, {len(buffer) - at} are there")
    view = buffer[at : at + size]
    born_end = BORN_HOST_AT + _host_size(sys_flag & sysflag.BORN_HOST_V6)
    store_start = born_end + I64.size
    store_end = store_start + _host_size(sys_flag & sysflag.STORE_HOST_V6)
    reconsume_times, prepared, body_length = HEAD_AFTER_HOSTS.unpack_from(view, store_end)
    body_start = store_end + BODY_AFTER_STORE_HOST_BYTES
    topic_start = body_start + body_length + TOPIC_LENGTH_BYTES
    if body_length < 0 or topic_start > size:
        raise MalformedRecordError(f"the record at {at} has body length {body_length} in {size} bytes")
    if magic == MAGIC_V1:
        topic_length = view[topic_start - 1]
    else:
        topic_length = I16.unpack_from(view, topic_start - 1)[0]
        topic_start += 1
    topic_end = topic_start + topic_length
    properties_length = I16.unpack_from(view, topic_end)[0]
    if topic_length < 0 or properties_length < 0 or topic_end + PROPERTIES_LENGTH_BYTES + properties_length != size:
        raise MalformedRecordError(f"the record at {at}: its parts don't add up to its {size} bytes")
    body = bytes(view[body_start : body_start + body_length])
    if check_crc and body_crc(body) != crc:
        raise MalformedRecordError(f"the record at {at} fails its body CRC")
    return StoredMessage(
        topic=bytes(view[topic_start:topic_end]).decode(),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical,
        size_bytes=size,
        body=body,
        raw_properties=bytes(view[topic_end + PROPERTIES_LENGTH_BYTES :]),
        flag=flag,
        sys_flag=sys_flag,
        body_crc=crc,
        born_timestamp_ms=born_ms,
        born_host=bytes(view[BORN_HOST_AT:born_end]),
        store_timestamp_ms=I64.unpack_from(view, born_end)[0],
        store_host=bytes(view[store_start:store_end]),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
    )


def log_malformed(error: MalformedRecordError) -> None:
    """Log a record that a reader leaves out."""
    log.warning("a message can't be decoded and is left out: %s", error)


def decode_records(
    buffer: bytes | memoryview, on_malformed: Callable[[MalformedRecordError], None] | None = None
) -> list[StoredMessage]:
    """Decode all records of a pull answer's body, which stand back to back. Raises MalformedRecordError.

    With ``on_malformed`` a record that can't be decoded is given to it and left out, as long as its size says where the
    next one begins: one bad record does not hide the others.
    """
    data = bytes(buffer)
    result: list[StoredMessage] = []
    at, end = 0, len(data)
    while at < end:
        try:
            message = _decode_plain(data, at) or decode_record(data, at)
        except MalformedRecordError as error:
            size = stated_size(data, at)
            if on_malformed is None or size is None:
                raise
            on_malformed(error)
            at += size
            continue
        result.append(message)
        at += message.size_bytes
    return result


def stated_size(data: bytes, at: int) -> int | None:
    """Return the size that the record at ``at`` states; None for one that can't be, so that the next begins nowhere."""
    size = I32.unpack_from(data, at)[0] if len(data) - at >= I32.size else 0
    return size if RECORD_OVERHEAD_BYTES <= size <= len(data) - at else None


def store_time_ms(raw: bytes) -> int:
    """Return when a record was stored (Unix ms), also of one whose lengths don't add up."""
    (sys_flag,) = I32.unpack_from(raw, SYS_FLAG_AT)
    extra = HOST_V6_EXTRA_BYTES if sys_flag & sysflag.BORN_HOST_V6 else 0
    stored_ms: int = I64.unpack_from(raw, STORE_TIMESTAMP_AT + extra)[0]
    return stored_ms


def _decode_plain(data: bytes, at: int) -> StoredMessage | None:
    """Decode the most common record, version 1 with IPv4 hosts, in less than half the time.

    Returns None for other and damaged records. A property test holds it equal to :func:`decode_record`.
    """
    if len(data) - at < RECORD_OVERHEAD_BYTES:
        return None
    head = HEAD_V4.unpack_from(data, at)
    size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born_ms, born_host, store_ms, store_host = head[
        :12
    ]
    reconsume_times, prepared, body_length = head[12:]
    end = at + size
    topic_start = at + _EMPTY_TOPIC_AT + body_length
    if (
        magic != MAGIC_V1
        or sys_flag & HOST_V6_FLAGS
        or body_length < 0
        or end > len(data)
        or topic_start + PROPERTIES_LENGTH_BYTES > end
    ):
        return None
    topic_end = topic_start + data[topic_start - 1]
    properties_size = end - topic_end - PROPERTIES_LENGTH_BYTES
    if (
        not 0 <= properties_size <= PROPERTIES_SIZE_MAX_BYTES
        or data[topic_end] << 8 | data[topic_end + 1] != properties_size
    ):
        return None
    try:
        topic = data[topic_start:topic_end].decode()
    except UnicodeDecodeError:
        return None
    return StoredMessage(
        topic,
        queue_id,
        queue_offset,
        physical,
        size,
        data[at + BODY_AT : topic_start - 1],
        data[topic_end + PROPERTIES_LENGTH_BYTES : end],
        flag,
        sys_flag,
        crc,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        prepared,
    )


def encode_batch_entry(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """Return one message as an entry of a batch request."""
    size = BATCH_ENTRY_OVERHEAD_BYTES + len(body) + len(properties)
    return b"".join((BATCH_ENTRY_HEAD.pack(size, 0, 0, flag, len(body)), body, I16.pack(len(properties)), properties))


def decode_batch(buffer: bytes, count_max: int = BATCH_COUNT_MAX) -> list[tuple[int, bytes, bytes]]:
    """Return (flag, body, properties) of every entry of a batch request's body. Raises MalformedRecordError."""
    entries: list[tuple[int, bytes, bytes]] = []
    at, end = 0, len(buffer)
    unpack = BATCH_ENTRY_HEAD.unpack_from
    unpack_i16 = I16.unpack_from
    while at < end:
        if end - at < BATCH_ENTRY_OVERHEAD_BYTES:
            raise MalformedRecordError(f"batch entry {len(entries)} at {at} is cut short: {end - at} bytes are left")
        size, _, _, flag, body_length = unpack(buffer, at)
        properties_at = at + BATCH_ENTRY_BODY_AT + body_length
        own_at = properties_at + PROPERTIES_LENGTH_BYTES
        if body_length < 0 or size > end - at or own_at > at + size:
            raise MalformedRecordError(f"batch entry {len(entries)} at {at}: size {size}, body {body_length} don't fit")
        properties_length = unpack_i16(buffer, properties_at)[0]
        if properties_length < 0 or own_at + properties_length != at + size:
            raise MalformedRecordError(f"batch entry {len(entries)} at {at}: its parts don't add up to {size} bytes")
        entries.append((flag, buffer[at + BATCH_ENTRY_BODY_AT : properties_at], buffer[own_at : at + size]))
        at += size
        if len(entries) > count_max:
            raise MalformedRecordError(f"the batch has more than {count_max} messages: send smaller batches")
    return entries
