"""Codes 43, 45, 402."""

from __future__ import annotations

from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from tests.broker.world import Caller, World


def test_tables_are_handed_out_as_they_are_kept() -> None:
    world = World()
    caller = Caller(world)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    world.put("T", DELAY="1")
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    offsets = caller.json(Code.GET_ALL_CONSUMER_OFFSET)
    assert offsets["offsetTable"] == {"T@g": {"0": 1}} and offsets["groupTopicMap"] == {"g": ["T"]}
    delays = caller.json(Code.GET_ALL_DELAY_OFFSET)
    assert delays["offsetTable"] == {"1": 1} and "dataVersion" in delays
    assert caller.json(Code.GET_ALL_MESSAGE_REQUEST_MODE) == {"messageRequestModeMap": {}}
