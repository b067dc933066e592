"""Codes 203, 204, 328."""

from __future__ import annotations

from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World


def test_connected_clients_are_shown() -> None:
    world = World()
    caller = Caller(world, "10.0.0.1:4242", language="GO", version=317)
    caller.ok(Code.HEART_BEAT, beat("c1"))
    connection = {"clientId": "c1", "clientAddr": "10.0.0.1:4242", "language": "GO", "version": 317}
    shown = caller.json(Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
    assert shown["connectionSet"] == [connection]
    assert shown["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET" and shown["messageModel"] == "CLUSTERING"
    assert shown["subscriptionTable"]["T"]["subString"] == "A || B"
    assert caller.json(Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="p") == {"connectionSet": [connection]}
    info = caller.json(Code.GET_ALL_PRODUCER_INFO)["data"]["p"]
    assert info == [
        {
            "clientId": "c1",
            "remoteIP": "/10.0.0.1:4242",
            "language": "GO",
            "version": 317,
            "lastUpdateTimestamp": world.clock.now_ms(),
        }
    ]


def test_groups_without_clients_are_reported() -> None:
    caller = Caller(World())
    assert caller.refused(Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")[0] == ResponseCode.CONSUMER_NOT_ONLINE
    assert caller.refused(Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")[0] == ResponseCode.SYSTEM_ERROR
    assert caller.json(Code.GET_ALL_PRODUCER_INFO) == {"data": {}}
