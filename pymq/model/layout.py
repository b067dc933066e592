"""The byte layout of stored messages: log record, batch entry, consume queue unit, index file.

This module alone knows it. Encoders and parsers take offsets, Structs, flags and bounds from here, and numpy's types
from :mod:`pymq.model.layout_dtypes`. Everything is big endian and signed.

A log record with IPv4 hosts (Java: MessageDecoder, CommitLog.DefaultAppendMessageCallback). An IPv6 host takes 20 bytes
instead of 8, and later fields shift::

     0  i32 total size          20  i64 queue offset        64  host  store host (4 bytes + i32 port)
     4  i32 magic               28  i64 physical offset     72  i32   reconsume times
     8  i32 body CRC            36  i32 sysFlag             76  i64   prepared transaction offset
    12  i32 queue id            40  i64 born timestamp ms   84  i32   body length, then the body
    16  i32 flag                48  host born host          ..  i8    topic length (v2: i16), then the topic
                                56  i64 store timestamp ms  ..  i16   properties length, then the properties
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from pymq.model import sysflag

I16 = struct.Struct(">h")
I32 = struct.Struct(">i")
I64 = struct.Struct(">q")

# -- log record: offsets ----------------------------------------------------------------------------------------------

MAGIC_AT = 4
BODY_CRC_AT = 8
QUEUE_ID_AT = 12
FLAG_AT = 16
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_TIMESTAMP_AT = 40
BORN_HOST_AT = 48
# From here on with IPv4 hosts.
STORE_TIMESTAMP_AT = 56
STORE_HOST_AT = 64
RECONSUME_TIMES_AT = 72
BODY_LENGTH_AT = 84
BODY_AT = 88

HOST_V4_SIZE_BYTES = 8
HOST_V6_SIZE_BYTES = 20
HOST_V6_EXTRA_BYTES = HOST_V6_SIZE_BYTES - HOST_V4_SIZE_BYTES
BODY_AFTER_STORE_HOST_BYTES = BODY_AT - RECONSUME_TIMES_AT

# -- log record: magics, flags, bounds --------------------------------------------------------------------------------

MAGIC_V1 = -626843481  # 0xDAA320A7
MAGIC_V2 = -626843477  # 0xDAA320AB, for topics longer than TOPIC_V1_SIZE_MAX_BYTES
MAGIC_BLANK = -875286124  # 0xCBD43194, fills the end of a segment
RECORD_MAGICS = (I32.pack(MAGIC_V1), I32.pack(MAGIC_V2))

HOST_V6_FLAGS = sysflag.BORN_HOST_V6 | sysflag.STORE_HOST_V6
SYS_FLAG_V4_MASK = ~HOST_V6_FLAGS  # what a sysFlag keeps when both hosts are IPv4
# Half messages and rollbacks have this bit of the transaction type. They alone have no consume queue unit.
NO_UNIT_FLAG = sysflag.TRANSACTION_PREPARED & sysflag.TRANSACTION_ROLLBACK

# Bits that neither a plain record nor its quick parsers know: IPv6 hosts, transactions, inner batches.
UNCOMMON_FLAGS = HOST_V6_FLAGS | sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH

CRC_MASK = 0x7FFFFFFF  # every CRC-32 of RocketMQ has its sign bit cleared
TOPIC_V1_SIZE_MAX_BYTES = 127  # the length is one byte; version 2 has two
PROPERTIES_SIZE_MAX_BYTES = 0x7FFF
# What a broker may add when it stores a message again: the target of a delay, origin and tries of a retry, the origin
# of a dead letter, the times of pops. The longest names of topics and groups take 600 bytes of it.
ADDED_PROPERTIES_MAX_BYTES = 1024
TOPIC_SIZE_MAX_BYTES = 255  # of a retry topic, the longest names
_TOPIC_WITHOUT_ROOM_BYTES = 36  # RETRY_TOPIC with it is as long as the shortest of what can be left out


def sent_properties_max_bytes(topic_size_bytes: int) -> int:
    """Return what a message sent to a topic may have, with what the broker adds at once.

    A message that is given back has RETRY_TOPIC in place of MSG_REGION, TRACE_ON and CLUSTER when there is no other
    room: that takes more bytes for long topics only.
    """
    return PROPERTIES_SIZE_MAX_BYTES - max(topic_size_bytes - _TOPIC_WITHOUT_ROOM_BYTES, 0)


SENT_PROPERTIES_MAX_BYTES = sent_properties_max_bytes(127)  # to any topic
RECORD_OVERHEAD_BYTES = 91  # version 1, IPv4 hosts, empty body, topic and properties
TOPIC_LENGTH_BYTES = 1  # in version 1
PROPERTIES_LENGTH_BYTES = 2
BOTH_LENGTHS_BYTES = TOPIC_LENGTH_BYTES + PROPERTIES_LENGTH_BYTES
BLANK_SIZE_BYTES = 8
# What a record needs beside body and sent properties, wherever it is stored again: other hosts, topic, properties.
STORED_AGAIN_MAX_BYTES = (
    RECORD_OVERHEAD_BYTES
    + 1  # the longer topic length of version 2
    + 2 * HOST_V6_EXTRA_BYTES
    + TOPIC_SIZE_MAX_BYTES
    + ADDED_PROPERTIES_MAX_BYTES
    + BLANK_SIZE_BYTES
)

# -- log record: Structs ----------------------------------------------------------------------------------------------

RECORD_START = struct.Struct(">ii")  # size, magic: all that a blank record has
RECORD_PLACE = struct.Struct(">ii4xi4xqq")  # size, magic, queue id, queue offset, physical offset
RECORD_QUEUE_OFFSET = struct.Struct(">i16xq")  # size, queue offset
# Size, magic, CRC, queue id, flag, queue offset, physical offset, ...
HEAD_TO_PHYSICAL = struct.Struct(">iiiiiqq")
HEAD_TO_SYS_FLAG = struct.Struct(">iiiiiqqi")  # ... sysFlag, ...
HEAD_TO_BORN_TIMESTAMP = struct.Struct(">iiiiiqqiq")  # ... born timestamp: everything before the first host
HEAD_AFTER_HOSTS = struct.Struct(">iqi")  # reconsume times, prepared transaction offset, body length

HEAD_V4 = struct.Struct(">iiiiiqqiq8sq8siqi")  # everything before the body
# The same in three pieces, for records of a batch that share the second: HEAD_TO_PHYSICAL, this, and the body's length.
HEAD_V4_MIDDLE = struct.Struct(">iq8sq8siq")
# Size, magic, unsigned CRC, queue id, queue offset, physical offset, sysFlag, store timestamp, body length.
HEAD_V4_DISPATCH = struct.Struct(">iiIi4xqqi16xq20xi")
HEAD_V4_FILTER = struct.Struct(">4xi28xi44xi")  # magic, sysFlag, body length


def host_extra_bytes(sys_flag: int) -> int:
    """Return how many bytes a record's IPv6 hosts shift the body by."""
    return HOST_V6_EXTRA_BYTES * (bool(sys_flag & sysflag.BORN_HOST_V6) + bool(sys_flag & sysflag.STORE_HOST_V6))


# -- batch entry: i32 size, magic 0, CRC 0, flag, body length; body; i16 properties length; properties ----------------

BATCH_ENTRY_HEAD = struct.Struct(">iiiii")
BATCH_ENTRY_SIZES = struct.Struct(">i8xii")  # size, flag, body length
BATCH_ENTRY_BODY_LENGTH_AT = 16
BATCH_ENTRY_BODY_AT = 20
BATCH_ENTRY_OVERHEAD_BYTES = BATCH_ENTRY_BODY_AT + PROPERTIES_LENGTH_BYTES
BATCH_COUNT_MAX = 32767
UNIFORM_ENTRIES_MAX = 1024  # that one Struct takes apart


class UniformEntries(NamedTuple):
    """What reads entries of equal sizes at once.

    ``lengths`` takes three lengths out of each: its own, its body's and its properties'; ``wanted`` is what they are in
    a sound batch. ``areas`` takes out the properties with their length.
    """

    entry_count: int
    properties_size: int
    lengths: struct.Struct
    wanted: tuple[int, ...]
    areas: struct.Struct


@lru_cache(maxsize=32)  # of 100 KB each at most
def uniform_entries(size: int, body_size: int, count: int) -> UniformEntries | None:
    """Return what reads ``count`` entries of ``size`` bytes with these bodies; None when they can't have that size."""
    properties_size = size - BATCH_ENTRY_OVERHEAD_BYTES - body_size
    if body_size < 0 or not 0 <= properties_size <= PROPERTIES_SIZE_MAX_BYTES or count > UNIFORM_ENTRIES_MAX:
        return None
    before = BATCH_ENTRY_BODY_AT + body_size
    area_size = PROPERTIES_LENGTH_BYTES + properties_size
    return UniformEntries(
        count,
        properties_size,
        struct.Struct(">" + f"i12xi{body_size}xH{properties_size}x" * count),
        (size, body_size, properties_size) * count,
        struct.Struct(f"{before}x{area_size}s" * count),
    )


# -- consume queue unit -----------------------------------------------------------------------------------------------

UNIT = struct.Struct(">qiq")  # physical offset, record size, tags code
UNIT_SIZE_BYTES = 20
UNIT_TAGS_CODE_AT = 12
BLANK_UNIT_SIZE = 0x7FFFFFFF
BLANK_UNIT = UNIT.pack(0, BLANK_UNIT_SIZE, 0)  # stands where no record exists (Java: ConsumeQueue.fillPreBlank)
# The tags code ("PYMQLOST") of a placeholder unit. Its own record is lost, and it leads to a neighbor's instead. At a
# blank unit RocketMQ passes over all later units of the log's first segment; here it reads the neighbor twice.
PLACEHOLDER_CODE = 0x50594D514C4F5354
EXT_ADDRESS_MAX = -2147483649  # a tags code at or below it is an address in consumequeue_ext: any tag may match

# -- batch queue unit: the first 20 bytes are those of a consume queue unit --------------------------------------------

# Physical offset, record size, tags code, store timestamp ms, first queue offset, messages, compacted offset, reserved.
BATCH_UNIT = struct.Struct(">qiqqqhii")
BATCH_UNIT_SIZE_BYTES = 46
BATCH_UNIT_RANGE = struct.Struct(">28xqh8x")  # first queue offset, messages
BATCH_UNIT_PLACE = struct.Struct(">q20xqh8x")  # physical offset, first queue offset, messages
NOT_COMPACTED = -1  # the compacted offset of every unit: PyMQ compacts no topic
INNER_COUNT_MAX = 32767  # messages of one inner batch

# -- index file: header, slots, entries -------------------------------------------------------------------------------

# Begin and end timestamp ms, begin and end physical offset, used slots, number of the next entry.
INDEX_HEADER = struct.Struct(">qqqqii")
INDEX_HEADER_SIZE_BYTES = 40
INDEX_USED_SLOTS_AT = 32
INDEX_COUNT_AT = 36
INDEX_SLOT = struct.Struct(">i")  # number of the newest entry of the chain, 0 for none
INDEX_SLOT_SIZE_BYTES = 4
INDEX_ENTRY = struct.Struct(">iqii")  # key hash, physical offset, seconds since the begin timestamp, entry before it
INDEX_ENTRY_SIZE_BYTES = 20
INDEX_TIME_DIFF_MAX_S = 0x7FFFFFFF
