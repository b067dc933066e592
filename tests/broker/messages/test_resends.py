"""What a producer sends again is stored once, where a broker of a Raft group finds the first copy."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.messages.resends import RESEND_WINDOW_MS, Resends
from pymq.errors import SearchLimitError
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command
from tests.broker.handlers.test_send import fields
from tests.broker.replication.fake_slaves import FakeSlaves
from tests.broker.world import Caller, World

FIRST = "UNIQ_KEY\x01RESENT1\x02"
AGAIN = FIRST + "PYMQ_RESEND\x011\x02"


def opened(*, is_on: bool = True, **settings: Any) -> World:
    world = World(**settings)
    names = ("T", "Other")
    world.parts.metadata.topics.put([TopicConfig(topic_name=n, read_queue_nums=4, write_queue_nums=4) for n in names])
    world.parts.requests.sends._resends = Resends(world.parts.store, world.clock, is_on=is_on)
    return world


def begin(world: World, properties: str, **changes: Any) -> Caller:
    caller = Caller(world)
    assert caller.ask(Code.SEND_MESSAGE_V2, b"body", **fields(properties=properties, **changes)) is None
    world.parts.messages.writer.commit()
    return caller


def send(world: World, properties: str, **changes: Any) -> dict[str, str]:
    answers: list[Command] = begin(world, properties, **changes).peer.frames
    assert len(answers) == 1 and answers[0].code == 0
    return answers[0].ext


def count(world: World, topic: str = "T") -> int:
    return sum(len(world.messages(topic, queue_id)) for queue_id in range(4))


def test_a_resend_is_answered_with_the_first_one_s_place() -> None:
    world = opened()
    first = send(world, FIRST)
    assert send(world, AGAIN, queue_id=2) == first and first["queueId"] == "1"
    assert count(world) == 1


def test_a_resend_whose_first_one_was_lost_is_stored() -> None:
    world = opened()
    assert send(world, AGAIN, queue_id=2)["queueId"] == "2"
    assert count(world) == 1


def test_a_send_without_the_mark_is_stored_again() -> None:
    world = opened()
    send(world, FIRST)
    send(world, FIRST)
    assert count(world) == 2


def test_a_broker_of_no_raft_group_stores_it_again() -> None:
    world = opened(is_on=False)
    send(world, FIRST)
    send(world, AGAIN)
    assert count(world) == 2


def test_another_topic_has_messages_of_its_own() -> None:
    world = opened()
    send(world, FIRST)
    send(world, AGAIN, topic="Other")
    assert (count(world), count(world, "Other")) == (1, 1)


def test_a_key_that_is_an_application_s_is_no_unique_key() -> None:
    world = opened()
    send(world, "UNIQ_KEY\x01A\x02KEYS\x01RESENT1\x02")
    send(world, AGAIN)
    assert count(world) == 2


@pytest.mark.parametrize(("age_ms", "stored"), [(RESEND_WINDOW_MS, 1), (RESEND_WINDOW_MS + 1, 2)])
def test_a_first_one_behind_the_window_is_not_looked_for(age_ms: int, stored: int) -> None:
    world = opened()
    send(world, FIRST)
    world.clock.advance(age_ms)
    send(world, AGAIN)
    assert count(world) == stored


def test_a_resend_waits_until_the_first_one_is_confirmed() -> None:
    world = opened(brokerRole="SYNC_MASTER")
    slaves = FakeSlaves(world, 1)
    first = begin(world, FIRST)
    end = world.parts.store.physical_max_offset
    again = begin(world, AGAIN)
    assert world.parts.store.physical_max_offset == end
    assert first.peer.frames == again.peer.frames == []
    slaves.ack()
    assert first.peer.frames[0].ext == again.peer.frames[0].ext
    assert count(world) == 1


def test_a_store_that_is_opened_anew_knows_the_first_one() -> None:
    world = opened()
    first = send(world, FIRST)
    world.parts.close()
    again = opened(files=world.files, clock=world.clock)
    assert send(again, AGAIN) == first
    assert count(again) == 1


def test_what_the_index_can_not_say_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*asked: object) -> list[memoryview]:
        raise SearchLimitError("too many keys")

    world = opened()
    send(world, FIRST)
    monkeypatch.setattr(world.parts.store, "find_by_key", refuse)
    send(world, AGAIN)
    assert count(world) == 2
