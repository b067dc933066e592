"""Connected clients, as RocketMQ counts them."""

from __future__ import annotations

import pytest

from pymq.broker.metrics.clients import ClientMetrics
from pymq.wire.bodies_client import ConsumerData, SubscriptionData
from tests.broker.metrics.readings import Table, left_out, table
from tests.broker.world import FakePeer, World


@pytest.fixture
def world() -> World:
    return World(metricsOtelCardinalityLimit=100)


def figures(world: World) -> Table:
    return table(ClientMetrics(world.parts))


def test_producers_by_language_and_version(world: World) -> None:
    clients = world.parts.metadata.clients
    for number, (language, version) in enumerate([("JAVA", 479), ("JAVA", 479), ("GO", 401)]):
        clients.register_producer("p", clients.client(f"c{number}", FakePeer(f"1:{number}"), language, version))
    assert figures(world)["rocketmq_producer_connections"] == {
        ("java", "v5_3_3", "remoting"): 2,
        ("go", "v4_9_4", "remoting"): 1,
    }


@pytest.mark.parametrize(
    ("consume_type", "mode"),
    [("CONSUME_PASSIVELY", "push"), ("CONSUME_ACTIVELY", "pull"), ("CONSUME_POP", "pop"), ("ODD", "odd")],
)
def test_consumers_by_group_and_mode(world: World, consume_type: str, mode: str) -> None:
    clients = world.parts.metadata.clients
    for number in range(2):
        client = clients.client(f"c{number}", FakePeer(f"1:{number}"), "JAVA", 479)
        clients.register_consumer(client, ConsumerData(group_name="g", consume_type=consume_type))
    assert figures(world)["rocketmq_consumer_connections"] == {
        ("g", "java", "v5_3_3", mode, "remoting", "false"): 2,
    }


def test_clients_that_left_are_not_counted(world: World) -> None:
    clients, peer = world.parts.metadata.clients, FakePeer()
    clients.register_consumer(clients.client("c", peer, "JAVA", 479), ConsumerData(group_name="g"))
    clients.disconnect(peer)
    assert not any(figures(world).values())


def test_groups_over_the_limit_are_left_out_and_counted(world: World) -> None:
    clients = world.parts.metadata.clients
    for number in range(103):
        client = clients.client("c", FakePeer(f"1:{number}"), "JAVA", 479)
        clients.register_consumer(client, ConsumerData(group_name=f"g{number}"))
    assert len(figures(world)["rocketmq_consumer_connections"]) == 100
    assert left_out(ClientMetrics(world.parts)) == {
        "rocketmq_consumer_connections": 3,
        "pymq_consumer_group_differing_subscriptions": 0,
    }


def test_groups_whose_members_subscribe_differently_are_counted_by_topic(world: World) -> None:
    clients, peers = world.parts.metadata.clients, [FakePeer("1:1"), FakePeer("1:2")]
    for number, peer in enumerate(peers):
        subscriptions = [
            SubscriptionData(topic="T", sub_string=f"tag{number}"),
            SubscriptionData(topic="U", sub_string="*"),
        ]
        for group, wanted in (("differs", subscriptions), ("alike", subscriptions[1:])):
            data = ConsumerData(group_name=group, subscription_data_set=wanted)
            clients.register_consumer(clients.client(f"c{number}", peer, "JAVA", 479), data)
    assert figures(world)["pymq_consumer_group_differing_subscriptions"] == {("differs",): 1}
    clients.disconnect(peers[0])
    assert figures(world)["pymq_consumer_group_differing_subscriptions"] == {}
