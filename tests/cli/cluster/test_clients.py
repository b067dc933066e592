"""``pymq cluster clients``: producers and consumers of every master."""

from __future__ import annotations

import time

from pymq.client import Message
from pymq.client.sync import Admin, Producer, PushConsumer
from pymq.errors import EXIT_OK, EXIT_UNREACHABLE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented

AWAY = "127.0.0.1:1"
POLL_S = 0.05
NAMES = {"clients-group", "clients-producer"}


def test_connected_clients_are_gathered_from_brokers(pymq: Pymq, server: StandaloneProcess) -> None:
    assert pymq("topic", "create", "clients").code == EXIT_OK
    consumer = PushConsumer("clients-group", namesrv=server.namesrv, on_message=lambda messages: None)
    consumer.subscribe("clients")
    with consumer, Producer("clients-producer", namesrv=server.namesrv) as producer, Admin() as admin:
        producer.send(Message("clients", b"x"))
        deadline = time.monotonic() + 60
        while len(found := {one.group: one for one in admin.instances.all()}.keys() & NAMES) < len(NAMES):
            assert time.monotonic() < deadline, found
            time.sleep(POLL_S)
        [record] = pymq("cluster", "clients", "--group", "clients-group", "--json").json()
        assert_documented("cluster clients", record)
        assert (record["kind"], record["brokers"], record["language"]) == ("consumer", ["broker-a"], "PYTHON")
        assert "clients-producer" in pymq("cluster", "clients").out
    assert pymq("offset", "reset", "clients-group", "--topic", "clients", "--to", "start", "--yes").code == EXIT_OK
    with Admin(server.namesrv) as admin:
        places = admin.instances.positions()["clients-group"]
    assert {queue.topic for queue in places} >= {"clients"} and sum(place.lag for place in places.values()) >= 1
    both = pymq("cluster", "clients", "--namesrv", AWAY)
    assert both.code == EXIT_UNREACHABLE
