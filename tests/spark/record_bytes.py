"""Builds stored records for tests: plain ones, and hypothesis strategies for every unusual form."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from pymq.model import sysflag
from pymq.model.compression import compress_body
from pymq.model.hosts import pack_host
from pymq.model.properties import encode_properties
from pymq.model.record import encode_record

STORE_HOST = pack_host("127.0.0.1", 10911)
BORN_HOST = pack_host("10.1.2.3", 50505)
BORN_MS = 1_767_225_600_000  # 2026-01-01T00:00Z


def record(
    offset: int,
    body: bytes = b"body",
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: bytes | None = None,
    **fields: Any,
) -> bytes:
    """Return one record; other arguments of ``encode_record`` may be given by name."""
    if properties is None:
        properties = encode_properties(
            {"TAGS": "A" if offset % 2 else "B", "KEYS": f"k{offset}", "UNIQ_KEY": f"U{offset:08d}"}
        )
    values = {
        "topic": topic.encode(),
        "queue_id": queue_id,
        "queue_offset": offset,
        "physical_offset": offset * 1000,
        "body": body,
        "properties": properties,
        "flag": 0,
        "sys_flag": 0,
        "born_timestamp_ms": BORN_MS + offset,
        "born_host": BORN_HOST,
        "store_timestamp_ms": BORN_MS + offset + 1,
        "store_host": STORE_HOST,
    }
    return encode_record(**{**values, **fields})


LIES = ("topic", "properties", "body")


def lying(raw: bytes, part: str = "properties", by: int = 1) -> bytes:
    """Return a record whose place, size and body CRC are right, and whose length of a part is not."""
    changed = bytearray(raw)
    body_at = 84
    (body_size,) = struct.unpack_from(">i", raw, body_at)
    topic_at = body_at + 4 + body_size
    if part == "body":
        struct.pack_into(">i", changed, body_at, body_size + 10_000 * by)
    elif part == "topic":
        changed[topic_at] += by
    else:
        properties_at = topic_at + 1 + raw[topic_at]
        (size,) = struct.unpack_from(">h", raw, properties_at)
        struct.pack_into(">h", changed, properties_at, size + by)
    return bytes(changed)


_pair = st.one_of(
    st.tuples(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "", "ключ"]), st.text(max_size=6)).map(
        lambda pair: f"{pair[0]}\x01{pair[1]}\x02".encode()
    ),
    st.binary(max_size=6),
    st.sampled_from([b"\x01", b"\x02", b"a\x01b", b"TAGS\x01", b"\x01x\x02", b"a\x01b\x01c\x02", b"\xff\x01\xfe\x02"]),
)
property_strings = st.lists(_pair, max_size=6).map(b"".join)
_hosts = st.one_of(
    st.tuples(st.ip_addresses(v=4), st.integers(0, 65535)), st.tuples(st.ip_addresses(v=6), st.integers(0, 65535))
).map(lambda host: pack_host(str(host[0]), host[1]))
_int64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Generate legal records: both host sizes, long topics, compressed or mismarked bodies, unusual values."""
    body = draw(st.binary(max_size=40))
    flags = draw(st.sampled_from([0, 0, sysflag.TRANSACTION_COMMIT, sysflag.COMPRESSED, sysflag.COMPRESSED | 0x200]))
    kind = draw(st.sampled_from([None, None, "zlib", "lz4", "zstd"]))
    if kind and not flags & sysflag.COMPRESSED:
        body, bits = compress_body(body, kind)
        flags |= bits
    return record(
        draw(st.integers(0, 2**62)),
        body,
        topic=draw(st.sampled_from(["T", "%RETRY%g", "x" * 127, "y" * 200, "тема"])),
        queue_id=draw(st.integers(0, 1000)),
        properties=draw(property_strings),
        physical_offset=draw(st.integers(0, 2**62)),
        sys_flag=flags,
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        born_timestamp_ms=draw(st.one_of(st.integers(0, 2 * BORN_MS), _int64)),
        born_host=draw(_hosts),
        store_timestamp_ms=draw(st.integers(0, 2 * BORN_MS)),
        store_host=draw(_hosts),
        reconsume_times=draw(st.integers(0, 20)),
    )
