"""Stored records with given properties."""

from pymq.model.hosts import pack_host
from pymq.model.record import encode_record

HOST = pack_host("127.0.0.1", 1)


def record(properties: bytes, body: bytes = b"x") -> bytes:
    """Return one record of topic T."""
    return encode_record(
        topic=b"T",
        body=body,
        properties=properties,
        queue_id=0,
        flag=0,
        sys_flag=0,
        queue_offset=3,
        physical_offset=4,
        born_timestamp_ms=5,
        born_host=HOST,
        store_timestamp_ms=6,
        store_host=HOST,
    )
