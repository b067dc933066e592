"""``pymq topic order``: shows, sets and deletes the queues that producers write."""

from __future__ import annotations

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented


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
