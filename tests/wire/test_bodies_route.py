"""Bodies of the name server's requests: registrations in all forms, routes with both kinds of keys."""

from __future__ import annotations

import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import Refusal
from pymq.model.route import BrokerData, QueueData, TopicRoute
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_route import (
    TopicList,
    TopicTable,
    body_crc32,
    decode_cluster_info,
    decode_registration,
    decode_route,
    encode_cluster_info,
    encode_registration,
    encode_route,
    wants_quoted_keys,
)

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
    assert decode_registration(b"", compressed=True, version=479).topics == {}


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
    assert caught.value.code == 1


@pytest.mark.parametrize("body", [b"x", b"\x78\x9c", zlib.compress(b"\0" * 100)[:-6]])
def test_bytes_that_are_not_zlib_are_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="can't be read"):
        decode_registration(body, compressed=True, version=479)


def test_inflating_stops_at_the_cap() -> None:
    with pytest.raises(Refusal, match="inflates beyond"):
        decode_registration(
            zlib.compress(bytes(2_000_000)), compressed=True, version=479, inflated_size_max_bytes=1_000_000
        )


ROUTE = TopicRoute(
    queue_datas=[QueueData(broker_name="b", read_queue_nums=8, write_queue_nums=4, perm=6)],
    broker_datas=[BrokerData(cluster="C", broker_name="b", broker_addrs={0: "127.0.0.1:1", 7: '"quoted"'})],
    order_topic_conf="b:4",
)


def test_routes_with_quoted_and_bare_keys_mean_the_same() -> None:
    quoted, bare = encode_route(ROUTE, quoted=True), encode_route(ROUTE, quoted=False)
    assert decode_route(quoted) == decode_route(bare) == ROUTE
    assert json.loads(quoted)["brokerDatas"][0]["brokerAddrs"]["0"] == "127.0.0.1:1"
    assert b'"brokerAddrs":{0:"127.0.0.1:1",7:"\\"quoted\\""}' in bare
    assert bare.replace(b'{0:"', b'{"0":"').replace(b',7:"', b',"7":"') == quoted


def test_members_that_may_be_absent() -> None:
    plain = encode_route(TopicRoute())
    assert plain == b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'
    assert encode_body(TopicList(topic_list=[])) == b'{"topicList":[]}'
    assert encode_body(TopicList(topic_list=["T"], broker_addr="a:1")) == b'{"topicList":["T"],"brokerAddr":"a:1"}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"queueDatas":[{}]}',
        b'{"brokerDatas":{"0":1}}',
        b'{"queueDatas":[{"brokerName":"b","readQueueNums":"x","writeQueueNums":1,"perm":6}]}',
    ],
)
def test_an_invalid_route_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal):
        decode_route(body)


def test_cluster_info() -> None:
    body = encode_cluster_info({"b": ROUTE.broker_datas[0]}, {"C": ["b"]})
    info = decode_cluster_info(body)
    assert (info.broker_addr_table, info.cluster_addr_table) == ({"b": ROUTE.broker_datas[0]}, {"C": ["b"]})


@pytest.mark.parametrize(
    ("version", "asked", "expected"), [(400, None, False), (401, None, True), (0, True, True), (0, False, False)]
)
def test_clients_that_get_quoted_keys(version: int, asked: bool | None, expected: bool) -> None:
    assert wants_quoted_keys(version, asked) is expected


def test_the_checksum_has_no_sign() -> None:
    assert body_crc32(b"hello") == 0x3610A686
    assert body_crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
