"""The stored-message layout: one record of the commit log, of a pull answer and of a batch request.

Byte table (IPv4 hosts; an IPv6 host takes 20 bytes instead of 8 and later fields shift), big endian, signed
(Java: MessageDecoder, CommitLog.DefaultAppendMessageCallback)::

     0  i32 total size          20  i64 queue offset        64  host  store host (4 bytes + i32 port)
     4  i32 magic               28  i64 physical offset     72  i32   reconsume times
     8  i32 body CRC            36  i32 sysFlag             76  i64   prepared transaction offset
    12  i32 queue id            40  i64 born timestamp ms   84  i32   body length, then the body
    16  i32 flag                48  host born host          ..  i8    topic length (v2: i16), then the topic
                                56  i64 store timestamp ms  ..  i16   properties length, then the properties
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from zlib import crc32

from pymq.errors import PymqError
from pymq.model import sysflag
from pymq.model.compression import decompress_body
from pymq.model.hosts import unpack_host
from pymq.model.ids import encode_offset_id
from pymq.model.properties import KEYS, TAGS, UNIQ_KEY, decode_properties

MAGIC_V1 = -626843481  # 0xDAA320A7
MAGIC_V2 = -626843477  # 0xDAA320AB, topics longer than 127 bytes
MAGIC_BLANK = -875286124  # 0xCBD43194, fills the end of a segment
BLANK_SIZE_BYTES = 8
RECORD_OVERHEAD_BYTES = 91  # v1 with IPv4 hosts, empty body, topic and properties

QUEUE_ID_AT = 12
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_TIMESTAMP_AT = 40
STORE_TIMESTAMP_AT = 56  # with an IPv4 born host
BODY_LENGTH_AT = 84  # with IPv4 hosts

# Everything before the body when both hosts are IPv4.
HEAD_V4 = struct.Struct(">iiiiiqqiq8sq8siqi")
_FIXED = struct.Struct(">iiiiiqqiq")  # up to and with the born timestamp
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_I16 = struct.Struct(">h")
_TAIL = struct.Struct(">iqi")  # reconsume times, prepared transaction offset, body length
BLANK = struct.Struct(">ii")
_V6_HOSTS = sysflag.BORN_HOST_V6 | sysflag.STORE_HOST_V6

BATCH_ENTRY_OVERHEAD_BYTES = 22
_BATCH_HEAD = struct.Struct(">iiiii")  # size, magic 0, crc 0, flag, body length
BATCH_COUNT_MAX = 32767


class MalformedRecordError(PymqError):
    """Bytes that should be a record or a batch entry are not."""


def body_crc(body: bytes | memoryview) -> int:
    """CRC-32 of the stored body, sign bit cleared, as every CRC of RocketMQ."""
    return crc32(body) & 0x7FFFFFFF


@dataclass(slots=True)
class StoredMessage:
    """One decoded record. ``body`` holds the bytes as stored; :meth:`content` inflates them.

    ``born_host`` and ``store_host`` are raw (4 or 16 address bytes and a 32-bit port); times are Unix ms.
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
        """Parsed on first use; the same dict afterwards."""
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
        """Upper-case hex of store host and physical offset."""
        return encode_offset_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """The producer's unique key, or the offset message id when it set none."""
        return self.properties.get(UNIQ_KEY) or self.offset_message_id

    @property
    def born_address(self) -> tuple[str, int]:
        return unpack_host(self.born_host)

    @property
    def store_address(self) -> tuple[str, int]:
        return unpack_host(self.store_host)

    def content(self) -> bytes:
        """The body as its producer wrote it. Raises InflateError."""
        return decompress_body(self.body, self.sys_flag)


def record_size(topic_size: int, body_size: int, properties_size: int, sys_flag: int = 0) -> int:
    """Bytes of a record with these part sizes; ``sys_flag`` tells the host sizes."""
    size = RECORD_OVERHEAD_BYTES + topic_size + body_size + properties_size
    size += 12 * (bool(sys_flag & sysflag.BORN_HOST_V6) + bool(sys_flag & sysflag.STORE_HOST_V6))
    return size + (1 if topic_size > 127 else 0)


def encode_record(
    *,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    body: bytes,
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
    """A whole record. The host bits of ``sys_flag`` are set from the hosts' lengths. The plain, slow, complete way."""
    sys_flag &= ~(sysflag.BORN_HOST_V6 | sysflag.STORE_HOST_V6)
    if len(born_host) > 8:
        sys_flag |= sysflag.BORN_HOST_V6
    if len(store_host) > 8:
        sys_flag |= sysflag.STORE_HOST_V6
    size = record_size(len(topic), len(body), len(properties), sys_flag)
    wide = len(topic) > 127
    magic = MAGIC_V2 if wide else MAGIC_V1
    return b"".join(
        (
            _FIXED.pack(
                size, magic, body_crc(body), queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms
            ),
            born_host,
            _I64.pack(store_timestamp_ms),
            store_host,
            _TAIL.pack(reconsume_times, prepared_transaction_offset, len(body)),
            body,
            _I16.pack(len(topic)) if wide else bytes((len(topic),)),
            topic,
            _I16.pack(len(properties)),
            properties,
        )
    )


def encode_blank(size_bytes: int) -> bytes:
    """The 8-byte blank record at a segment's end; ``size_bytes`` is the whole space left, the blank record's own 8 included."""
    return BLANK.pack(size_bytes, MAGIC_BLANK)


def decode_record(buffer: bytes | memoryview, at: int = 0, *, check_crc: bool = False) -> StoredMessage:
    """The record that starts at ``at``. Every length is checked against the bytes present.

    Raises MalformedRecordError (also for a CRC that doesn't fit, when asked to check it).
    """
    try:
        return _decode(memoryview(buffer), at, check_crc)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRecordError(f"the record at {at} is cut short or damaged: {error}") from error


def _decode(buffer: memoryview, at: int, check_crc: bool) -> StoredMessage:
    size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born_ms = _FIXED.unpack_from(buffer, at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise MalformedRecordError(f"the record at {at} has magic {magic & 0xFFFFFFFF:#x}, no message magic")
    if size < RECORD_OVERHEAD_BYTES or at + size > len(buffer):
        raise MalformedRecordError(f"the record at {at} says {size} bytes, {len(buffer) - at} are there")
    view = buffer[at : at + size]
    born_end = 48 + (20 if sys_flag & sysflag.BORN_HOST_V6 else 8)
    store_start = born_end + 8
    store_end = store_start + (20 if sys_flag & sysflag.STORE_HOST_V6 else 8)
    reconsume_times, prepared, body_length = _TAIL.unpack_from(view, store_end)
    body_start = store_end + 16
    topic_start = body_start + body_length + 1
    if body_length < 0 or topic_start > size:
        raise MalformedRecordError(f"the record at {at} has body length {body_length} in {size} bytes")
    if magic == MAGIC_V1:
        topic_length = view[topic_start - 1]
    else:
        topic_length = _I16.unpack_from(view, topic_start - 1)[0]
        topic_start += 1
    topic_end = topic_start + topic_length
    properties_length = _I16.unpack_from(view, topic_end)[0]
    if topic_length < 0 or properties_length < 0 or topic_end + 2 + properties_length != size:
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
        raw_properties=bytes(view[topic_end + 2 :]),
        flag=flag,
        sys_flag=sys_flag,
        body_crc=crc,
        born_timestamp_ms=born_ms,
        born_host=bytes(view[48:born_end]),
        store_timestamp_ms=_I64.unpack_from(view, born_end)[0],
        store_host=bytes(view[store_start:store_end]),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
    )


def decode_records(buffer: bytes | memoryview) -> list[StoredMessage]:
    """All records of a pull answer's body, back to back. Raises MalformedRecordError."""
    data = bytes(buffer)
    result: list[StoredMessage] = []
    at, end = 0, len(data)
    while at < end:
        message = _decode_plain(data, at) or decode_record(data, at)
        result.append(message)
        at += message.size_bytes
    return result


def _decode_plain(data: bytes, at: int) -> StoredMessage | None:
    """The commonest record, version 1 with IPv4 hosts, in less than half the time; None for others and damaged ones.

    A property test holds it equal to :func:`decode_record`.
    """
    if len(data) - at < RECORD_OVERHEAD_BYTES:
        return None
    head = HEAD_V4.unpack_from(data, at)
    size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born_ms, born_host, store_ms, store_host = head[
        :12
    ]
    reconsume_times, prepared, body_length = head[12:]
    end = at + size
    topic_start = at + 89 + body_length
    if magic != MAGIC_V1 or sys_flag & _V6_HOSTS or body_length < 0 or end > len(data) or topic_start + 2 > end:
        return None
    topic_end = topic_start + data[topic_start - 1]
    properties_size = end - topic_end - 2
    if not 0 <= properties_size <= 32767 or data[topic_end] << 8 | data[topic_end + 1] != properties_size:
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
        data[at + 88 : topic_start - 1],
        data[topic_end + 2 : end],
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
    """One message inside a batch request (size, 0, 0, flag, body, properties)."""
    size = BATCH_ENTRY_OVERHEAD_BYTES + len(body) + len(properties)
    return b"".join((_BATCH_HEAD.pack(size, 0, 0, flag, len(body)), body, _I16.pack(len(properties)), properties))


def decode_batch(buffer: bytes, count_max: int = BATCH_COUNT_MAX) -> list[tuple[int, bytes, bytes]]:
    """(flag, body, properties) of every entry of a batch request's body. Raises MalformedRecordError."""
    entries: list[tuple[int, bytes, bytes]] = []
    at, end = 0, len(buffer)
    unpack = _BATCH_HEAD.unpack_from
    unpack_i16 = _I16.unpack_from
    while at < end:
        if end - at < BATCH_ENTRY_OVERHEAD_BYTES:
            raise MalformedRecordError(f"batch entry {len(entries)} at {at} is cut short: {end - at} bytes are left")
        size, _, _, flag, body_length = unpack(buffer, at)
        properties_at = at + 20 + body_length
        if body_length < 0 or size > end - at or properties_at + 2 > at + size:
            raise MalformedRecordError(f"batch entry {len(entries)} at {at}: size {size}, body {body_length} don't fit")
        properties_length = unpack_i16(buffer, properties_at)[0]
        if properties_length < 0 or properties_at + 2 + properties_length != at + size:
            raise MalformedRecordError(f"batch entry {len(entries)} at {at}: its parts don't add up to {size} bytes")
        entries.append((flag, buffer[at + 20 : properties_at], buffer[properties_at + 2 : at + size]))
        at += size
        if len(entries) > count_max:
            raise MalformedRecordError(f"the batch has more than {count_max} messages: send smaller batches")
    return entries
