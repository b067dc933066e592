"""``pymq namesrv status`` and ``kv``, ``pymq topic order``: with the session's server, and with one that is away."""

from __future__ import annotations

import time

import pytest

from pymq.client import Message
from pymq.client.sync import SyncAdmin, SyncProducer, SyncPushConsumer
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_PARTIAL, EXIT_UNREACHABLE, EXIT_USAGE, UsageError
from pymq.operations.topic.order import parse_order
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented

AWAY = "127.0.0.1:1"
NAMES = {"clients-group", "clients-producer"}


def test_status_shows_each_name_server(pymq: Pymq, server: StandaloneProcess) -> None:
    [record] = pymq("namesrv", "status", "-o", "json").json()
    assert (record["address"], record["answers"], record["brokers"]) == (server.namesrv, True, 1)
    both = pymq("namesrv", "status", "--namesrv", f"{server.namesrv};{AWAY}")
    assert both.code == EXIT_PARTIAL and f"{AWAY}: no connection" in both.out
    assert pymq("namesrv", "status", "--namesrv", AWAY).code == EXIT_UNREACHABLE


def test_values_are_set_listed_and_deleted(pymq: Pymq, server: StandaloneProcess) -> None:
    assert pymq("namesrv", "kv", "set", "paint", "color", "blue").code == EXIT_OK
    assert pymq("namesrv", "kv", "get", "paint", "color").out == "blue\n"
    listed = pymq("namesrv", "kv", "list", "paint", "--json").json()
    assert listed == [{"key": "color", "value": "blue"}]
    assert_documented("namesrv kv list", listed)
    partly = pymq("namesrv", "kv", "delete", "paint", "color", "--namesrv", f"{server.namesrv};{AWAY}")
    assert partly.code == EXIT_PARTIAL and f"done at {server.namesrv}, but not at" in partly.err
    assert pymq("namesrv", "kv", "get", "paint", "color").code == EXIT_NOT_FOUND
    assert "no values in namespace paint" in pymq("namesrv", "kv", "list", "paint").err


def test_the_order_of_a_topic(pymq: Pymq) -> None:
    assert pymq("topic", "create", "in-order", "--wq", "4").code == EXIT_OK
    assert "--set makes one" in pymq("topic", "order", "in-order").err
    outcome = pymq("topic", "order", "in-order", "--set", "broker-a:3", "--json")
    assert outcome.json() == [{"broker": "broker-a", "queues": 3}]
    assert_documented("topic order", outcome.json())
    assert "don't tell producers" in outcome.err
    assert pymq("topic", "order", "in-order", "--set", "broker-a:5").code == EXIT_USAGE
    assert pymq("topic", "order", "in-order", "--set", "broker-x:1").code == EXIT_NOT_FOUND
    assert pymq("topic", "order", "nowhere", "--set", "broker-a:1").code == EXIT_NOT_FOUND
    assert pymq("topic", "order", "in-order", "--set", "broker-a:1", "--delete").code == EXIT_USAGE
    assert pymq("topic", "order", "in-order", "--delete", "--json").json() == []


@pytest.mark.parametrize("text", ["", "broker-a", "broker-a:0", "broker-a:1;broker-a:2", "a b:1"])
def test_an_order_names_each_broker_once_with_a_number(text: str) -> None:
    with pytest.raises(UsageError):
        parse_order(text)


def test_connected_clients_are_gathered_from_brokers(pymq: Pymq, server: StandaloneProcess) -> None:
    assert pymq("topic", "create", "clients").code == EXIT_OK
    consumer = SyncPushConsumer("clients-group", namesrv=server.namesrv, on_message=lambda messages: None)
    consumer.subscribe("clients")
    with consumer, SyncProducer("clients-producer", namesrv=server.namesrv) as producer, SyncAdmin() as admin:
        producer.send(Message("clients", b"x"))
        deadline = time.monotonic() + 60
        while len(found := {one.group: one for one in admin.instances.all()}.keys() & NAMES) < len(NAMES):
            assert time.monotonic() < deadline, found
        [record] = pymq("cluster", "clients", "--group", "clients-group", "--json").json()
        assert_documented("cluster clients", record)
        assert (record["kind"], record["brokers"], record["language"]) == ("consumer", ["broker-a"], "PYTHON")
        assert "clients-producer" in pymq("cluster", "clients").out
    assert pymq("offset", "reset", "clients-group", "--topic", "clients", "--to", "start", "--yes").code == EXIT_OK
    with SyncAdmin(server.namesrv) as admin:
        places = admin.instances.positions()["clients-group"]
    assert {queue.topic for queue in places} >= {"clients"} and sum(place.lag for place in places.values()) >= 1
    both = pymq("cluster", "clients", "--namesrv", AWAY)
    assert both.code == EXIT_UNREACHABLE
