"""Records of one queue, as the answer to a pull holds them."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.model.hosts import pack_host
from pymq.model.properties import encode_properties
from pymq.model.record import decode_records, encode_record

HOST = pack_host("127.0.0.1", 5555)


def record(offset: int, body: bytes = b"x", tags: str = "", topic: str = "T", queue_id: int = 0) -> bytes:
    return encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        queue_offset=offset,
        physical_offset=offset * 100,
        body=body,
        properties=encode_properties({"TAGS": tags} if tags else {}),
        flag=0,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=HOST,
        store_timestamp_ms=2,
        store_host=HOST,
    )


def records(bodies: Sequence[bytes], start: int = 0) -> bytes:
    """Return records back to back, at offsets from ``start`` on."""
    return b"".join(record(start + index, body) for index, body in enumerate(bodies))


def bodies(raw: bytes) -> list[bytes]:
    return [message.body for message in decode_records(raw)]
