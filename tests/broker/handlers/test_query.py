"""Codes 12 and 33."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.handlers import query
from pymq.model.record import decode_records
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World

SPAN: dict[str, Any] = {"topic": "T", "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 2**63 - 1}


@pytest.fixture
def world() -> World:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    return world


def test_by_key_word_and_by_unique_key(world: World) -> None:
    world.put("T", b"1", KEYS="k1 k2", UNIQ_KEY="U1")
    world.put("T", b"2", KEYS="k2", UNIQ_KEY="U2")
    caller = Caller(world)
    reply = caller.ok(Code.QUERY_MESSAGE, **SPAN, key="k2")
    assert sorted(message.body for message in decode_records(reply.body)) == [b"1", b"2"]
    fields = caller.header(Code.QUERY_MESSAGE, **SPAN, key="U1", _UNIQUE_KEY_QUERY="true")
    assert fields["indexLastUpdateTimestamp"] == str(world.clock.now_ms())
    (found,) = decode_records(caller.ok(Code.QUERY_MESSAGE, **{**SPAN, "maxNum": 1}, key="k2").body)
    assert found.body in (b"1", b"2")


@pytest.mark.parametrize("change", [{"key": "none"}, {"topic": "U"}, {"maxNum": 0}, {"endTimestamp": 1}])
def test_nothing_found(world: World, change: dict[str, Any]) -> None:
    world.put("T", KEYS="k")
    code, remark = Caller(world).refused(Code.QUERY_MESSAGE, **{**SPAN, "key": "k", **change})
    assert code == ResponseCode.QUERY_NOT_FOUND and "can not find message" in remark


def test_a_key_must_be_given(world: World) -> None:
    assert Caller(world).refused(Code.QUERY_MESSAGE, **SPAN, key="")[0] == ResponseCode.INVALID_PARAMETER


def test_an_answer_never_outgrows_a_frame(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "ANSWER_SIZE_BYTES_MAX", 1000)
    for _ in range(5):
        world.put("T", b"x" * 400, KEYS="k")
    reply = Caller(world).ok(Code.QUERY_MESSAGE, **SPAN, key="k")
    assert len(decode_records(reply.body)) == 2 and len(reply.body) <= 1000


def test_by_id(world: World) -> None:
    world.put("T", b"1")
    placed = world.put("T", b"2")
    (message,) = decode_records(Caller(world).ok(Code.VIEW_MESSAGE_BY_ID, offset=placed.physical_offset).body)
    assert message.body == b"2"


@pytest.mark.parametrize("offset", [-1, 1, 13, 10**12, 2**63 - 1])
def test_only_the_start_of_a_message_can_be_viewed(world: World, offset: int) -> None:
    world.put("T", b"1")
    code, remark = Caller(world).refused(Code.VIEW_MESSAGE_BY_ID, offset=offset)
    assert code == ResponseCode.SYSTEM_ERROR and str(offset) in remark


def test_viewing_needs_the_topic_s_read_permission(world: World) -> None:
    placed = world.put("T")
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", perm=2)])
    assert (
        Caller(world).refused(Code.VIEW_MESSAGE_BY_ID, offset=placed.physical_offset)[0] == ResponseCode.NO_PERMISSION
    )
