"""Stored records and batch entries: byte layout, limits, and damage, which is refused and never crashes."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import DoesNotFitError
from pymq.model import sysflag
from pymq.model.compression import InflateError, compress_body
from pymq.model.hosts import pack_host
from pymq.model.ids import encode_offset_id
from pymq.model.layout import BATCH_ENTRY_OVERHEAD_BYTES, BLANK_SIZE_BYTES, MAGIC_V1, MAGIC_V2, RECORD_OVERHEAD_BYTES
from pymq.model.record import (
    MalformedRecordError,
    StoredMessage,
    body_crc,
    decode_batch,
    decode_record,
    decode_records,
    encode_batch_entry,
    encode_blank,
    encode_record,
    record_size,
    store_time_ms,
)

V4 = pack_host("10.1.2.3", 10911)
V6 = pack_host("2001:db8::1", 10911)
PROPERTIES_MAX = 32767
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.tuples(st.ip_addresses(v=4) | st.ip_addresses(v=6), st.integers(0, 65535)).map(
    lambda host: pack_host(str(host[0]), host[1])
)
topics = st.text(st.characters(exclude_categories=["Cs"]), max_size=90).filter(lambda text: len(text.encode()) <= 255)
fields = st.fixed_dictionaries(
    {
        "topic": topics.map(str.encode),
        "queue_id": int32,
        "queue_offset": int64,
        "physical_offset": int64,
        "body": st.binary(max_size=50),
        "properties": st.binary(max_size=300),
        "flag": int32,
        "sys_flag": int32,
        "born_timestamp_ms": int64,
        "born_host": hosts,
        "store_timestamp_ms": int64,
        "store_host": hosts,
        "reconsume_times": int32,
        "prepared_transaction_offset": int64,
    }
)


def make(**changes: Any) -> bytes:
    values: dict[str, Any] = {
        "topic": b"T",
        "queue_id": 1,
        "queue_offset": 2,
        "physical_offset": 3,
        "body": b"hello",
        "properties": b"TAGS\x01A\x02",
        "flag": 4,
        "sys_flag": 0,
        "born_timestamp_ms": 5,
        "born_host": V4,
        "store_timestamp_ms": 6,
        "store_host": V4,
    }
    return encode_record(**{**values, **changes})


def test_the_layout_byte_by_byte() -> None:
    expected = (
        "00000067" "daa320a7" "3610a686" "00000001" "00000004" "0000000000000002" "0000000000000003" "00000000"
        "0000000000000005" "0a010203" "00002a9f" "0000000000000006" "0a010203" "00002a9f" "00000007"
        "0000000000000008" "00000005" "68656c6c6f" "01" "54" "0006" "544147530141"
    )  # fmt: skip
    record = make(properties=b"TAGS\x01A", reconsume_times=7, prepared_transaction_offset=8)
    assert record.hex() == expected
    assert len(record) == RECORD_OVERHEAD_BYTES + 5 + 1 + 6


@given(fields)
def test_every_field_survives(values: dict[str, Any]) -> None:
    record = encode_record(**values)
    message = decode_record(record, check_crc=True)
    expected = values | {"topic": values["topic"].decode(), "sys_flag": message.sys_flag}
    expected["raw_properties"] = expected.pop("properties")
    assert {name: getattr(message, name) for name in expected} == expected
    host_bits = sysflag.BORN_HOST_V6 | sysflag.STORE_HOST_V6
    assert message.sys_flag & ~host_bits == values["sys_flag"] & ~host_bits
    assert bool(message.sys_flag & sysflag.BORN_HOST_V6) == (len(values["born_host"]) == 20)
    assert bool(message.sys_flag & sysflag.STORE_HOST_V6) == (len(values["store_host"]) == 20)
    assert message.body_crc == body_crc(values["body"]) >= 0
    assert store_time_ms(record) == values["store_timestamp_ms"]
    sizes = (len(values["topic"]), len(values["body"]), len(values["properties"]))
    assert message.size_bytes == len(record) == record_size(*sizes, message.sys_flag)


@given(fields, st.binary(max_size=5), st.binary(max_size=5))
def test_a_record_is_read_in_place(values: dict[str, Any], before: bytes, after: bytes) -> None:
    record = encode_record(**values)
    assert decode_record(memoryview(before + record + after), len(before)) == decode_record(record)


@pytest.mark.parametrize(
    ("size", "magic"), [(0, MAGIC_V1), (127, MAGIC_V1), (128, MAGIC_V2), (255, MAGIC_V2), (32767, MAGIC_V2)]
)
def test_long_topics_take_the_second_layout(size: int, magic: int) -> None:
    record = make(topic=b"t" * size)
    assert struct.unpack_from(">i", record, 4) == (magic,)
    assert decode_record(record).topic == "t" * size
    assert decode_records(record * 2) == [decode_record(record)] * 2


def test_the_topic_length_is_counted_in_bytes() -> None:
    assert struct.unpack_from(">i", make(topic=("é" * 64).encode()), 4) == (MAGIC_V2,)


@pytest.mark.parametrize("size", [PROPERTIES_MAX - 1, PROPERTIES_MAX])
def test_the_longest_properties(size: int) -> None:
    raw = b"a\x01" + b"x" * (size - 3) + b"\x02"
    for record in (make(properties=raw), make(properties=raw, topic=b"t" * 128)):
        assert decode_records(record)[0].raw_properties == raw
    assert decode_batch(encode_batch_entry(b"", raw)) == [(0, b"", raw)]


def test_longer_properties_cannot_be_written() -> None:
    # Brokers and producers refuse them earlier; only a bug can bring them here.
    with pytest.raises(DoesNotFitError, match="a length or a number"):
        make(properties=bytes(PROPERTIES_MAX + 1))
    with pytest.raises(struct.error):
        encode_batch_entry(b"", bytes(PROPERTIES_MAX + 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": bytes(1 << 15)},
        {"queue_id": 1 << 31},
        {"flag": -(1 << 31) - 1},
        {"reconsume_times": 1 << 31},
        {"born_timestamp_ms": 1 << 63},
        {"prepared_transaction_offset": 1 << 63},
        {"born_host": bytes(12)},
        {"store_host": bytes(4)},
    ],
)
def test_a_record_that_no_reader_takes_is_not_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(DoesNotFitError):
        make(**wrong)


def test_one_malformed_record_does_not_hide_its_neighbors() -> None:
    good, bad = make(body=b"good"), bytearray(make(body=b"bad"))
    struct.pack_into(">H", bad, len(bad) - len(b"TAGS\x01A\x02") - 2, 0xFFFF)
    problems: list[MalformedRecordError] = []
    found = decode_records(good + bytes(bad) + good, problems.append)
    assert [message.body for message in found] == [b"good", b"good"]
    assert len(problems) == 1
    with pytest.raises(MalformedRecordError):  # nothing says where the next one begins
        decode_records(good + bytes(4) + good, problems.append)


def test_a_properties_length_with_its_sign_bit_is_refused() -> None:
    record = bytearray(make(properties=bytes(PROPERTIES_MAX)) + b"\0")
    struct.pack_into(">i", record, 0, len(record))
    struct.pack_into(">H", record, len(record) - PROPERTIES_MAX - 3, PROPERTIES_MAX + 1)
    for read in (decode_record, decode_records):
        with pytest.raises(MalformedRecordError, match="don't add up"):
            read(bytes(record))


def test_a_negative_topic_length_is_refused_though_the_parts_add_up() -> None:
    """The topic would end inside the body, whose last bytes look like a valid properties length."""
    record = bytearray(make(topic=b"t" * 128, body=b"hello??"))
    length_at = len(record) - 128 - 2 - len(b"TAGS\x01A\x02") - 2
    struct.pack_into(">hh", record, length_at - 2, len(record) - length_at, -4)
    for decode in (decode_record, decode_records):
        with pytest.raises(MalformedRecordError, match="don't add up"):
            decode(bytes(record))


ODD_RECORDS = {
    "plain": make(),
    "empty": make(topic=b"", body=b"", properties=b""),
    "wide": make(topic=b"t" * 128),
    "v6": make(born_host=V6, store_host=V6),
    "v6-store": make(store_host=V6, topic=b"%RETRY%" + b"g" * 200),
    "zlib": make(body=compress_body(b"x" * 50)[0], sys_flag=0x301),
}


def read(buffer: bytes) -> list[StoredMessage] | None:
    """Decode in every way; None when refused. An error other than MalformedRecordError fails the test."""
    try:
        messages = decode_records(buffer)
    except MalformedRecordError:
        messages = None
    try:
        first = decode_record(buffer)
    except MalformedRecordError:
        assert not messages
    else:
        assert first.size_bytes <= len(buffer)
    return messages


@pytest.mark.parametrize("name", ODD_RECORDS)
def test_a_truncated_record_is_refused(name: str) -> None:
    record = ODD_RECORDS[name]
    for size in range(1, len(record)):
        assert read(record[:size]) is None
        assert read(record + record[:size]) is None
    with pytest.raises(MalformedRecordError):
        decode_record(b"")
    with pytest.raises(MalformedRecordError):
        decode_record(record, len(record))
    assert decode_records(b"") == []


@pytest.mark.parametrize("name", ODD_RECORDS)
def test_any_byte_of_a_record_may_be_wrong(name: str) -> None:
    record, rng = ODD_RECORDS[name], random.Random(7)
    for at in range(len(record)):
        for bits in (0x01, 0x80, 0xFF, rng.randrange(1, 256)):
            damaged = bytearray(record)
            damaged[at] ^= bits
            read(bytes(damaged))
            read(bytes(damaged) + record)


@pytest.mark.parametrize("name", ODD_RECORDS)
def test_the_crc_finds_any_damage_to_the_body(name: str) -> None:
    record = ODD_RECORDS[name]
    message = decode_record(record, check_crc=True)
    start = len(record) - len(message.body) - (len(message.topic) + len(message.raw_properties) + 3)
    start -= len(message.topic) > 127
    assert record[start : start + len(message.body)] == message.body
    for at in range(start, start + len(message.body)):
        damaged = bytearray(record)
        damaged[at] ^= 0x10
        assert decode_record(bytes(damaged)).body != message.body
        with pytest.raises(MalformedRecordError, match="body CRC"):
            decode_record(bytes(damaged), check_crc=True)


@pytest.mark.parametrize(
    ("at", "form", "value", "why"),
    [
        (0, ">i", 90, "says 90 bytes"),
        (0, ">i", -1, "says -1 bytes"),
        (0, ">i", 2**31 - 1, "says 2147483647 bytes"),
        (4, ">i", 0, "magic 0x0"),
        (4, ">i", -875286124, "magic 0xcbd43194"),
        (84, ">i", -1, "body length -1"),
        (84, ">i", 2**31 - 1, "body length 2147483647"),
        (84, ">i", 0, "damaged|don't add up"),
        (93, ">B", 255, "cut short or damaged"),
        (93, ">B", 0, "don't add up"),
        (94, ">B", 0xFF, "cut short or damaged"),
        (95, ">H", 8, "don't add up"),
        (95, ">H", 0xFFFF, "don't add up"),
    ],
)
def test_a_wrong_length_is_named(at: int, form: str, value: int, why: str) -> None:
    record = bytearray(make())
    struct.pack_into(form, record, at, value)
    for decode in (decode_record, decode_records):
        with pytest.raises(MalformedRecordError, match=f"the record at 0.*({why})"):
            decode(bytes(record))


def test_a_blank_record_is_not_a_message() -> None:
    blank = encode_blank(4096)
    assert (len(blank), blank.hex()) == (BLANK_SIZE_BYTES, "00001000cbd43194")
    with pytest.raises(MalformedRecordError, match="magic 0xcbd43194"):
        decode_record(blank + bytes(4088))


def test_a_message_reports_its_own_fields() -> None:
    properties = "TAGS\x01A\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01U1\x02é\x01ü\x02".encode()
    message = decode_record(make(properties=properties, born_host=V6))
    assert (message.tags, message.keys, message.message_id) == ("A", "k1 k2", "U1")
    assert message.properties["é"] == "ü"
    assert message.properties is message.properties
    assert (message.born_address, message.store_address) == (("2001:db8::1", 10911), ("10.1.2.3", 10911))
    assert message.offset_message_id == encode_offset_id(V4, 3)
    assert message.content() == message.body == b"hello"


def test_a_message_without_properties_has_its_offset_id() -> None:
    message = decode_record(make(properties=b""))
    assert (message.tags, message.keys, message.properties) == ("", "", {})
    assert message.message_id == message.offset_message_id == encode_offset_id(V4, 3)


def test_a_compressed_body_is_stored_as_sent() -> None:
    body, bits = compress_body(b"x" * 5000, "zstd")
    message = decode_record(make(body=body, sys_flag=bits), check_crc=True)
    assert message.body == body and message.content() == b"x" * 5000
    with pytest.raises(InflateError):
        decode_record(make(body=body[:-1], sys_flag=bits)).content()


# Batches

entries = st.lists(st.tuples(int32, st.binary(max_size=30), st.binary(max_size=30)).map(tuple), min_size=0, max_size=6)
BATCH = b"".join(
    encode_batch_entry(body, properties, flag)
    for body, properties, flag in [(b"one", b"a\x01b\x02", 0), (b"", b"", 7), (b"x" * 40, b"TAGS\x01A", -1)]
)


def test_a_batch_entry_byte_by_byte() -> None:
    assert encode_batch_entry(b"ab", b"cde", 9).hex() == "0000001b" + "0" * 16 + "000000090000000261620003636465"
    assert len(encode_batch_entry(b"", b"")) == BATCH_ENTRY_OVERHEAD_BYTES


@given(entries)
def test_batches_survive(entries: list[tuple[int, bytes, bytes]]) -> None:
    assert decode_batch(b"".join(encode_batch_entry(body, raw, flag) for flag, body, raw in entries)) == entries


def test_magic_and_crc_of_an_entry_do_not_count() -> None:
    damaged = bytearray(encode_batch_entry(b"a", b"b"))
    damaged[4:12] = b"\xff" * 8
    assert decode_batch(bytes(damaged)) == [(0, b"a", b"b")]


def test_a_truncated_batch_is_refused_or_ends_between_entries() -> None:
    ends = {0, 22 + 3 + 4, 22 + 3 + 4 + 22, len(BATCH)}
    for size in range(len(BATCH) + 1):
        if size in ends:
            assert decode_batch(BATCH[:size]) == decode_batch(BATCH)[: sorted(ends).index(size)]
        else:
            with pytest.raises(MalformedRecordError, match=r"batch entry \d at \d+"):
                decode_batch(BATCH[:size])


def test_any_byte_of_a_batch_may_be_wrong() -> None:
    for at in range(len(BATCH)):
        for bits in range(1, 256):
            damaged = bytearray(BATCH)
            damaged[at] ^= bits
            try:
                found = decode_batch(bytes(damaged))
            except MalformedRecordError:
                continue
            assert sum(22 + len(body) + len(raw) for _, body, raw in found) == len(BATCH)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [
        (0, ">i", 21),
        (0, ">i", 0),
        (0, ">i", -1),
        (0, ">i", 25),
        (0, ">i", 2**31 - 1),
        (16, ">i", -1),
        (16, ">i", 3),
        (16, ">i", 2**31 - 1),
        (21, ">h", -1),
        (21, ">h", 0),
        (21, ">h", 2),
    ],
)
def test_a_batch_entrys_wrong_length_is_refused(at: int, form: str, value: int) -> None:
    damaged = bytearray(encode_batch_entry(b"a", b"b") + encode_batch_entry(b"", b""))
    struct.pack_into(form, damaged, at, value)
    with pytest.raises(MalformedRecordError, match="batch entry 0 at 0"):
        decode_batch(bytes(damaged))


def test_the_count_of_a_batch_at_its_limit() -> None:
    assert len(decode_batch(encode_batch_entry(b"", b"") * 3, count_max=3)) == 3
    with pytest.raises(MalformedRecordError, match="more than 3 messages: send smaller batches"):
        decode_batch(encode_batch_entry(b"", b"") * 4, count_max=3)
