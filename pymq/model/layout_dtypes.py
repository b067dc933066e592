"""The byte layout of stored messages as numpy types; :mod:`pymq.model.layout` has everything else of it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pymq.model import layout

Int64s = NDArray[np.int64]

CRC_MASK = np.uint32(layout.CRC_MASK)
BE_INT32 = np.dtype(">i4")
BE_INT64 = np.dtype(">i8")

UNITS = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])
# "first" is the first message's queue offset, "count" how many messages the record has.
BATCH_UNITS = np.dtype(
    {
        "names": ["offset", "size", "tags", "first", "count"],
        "formats": [">i8", ">i4", ">i8", ">i8", ">i2"],
        "offsets": [0, 8, 12, 28, 36],
        "itemsize": layout.BATCH_UNIT_SIZE_BYTES,
    }
)
INDEX_SLOTS = np.dtype(">i4")
INDEX_ENTRIES = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("diff", ">i4"), ("before", ">i4")])

# Everything before the body that dispatching needs, with IPv4 hosts.
HEADS_V4 = np.dtype(
    {
        "names": ["size", "magic", "crc", "queue", "queue_offset", "physical", "sys_flag", "store_ms", "body_size"],
        "formats": [">i4", ">i4", ">u4", ">i4", ">i8", ">i8", ">i4", ">i8", ">i4"],
        "offsets": [
            0,
            layout.MAGIC_AT,
            layout.BODY_CRC_AT,
            layout.QUEUE_ID_AT,
            layout.QUEUE_OFFSET_AT,
            layout.PHYSICAL_OFFSET_AT,
            layout.SYS_FLAG_AT,
            layout.STORE_TIMESTAMP_AT,
            layout.BODY_LENGTH_AT,
        ],
        "itemsize": layout.BODY_AT,
    }
)
# Two numbers of it in the machine's byte order: comparing them as they lie in memory is faster than converting them.
HEADS_V4_RAW = np.dtype(
    {
        "names": ["magic", "sys_flag"],
        "formats": ["=i4", "=i4"],
        "offsets": [layout.MAGIC_AT, layout.SYS_FLAG_AT],
        "itemsize": layout.BODY_AT,
    }
)
HEADS_V4_FILTER = np.dtype(
    {
        "names": ["magic", "flags", "body_size"],
        "formats": [">i4", ">i4", ">i4"],
        "offsets": [layout.MAGIC_AT, layout.SYS_FLAG_AT, layout.BODY_LENGTH_AT],
        "itemsize": layout.BODY_AT,
    }
)


@lru_cache(maxsize=256)
def batch_entries(body_size: int, own_size: int) -> np.dtype[np.void]:
    """Return the type of a batch entry with these sizes of body and properties.

    Fields that are only compared or copied are bytes.
    """
    return np.dtype(
        [
            ("size", "V4"),
            ("magic_and_crc", "V8"),
            ("flag", "V4"),
            ("body_size", "V4"),
            ("body", f"V{body_size}"),
            ("own_size", "V2"),
            ("own", f"V{own_size}"),
        ]
    )


@lru_cache(maxsize=256)
def batch_records(body_size: int, own_size: int, topic_part_size: int, total: int) -> np.dtype[np.void]:
    """Return the type of a version 1 record with IPv4 hosts: the fields that differ between the records of a batch.

    ``topic_part_size`` counts the topic and its length, ``own_size`` the entry's own properties, ``total`` the record.
    """
    own_at = layout.BODY_AT + body_size + topic_part_size + layout.PROPERTIES_LENGTH_BYTES
    return np.dtype(
        {
            "names": ["crc", "flag", "queue_offset", "physical", "body", "own"],
            "formats": [">u4", "V4", ">i8", ">i8", f"V{body_size}", f"V{own_size}"],
            "offsets": [
                layout.BODY_CRC_AT,
                layout.FLAG_AT,
                layout.QUEUE_OFFSET_AT,
                layout.PHYSICAL_OFFSET_AT,
                layout.BODY_AT,
                own_at,
            ],
            "itemsize": total,
        }
    )
