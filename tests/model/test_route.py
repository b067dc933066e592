"""Route data: the brokers to read from and to write to."""

from __future__ import annotations

import pytest

from pymq.model.route import BrokerData, QueueData, TopicRoute


@pytest.mark.parametrize(
    ("perm", "readable", "writable"),
    [(0, False, False), (1, False, False), (2, False, True), (4, True, False), (7, True, True)],
)
def test_permissions_of_queues(perm: int, readable: bool, writable: bool) -> None:
    queues = QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=perm)
    assert (queues.readable, queues.writable) == (readable, writable)


@pytest.mark.parametrize(
    ("addresses", "asked", "expected"),
    [
        ({0: "m:1", 1: "s:1"}, 0, "m:1"),
        ({0: "m:1", 1: "s:1"}, 1, "s:1"),
        ({0: "m:1", 1: "s:1"}, 9, "m:1"),
        ({3: "s3:1", 2: "s2:1"}, 0, "s2:1"),
        ({3: "s3:1", 2: "s2:1"}, 3, "s3:1"),
        ({}, 0, None),
    ],
)
def test_the_address_to_read_from(addresses: dict[int, str], asked: int, expected: str | None) -> None:
    data = BrokerData(cluster="C", broker_name="b", broker_addrs=addresses)
    assert data.read_address(asked) == expected
    assert data.master_address == addresses.get(0)


def test_a_broker_of_a_route() -> None:
    data = BrokerData(cluster="C", broker_name="b", broker_addrs={0: "m:1"})
    route = TopicRoute(broker_datas=[data])
    assert route.broker("b") is data
    assert route.broker("B") is None


def test_routes_do_not_share_their_lists() -> None:
    TopicRoute().filter_server_table["m:1"] = []
    assert TopicRoute().filter_server_table == {}
