"""The byte layout: Structs, offsets and numpy types agree with each other, the byte tables and golden bytes."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from pymq.model import layout, layout_dtypes, sysflag
from pymq.model.hosts import pack_host
from pymq.model.record import encode_batch_entry, encode_record

STORAGE = Path(__file__).parents[2] / "docs" / "storage.md"
SIZES = {"i16": 2, "i32": 4, "i64": 8, "8/20": 8}
# Field of docs/storage.md -> constant; the size field is at 0.
FIELDS = {
    "size of the whole record": 0,
    "magic": layout.MAGIC_AT,
    "CRC-32 of the body": layout.BODY_CRC_AT,
    "queue id": layout.QUEUE_ID_AT,
    "flag": layout.FLAG_AT,
    "queue offset": layout.QUEUE_OFFSET_AT,
    "physical offset": layout.PHYSICAL_OFFSET_AT,
    "sysFlag": layout.SYS_FLAG_AT,
    "born timestamp": layout.BORN_TIMESTAMP_AT,
    "born host": layout.BORN_HOST_AT,
    "store timestamp": layout.STORE_TIMESTAMP_AT,
    "store host": layout.STORE_HOST_AT,
    "reconsume times": layout.RECONSUME_TIMES_AT,
    "body length": layout.BODY_LENGTH_AT,
}
V4 = pack_host("10.1.2.3", 10911)
VALUES = {
    "size": 0x01,
    "magic": layout.MAGIC_V1,
    "crc": 0x22222222,
    "queue": 3,
    "flag": 4,
    "queue_offset": 5,
    "physical": 6,
    "sys_flag": 7,
    "born_ms": 8,
    "born_host": V4,
    "store_ms": 9,
    "store_host": V4,
    "reconsume": 10,
    "prepared": 11,
    "body_size": 12,
}
HEAD = layout.HEAD_V4.pack(*VALUES.values())


def documented_fields() -> dict[str, tuple[int, str]]:
    """Return field -> (offset, type) from both halves of the record's table in docs/storage.md."""
    section = STORAGE.read_text(encoding="utf-8").partition("## Commit log record")[2].partition("\n## ")[0]
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for half in (cells[:3], cells[-3:]):
            if len(half) == 3 and half[0].isdigit():
                found[re.split(r" `|,| of this|:", half[2])[0]] = (int(half[0]), half[1])
    return found


def test_offsets_are_those_of_the_documented_table() -> None:
    documented = documented_fields()
    assert documented.pop("prepared transaction offset") == (layout.RECONSUME_TIMES_AT + 4, "i64")
    assert {name: offset for name, (offset, _) in documented.items()} == FIELDS
    ends = {offset + SIZES[kind] for offset, kind in documented_fields().values()}
    assert ends == {offset for offset, _ in documented_fields().values()} - {0} | {layout.BODY_AT}


@pytest.mark.parametrize(
    ("piece", "names"),
    [
        (layout.RECORD_START, "size magic"),
        (layout.RECORD_PLACE, "size magic queue queue_offset physical"),
        (layout.RECORD_QUEUE_OFFSET, "size queue_offset"),
        (layout.HEAD_TO_PHYSICAL, "size magic crc queue flag queue_offset physical"),
        (layout.HEAD_TO_SYS_FLAG, "size magic crc queue flag queue_offset physical sys_flag"),
        (layout.HEAD_TO_BORN_TIMESTAMP, "size magic crc queue flag queue_offset physical sys_flag born_ms"),
        (
            layout.HEAD_V4_DISPATCH,
            "size magic crc queue queue_offset physical sys_flag store_ms body_size",
        ),
        (layout.HEAD_V4_FILTER, "magic sys_flag body_size"),
    ],
)
def test_each_piece_reads_its_fields_of_a_head(piece: struct.Struct, names: str) -> None:
    assert piece.unpack_from(HEAD) == tuple(VALUES[name] for name in names.split())


def test_three_pieces_make_a_head() -> None:
    values = list(VALUES.values())
    pieces = (
        layout.HEAD_TO_PHYSICAL.pack(*values[:7]),
        layout.HEAD_V4_MIDDLE.pack(*values[7:14]),
        layout.I32.pack(values[14]),
    )
    assert b"".join(pieces) == HEAD
    assert layout.HEAD_AFTER_HOSTS.unpack_from(HEAD, layout.RECONSUME_TIMES_AT) == tuple(values[12:])


def test_sizes() -> None:
    assert layout.HEAD_V4.size == layout.BODY_AT == layout.BODY_LENGTH_AT + 4
    assert layout.HEAD_TO_PHYSICAL.size == layout.SYS_FLAG_AT
    assert layout.HEAD_TO_BORN_TIMESTAMP.size == layout.BORN_HOST_AT
    assert layout.HEAD_AFTER_HOSTS.size == layout.BODY_AFTER_STORE_HOST_BYTES
    assert layout.RECORD_START.size == layout.BLANK_SIZE_BYTES
    assert layout.RECORD_OVERHEAD_BYTES == layout.BODY_AT + layout.TOPIC_LENGTH_BYTES + layout.PROPERTIES_LENGTH_BYTES
    assert layout.BATCH_ENTRY_HEAD.size == layout.BATCH_ENTRY_SIZES.size == layout.BATCH_ENTRY_BODY_AT
    assert layout.UNIT.size == layout.UNIT_SIZE_BYTES == layout_dtypes.UNITS.itemsize
    assert layout.INDEX_HEADER.size == layout.INDEX_HEADER_SIZE_BYTES
    assert layout.INDEX_SLOT.size == layout.INDEX_SLOT_SIZE_BYTES == layout_dtypes.INDEX_SLOTS.itemsize
    assert layout.INDEX_ENTRY.size == layout.INDEX_ENTRY_SIZE_BYTES == layout_dtypes.INDEX_ENTRIES.itemsize
    assert len(V4) == layout.HOST_V4_SIZE_BYTES
    assert len(pack_host("::1", 1)) == layout.HOST_V6_SIZE_BYTES


def test_index_header_offsets() -> None:
    header = layout.INDEX_HEADER.pack(1, 2, 3, 4, 5, 6)
    assert layout.I32.unpack_from(header, layout.INDEX_USED_SLOTS_AT) == (5,)
    assert layout.I32.unpack_from(header, layout.INDEX_COUNT_AT) == (6,)


def test_flags() -> None:
    kinds = (
        sysflag.TRANSACTION_NONE,
        sysflag.TRANSACTION_PREPARED,
        sysflag.TRANSACTION_COMMIT,
        sysflag.TRANSACTION_ROLLBACK,
    )
    assert [bool(kind & layout.NO_UNIT_FLAG) for kind in kinds] == [False, True, False, True]
    assert layout.SYS_FLAG_V4_MASK & 0xFF == 0xCF
    assert [layout.host_extra_bytes(flag) for flag in (0x0, 0xF, 0x10, 0x20, 0x30)] == [0, 0, 12, 12, 24]


def test_numpy_types_read_what_structs_write() -> None:
    (head,) = np.frombuffer(HEAD, layout_dtypes.HEADS_V4)
    names = layout_dtypes.HEADS_V4.names or ()
    assert {name: int(head[name]) for name in names} == {name: VALUES[name] for name in names}
    (seen,) = np.frombuffer(HEAD, layout_dtypes.HEADS_V4_FILTER)
    assert seen.tolist() == layout.HEAD_V4_FILTER.unpack_from(HEAD)
    (raw,) = np.frombuffer(HEAD, layout_dtypes.HEADS_V4_RAW)
    assert int(raw["magic"]).to_bytes(4, sys.byteorder, signed=True) == HEAD[4:8]
    unit = layout.UNIT.pack(1, 2, 3)
    assert np.frombuffer(unit, layout_dtypes.UNITS)[0].tolist() == (1, 2, 3)
    entry = layout.INDEX_ENTRY.pack(1, 2, 3, 4)
    assert np.frombuffer(entry, layout_dtypes.INDEX_ENTRIES)[0].tolist() == (1, 2, 3, 4)


def test_numpy_types_of_batches() -> None:
    entry = encode_batch_entry(b"body", b"a\x01b\x02", flag=7)
    (seen,) = np.frombuffer(entry, layout_dtypes.batch_entries(4, 4))
    assert [bytes(seen[name].tobytes()) for name in ("flag", "body", "own_size", "own")] == [
        b"\0\0\0\7",
        b"body",
        b"\0\4",
        b"a\x01b\x02",
    ]
    record = encode_record(
        topic=b"T", queue_id=1, queue_offset=2, physical_offset=3, body=b"body", properties=b"a\x01b\x02shared",
        flag=7, sys_flag=0, born_timestamp_ms=0, born_host=V4, store_timestamp_ms=0, store_host=V4,
    )  # fmt: skip
    (stored,) = np.frombuffer(record, layout_dtypes.batch_records(4, 4, 2, len(record)))
    assert stored["flag"].tobytes() == b"\0\0\0\7"
    assert (int(stored["queue_offset"]), int(stored["physical"])) == (2, 3)
    assert (stored["body"].tobytes(), stored["own"].tobytes()) == (b"body", b"a\x01b\x02")


def test_golden_bytes() -> None:
    """A record, a unit and an index entry, byte by byte: none of them may ever change."""
    record = encode_record(
        topic=b"TopicA", queue_id=1, queue_offset=2, physical_offset=3, body=b"Hello", properties=b"TAGS\x01a\x02",
        flag=4, sys_flag=0, born_timestamp_ms=5, born_host=V4, store_timestamp_ms=6, store_host=V4,
        reconsume_times=7, prepared_transaction_offset=8,
    )  # fmt: skip
    assert record.hex(" ", -4) == (
        "0000006d daa320a7 77d18982 00000001 00000004 00000000 00000002 00000000 00000003 00000000 00000000 00000005 "
        "0a010203 00002a9f 00000000 00000006 0a010203 00002a9f 00000007 00000000 00000008 00000005 48656c6c 6f06546f "
        "70696341 00075441 47530161 02"
    )
    assert layout.BLANK_UNIT.hex() == "0000000000000000" + "7fffffff" + "0000000000000000"
    assert layout.UNIT.pack(3, 109, 97).hex() == "0000000000000003" + "0000006d" + "0000000000000061"
    assert layout.INDEX_ENTRY.pack(1, 3, 2, 0).hex() == "00000001" + "0000000000000003" + "00000002" + "00000000"
    assert layout.RECORD_START.pack(16, layout.MAGIC_BLANK).hex() == "00000010" + "cbd43194"
