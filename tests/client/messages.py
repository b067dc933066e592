"""Builds stored messages for client tests."""

from __future__ import annotations

from typing import Any

from pymq.model.hosts import pack_host
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage, decode_record, encode_record

HOST = pack_host("127.0.0.1", 10911)


def record(
    body: bytes = b"x",
    *,
    topic: str = "T",
    queue_id: int = 0,
    offset: int = 0,
    reconsume_times: int = 0,
    **properties: str,
) -> bytes:
    """Return one record as a broker stores it; its physical offset is 1000 + ``offset``."""
    return encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        queue_offset=offset,
        physical_offset=1000 + offset,
        body=body,
        properties=encode_properties({"UNIQ_KEY": f"U{queue_id}-{offset}", **properties}),
        flag=0,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=HOST,
        store_timestamp_ms=2,
        store_host=HOST,
        reconsume_times=reconsume_times,
    )


def message(body: bytes = b"x", **options: Any) -> StoredMessage:
    """Return the same record, decoded."""
    return decode_record(record(body, **options))
