"""Bodies of the name server's requests: routes with both kinds of keys, clusters, lists."""

from __future__ import annotations

import json

import pytest

from pymq.errors import Refusal
from pymq.model.route import BrokerData, QueueData, TopicRoute
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_route import (
    TopicList,
    decode_cluster_info,
    decode_route,
    encode_cluster_info,
    encode_route,
    wants_quoted_keys,
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
