"""The fast decoder of plain records equals the complete one, on whole, unusual and damaged bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pymq.model.hosts import pack_host
from pymq.model.record import (
    MalformedRecordError,
    StoredMessage,
    _decode_plain,
    decode_record,
    decode_records,
    encode_record,
)

V4 = pack_host("10.1.2.3", 10911)
V6 = pack_host("2001:db8::1", 10911)

records = st.builds(
    lambda topic, body, properties, born_host, store_host, sys_flag, numbers: encode_record(
        topic=topic.encode(),
        queue_id=numbers[0],
        queue_offset=numbers[1],
        physical_offset=numbers[2],
        body=body,
        properties=properties,
        flag=numbers[3],
        sys_flag=sys_flag,
        born_timestamp_ms=numbers[4],
        born_host=born_host,
        store_timestamp_ms=numbers[5],
        store_host=store_host,
        reconsume_times=numbers[6],
        prepared_transaction_offset=numbers[7],
    ),
    topic=st.text("Täx", min_size=0, max_size=140),
    body=st.binary(max_size=40),
    properties=st.binary(max_size=300),
    born_host=st.sampled_from([V4, V4, V4, V6]),
    store_host=st.sampled_from([V4, V4, V4, V6]),
    sys_flag=st.sampled_from([0, 1, 0x301, 8]),
    numbers=st.lists(st.integers(0, 2**31 - 1), min_size=8, max_size=8),
)


def complete(buffer: bytes) -> list[StoredMessage]:
    """Return the result of decode_records without its fast path."""
    result, at = [], 0
    while at < len(buffer):
        result.append(decode_record(buffer, at))
        at += result[-1].size_bytes
    return result


def outcome(decode: Any, buffer: Any) -> Any:
    try:
        return decode(buffer)
    except MalformedRecordError:
        return "malformed"


@given(st.lists(records, max_size=4))
def test_records_back_to_back(parts: Any) -> None:
    assert decode_records(b"".join(parts)) == complete(b"".join(parts))


@given(records, st.data())
def test_damaged_records(record: Any, data: Any) -> None:
    damaged = bytearray(record)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(record)))
    for buffer in (bytes(damaged), bytes(damaged[:cut]), bytes(damaged) + record):
        assert outcome(decode_records, buffer) == outcome(complete, buffer)


def test_only_plain_records_take_the_fast_path() -> None:
    def make(**options: Any) -> Any:
        fields: dict[str, Any] = {
            "born_host": V4,
            "store_host": V4,
            "topic": b"T",
            "properties": b"a\x01b\x02",
        } | options
        numbers: dict[str, Any] = {"queue_id": 1, "queue_offset": 2, "physical_offset": 3, "flag": 0, "sys_flag": 0}
        return encode_record(body=b"x", born_timestamp_ms=4, store_timestamp_ms=5, **numbers, **fields)

    assert _decode_plain(make(), 0) == decode_record(make())
    assert _decode_plain(b"." + make(), 1) == decode_record(make())
    for other in (make(born_host=V6), make(store_host=V6), make(topic=b"T" * 128), make(topic=b"\xff"), make()[:-1]):
        assert _decode_plain(other, 0) is None
