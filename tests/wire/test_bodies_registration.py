"""The body of a registration: both forms, older brokers, and the bounds on what a peer can make of it."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import Refusal
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_registration import (
    OTHER_VALUES_MAX,
    PART_SIZE_MAX_BYTES,
    VALUES_PER_TOPIC_MAX,
    TopicTable,
    body_crc32,
    decode_registration,
    encode_registration,
)

MIB = 1024 * 1024

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
COUNTS = st.integers(0, 65535)
CONFIGS = st.builds(
    TopicConfig,
    topic_name=NAMES,
    read_queue_nums=COUNTS,
    write_queue_nums=COUNTS,
    perm=st.integers(0, 15),
    attributes=st.dictionaries(NAMES, st.text(max_size=10), max_size=2),
)
VERSIONS = st.builds(DataVersion, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))


def by_name(configs: list[TopicConfig]) -> dict[str, TopicConfig]:
    return {config.topic_name: config for config in configs}


@pytest.mark.slow
@given(st.lists(CONFIGS, max_size=5), VERSIONS, st.lists(NAMES, max_size=2), st.booleans())
def test_registrations_survive_both_forms(
    configs: list[TopicConfig], version: DataVersion, servers: list[str], compressed: bool
) -> None:
    body = encode_registration(by_name(configs).values(), version, servers, compressed=compressed)
    assert decode_registration(body, compressed=compressed, version=479) == (by_name(configs), version, servers)


def test_the_compressed_form_is_the_documented_one() -> None:
    body = encode_registration([TopicConfig(topic_name="T", perm=7)], DataVersion(1, 2, 3), compressed=True)
    version = b'{"counter":1,"stateVersion":2,"timestamp":3}'
    line = b"T 16 16 7 SINGLE_TAG {}"
    parts = [
        struct.pack(">i", len(version)),
        version,
        struct.pack(">ii", 1, len(line)),
        line,
        struct.pack(">i", 2),
        b"[]",
        bytes(4),
    ]
    assert zlib.decompress(body) == b"".join(parts)


def test_forms_of_older_brokers() -> None:
    line = b"T 4 4 6 SINGLE_TAG"  # 4.x: no attributes, no mappings behind the filter servers
    raw = struct.pack(">i2sii", 2, b"{}", 1, len(line)) + line + struct.pack(">i2s", 2, b"[]")
    four = decode_registration(zlib.compress(raw), compressed=True, version=409)
    assert four.topics["T"].read_queue_nums == 4
    table = encode_body(TopicTable(topic_config_table={"T": TopicConfig(topic_name="T")}))
    assert list(decode_registration(table, compressed=False, version=36).topics) == ["T"]
    sparse = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T"}}},"unknown":[1]}'
    assert decode_registration(sparse, compressed=False, version=121).topics["T"].perm == 6


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        b"\0\0\0\x09{}",
        b"\xff\xff\xff\xff{}",
        b"\0\0\0\2{}\x7f\xff\xff\xff",
        b"\0\0\0\2[]\0\0\0\0\0\0\0\2[]",
        b"\0\0\0\2{}\0\0\0\1\0\0\0\x09T x 4 6 S\0\0\0\2[]",
    ],
)
def test_wrong_lengths_inside_a_compressed_body_are_refused(inner: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        decode_registration(zlib.compress(inner), compressed=True, version=479)
    assert caught.value.code in (1, 29)


@pytest.mark.parametrize("body", [b"x", b"\x78\x9c", zlib.compress(b"\0" * 100)[:-6]])
def test_bytes_that_are_not_zlib_are_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="can't be read"):
        decode_registration(body, compressed=True, version=479)


def compact(*parts: bytes | int) -> bytes:
    """The compressed form: numbers as they are, bytes after their size."""
    raw = b"".join(struct.pack(">i", p) if isinstance(p, int) else struct.pack(">i", len(p)) + p for p in parts)
    return zlib.compress(raw, 9)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_registration_without_a_body_is_refused(compressed: bool) -> None:
    with pytest.raises(Refusal, match="no body") as caught:
        decode_registration(b"", compressed=compressed, version=479)
    assert caught.value.code == 29


def peak_bytes(body: bytes, match: str, **limits: int) -> int:
    def decode() -> None:
        with pytest.raises(Refusal, match=match):
            decode_registration(body, compressed=True, version=479, **limits)

    decode()  # its own code takes memory when it first runs, and more where lines are counted
    tracemalloc.start()
    try:
        decode()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_of_one_part_is_refused_by_its_size_before_it_is_inflated() -> None:
    bomb = compact(b"{}", 1, bytes(64 * MIB))
    assert peak_bytes(bomb, f"allowed are 0 to {PART_SIZE_MAX_BYTES}") < MIB


def test_a_bomb_of_many_parts_is_inflated_up_to_the_cap_and_never_kept() -> None:
    line = b"T%05d 4 4 6 SINGLE_TAG {}" + b" " * 60_000
    bomb = compact(b"{}", 500, *(line % number for number in range(500)))
    size_max = 4 * MIB
    assert peak_bytes(bomb, f"inflates beyond {size_max} bytes", inflated_size_max_bytes=size_max) < MIB


def test_the_largest_part_is_still_read() -> None:
    line = b"T 4 4 6 SINGLE_TAG {}"
    body = compact(b"{}", 1, line + b" " * (PART_SIZE_MAX_BYTES - len(line)), b"[]", 0)
    assert list(decode_registration(body, compressed=True, version=479).topics) == ["T"]
    with pytest.raises(Refusal, match=f"a part of {PART_SIZE_MAX_BYTES + 1} bytes"):
        decode_registration(
            compact(b"{}", 1, line + b" " * (PART_SIZE_MAX_BYTES - len(line) + 1)), compressed=True, version=479
        )


@pytest.mark.parametrize("compressed", [True, False])
def test_the_topic_limit_holds_at_its_edge(compressed: bool) -> None:
    def read(count: int) -> int:
        configs = [TopicConfig(topic_name=f"T{number}") for number in range(count)]
        body = encode_registration(configs, DataVersion(), compressed=compressed)
        registered = decode_registration(body, compressed=compressed, version=479, topic_count_max=20)
        return len(registered.topics)

    assert read(20) == 20
    with pytest.raises(Refusal, match=r"21 topics, the limit of one broker is 20.*maxTopicsPerBroker"):
        read(21)


def test_topics_with_escaped_member_names_are_counted_too() -> None:
    topics = b",".join(b'"T%d":{"\\u0074opicName":"T%d"}' % (number, number) for number in range(21))
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%s}}}' % topics
    assert len(decode_registration(body, compressed=False, version=479, topic_count_max=21).topics) == 21
    with pytest.raises(Refusal, match=r"21 topics"):
        decode_registration(body, compressed=False, version=479, topic_count_max=20)


def test_the_number_of_values_is_bounded_before_they_are_made() -> None:
    count = 20 * VALUES_PER_TOPIC_MAX + OTHER_VALUES_MAX
    body = b'{"filterServerList":[%s""]}'

    def read(commas: int) -> list[str]:
        return decode_registration(
            body % (b'"",' * commas), compressed=False, version=479, topic_count_max=20
        ).filter_servers

    assert len(read(count - 1)) == count
    with pytest.raises(Refusal, match="JSON values"):
        read(count)


def test_the_number_of_values_is_bounded_in_the_compressed_form() -> None:
    attributes = b"{" + b",".join(b'"a%d":"b"' % number for number in range(5000)) + b"}"
    body = compact(b"{}", 2, b"T 4 4 6 S " + attributes, b"U 4 4 6 S " + attributes, b"[]", 0)
    assert len(decode_registration(body, compressed=True, version=479).topics) == 2
    with pytest.raises(Refusal, match="JSON values"):
        decode_registration(body, compressed=True, version=479, topic_count_max=20)


@pytest.mark.parametrize(
    ("body", "compressed"),
    [
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"U"}}}}', False),
        (compact(b"{}", 2, b"T 4 4 6 S {}", b"T 8 8 6 S {}", b"[]", 0), True),
    ],
    ids=["an entry of another name", "one topic twice"],
)
def test_contradictory_topics_are_refused(body: bytes, compressed: bool) -> None:
    with pytest.raises(Refusal, match=r"one name|twice") as caught:
        decode_registration(body, compressed=compressed, version=479)
    assert caught.value.code == 29


def test_the_checksum_has_no_sign() -> None:
    assert body_crc32(b"hello") == 0x3610A686
    assert body_crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
