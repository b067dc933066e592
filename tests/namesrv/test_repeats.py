"""A repeated report is recognized without being decoded, and leaves what a decoded one leaves."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pymq.model.tables import DataVersion, TopicConfig
from pymq.namesrv import repeats
from pymq.namesrv.handlers import broker as broker_handlers
from pymq.wire.bodies_registration import body_crc32, decode_registration, encode_registration
from pymq.wire.codes import RequestCode as Code
from tests.namesrv.support import FakePeer
from tests.namesrv.test_routes import WHO, World

MANY = [TopicConfig(topic_name=f"topic-{number}") for number in range(150)]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the size of each body that is decoded."""
    sizes: list[int] = []

    def decode(body: bytes, **options: Any) -> Any:
        sizes.append(len(body))
        return decode_registration(body, **options)

    monkeypatch.setattr(broker_handlers, "decode_registration", decode)
    return sizes


def register(world: World, topics: list[TopicConfig] = MANY, version: int = 1, **fields: str) -> None:
    body = encode_registration(topics, DataVersion(counter=version))
    header = {**WHO, "haServerAddr": "127.0.0.1:10912", "bodyCrc32": str(body_crc32(body)), **fields}
    assert world.ask(Code.REGISTER_BROKER, header, body).code == 0


def test_only_the_first_of_equal_reports_is_decoded(decoded: list[int]) -> None:
    world = World()
    for _ in range(3):
        register(world)
    assert len(decoded) == 1 and decoded[0] >= repeats.BODY_BYTES_MIN
    register(world, version=2)
    assert len(decoded) == 2
    register(world, brokerAddr="127.0.0.1:20911", brokerName="broker-b")
    assert len(decoded) == 3, "another broker"
    register(world, brokerId="1", brokerAddr="127.0.0.1:30911")
    register(world, brokerId="1", brokerAddr="127.0.0.1:30911")
    assert len(decoded) == 5, "a slave"


def test_a_topic_that_was_removed_comes_back_with_the_same_report(decoded: list[int]) -> None:
    world = World()
    register(world)
    world.table.delete_topic("topic-7")
    register(world)
    assert "topic-7" in world.table.topics and len(decoded) == 2
    world.table.add_write_permission("broker-a")
    register(world)
    assert len(decoded) == 3, "its permissions are asked for"
    world.table.connection_closed(world.peer)
    register(world)
    assert len(decoded) == 4 and "topic-7" in world.table.topics


def test_every_report_is_decoded_where_missing_topics_are_forgotten(decoded: list[int]) -> None:
    world = World()
    world.config.delete_topic_with_registration = True
    register(world)
    register(world)
    assert len(decoded) == 2


@pytest.mark.parametrize("seed", range(3))
def test_the_table_is_the_same_as_when_all_reports_are_decoded(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, plain = World(), World()
    monkeypatch.setattr(repeats, "BODY_BYTES_MIN", 1)
    rng = random.Random(seed)
    worlds = (quick, plain)
    for _ in range(150):
        number, version, count = rng.randrange(3), rng.randrange(2), rng.randrange(1, 4)
        topic = f"topic-{rng.randrange(4)}"
        address = f"127.0.0.1:{20911 + number}"
        step = rng.randrange(8)
        peer = FakePeer(f"127.0.0.1:{50000 + rng.randrange(2)}")
        for world in worlds:
            # A large threshold for one of them: it decodes all.
            monkeypatch.setattr(repeats, "BODY_BYTES_MIN", 1 if world is quick else 1 << 30)
            if step <= 3:
                fields = {"brokerAddr": address, "brokerName": f"b{number // 2}", "brokerId": str(number % 2)}
                register(world, MANY[:count], version, **fields)
            elif step == 4:
                world.table.delete_topic(topic)
            elif step == 5:
                world.ask(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "b0"})
            elif step == 6:
                world.ask(Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "b0"})
            else:
                world.table.connection_closed(world.peer)
                world.peer = peer
        assert quick.table.topics._queues == plain.table.topics._queues
        assert quick.table.brokers.all() == plain.table.brokers.all()
