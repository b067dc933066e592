"""Code 36."""

from __future__ import annotations

from typing import Any

from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World


def test_the_answer_waits_for_the_commit() -> None:
    world = World()
    caller = Caller(world)
    placed = world.put("T")
    fields: dict[str, Any] = {"offset": placed.physical_offset, "group": "g", "delayLevel": 0}
    assert caller.ask(Code.CONSUMER_SEND_MSG_BACK, **fields) is None
    assert caller.peer.frames == []
    world.parts.messages.writer.commit()
    (answer,) = caller.peer.frames
    assert answer.is_response and answer.code == 0
    assert len(world.messages("SCHEDULE_TOPIC_XXXX", 2)) == 1


def test_one_way_and_refused() -> None:
    world = World()
    caller = Caller(world)
    placed = world.put("T")
    fields: dict[str, Any] = {"offset": placed.physical_offset, "group": "g", "delayLevel": 0}
    assert caller.ask(Code.CONSUMER_SEND_MSG_BACK, oneway=True, **fields) is None
    world.parts.messages.writer.commit()
    assert caller.peer.frames == []
    code, _ = caller.refused(Code.CONSUMER_SEND_MSG_BACK, offset=7, group="g", delayLevel=0)
    assert code == ResponseCode.SYSTEM_ERROR
