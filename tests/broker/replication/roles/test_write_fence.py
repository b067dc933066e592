"""WriteFence: writes are refused, all other requests are served, and it ends at its time limit."""

from __future__ import annotations

import pytest

from pymq.broker.assembly.wiring import make_handlers, routes_in_role
from pymq.broker.request_row import Rule
from pymq.broker.routes import broker_rows
from pymq.errors import Refusal
from pymq.wire.bodies_replication import FENCE_MS_MAX
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from tests.broker.messages.test_writer import bodies
from tests.broker.replication.test_sync_mode import commit_one, opened, send_refusal
from tests.broker.world import Caller, FakePeer, World


def test_writes_are_refused_until_it_ends() -> None:
    world = World()
    world.put("T", b"1")
    world.parts.replication.write_fence.begin(1000, "broker-a hands over to 10.0.0.2:10911")
    code, remark = send_refusal(world)
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert remark == "broker-a hands over to 10.0.0.2:10911: send again in a moment"
    assert bodies(world) == [b"1"], "reads go on"
    world.parts.replication.write_fence.end()
    assert world.parts.store.is_writable and not world.parts.replication.write_fence.is_on
    world.parts.replication.write_fence.end()
    world.put("T", b"2")


def test_a_write_fence_ends_at_its_time_limit() -> None:
    world = World()
    world.parts.replication.write_fence.begin(1000, "x")
    world.clock.advance(999)
    world.parts.replication.write_fence.tick()
    assert not world.parts.store.is_writable
    world.clock.advance(1)
    world.parts.replication.write_fence.tick()
    assert world.parts.store.is_writable


def test_a_write_fence_has_a_limit() -> None:
    world = World()
    world.parts.replication.write_fence.begin(FENCE_MS_MAX + 1, "x")
    world.clock.advance(FENCE_MS_MAX)
    world.parts.replication.write_fence.tick()
    assert world.parts.store.is_writable


def test_asked_again_it_counts_from_then() -> None:
    world = World()
    world.parts.replication.write_fence.begin(1000, "x")
    world.clock.advance(900)
    world.parts.replication.write_fence.begin(1000, "y")
    world.clock.advance(900)
    world.parts.replication.write_fence.tick()
    assert send_refusal(world)[1].startswith("y")


def test_each_fence_has_a_number_of_its_own() -> None:
    world = World()
    fence = world.parts.replication.write_fence
    numbers = []
    for _ in range(3):
        assert fence.number == 0
        fence.begin(1000, "x")
        numbers.append(fence.number)
        fence.begin(1000, "asked again")
        assert fence.number == numbers[-1]
        fence.end()
    world.clock.advance(len(numbers))
    other = World(clock=world.clock).parts.replication.write_fence
    other.begin(1000, "of another master")
    assert len({0, *numbers, other.number}) == 5


def test_sends_that_waited_before_are_confirmed_and_answered() -> None:
    world, slaves = opened()
    peer = commit_one(world, 1)
    world.parts.replication.write_fence.begin(1000, "x")
    slaves.ack()
    assert [frame.code for frame in peer.frames] == [0] and bodies(world) == [b"1"]


def test_other_reasons_to_refuse_stay_when_it_ends() -> None:
    world, slaves = opened(slaves=0)
    world.parts.replication.write_fence.begin(1000, "x")
    world.parts.replication.write_fence.end()
    assert "SYNC_MASTER" in send_refusal(world)[1]
    world.parts.replication.write_fence.begin(1000, "x")
    slaves.come()
    assert not world.parts.store.is_writable
    world.parts.replication.write_fence.end()
    assert world.parts.store.is_writable


def test_commits_since_it_began_wait_for_the_next_master() -> None:
    world = World()
    for body in (b"1", b"2", b"3"):
        world.put("T", body)
    parts = world.parts
    parts.metadata.cursors.commit("before", "T", 0, 1)
    parts.replication.write_fence.begin(1000, "x")
    parts.metadata.cursors.commit("since", "T", 0, 2)
    parts.replication.write_fence.begin(1000, "asked again")
    parts.metadata.cursors.commit("late", "T", 0, 3)
    parts.close()
    assert sorted((one.group, one.offset) for one in parts.metadata.pending_offsets.all()) == [
        ("late", 3),
        ("since", 2),
    ]


def test_when_it_has_ended_no_commit_waits() -> None:
    world = World()
    world.put("T", b"1")
    world.parts.replication.write_fence.begin(1000, "x")
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    world.parts.replication.write_fence.end()
    world.parts.close()
    assert not len(world.parts.metadata.pending_offsets)


def test_nothing_is_changed_that_the_slave_may_have_copied() -> None:
    world = World()
    world.parts.replication.write_fence.begin(1000, "x")
    fenced = {row.code for row in broker_rows(make_handlers(world.parts)) if row.has(Rule.FENCED)}
    assert RequestCode.POP_MESSAGE in fenced and RequestCode.AUTH_CREATE_ACL in fenced
    routes = [route for route in routes_in_role(world.parts) if route.code in fenced]
    for route in routes:
        with pytest.raises(Refusal, match="hands over to a slave") as refused:
            route.handler(request(route.code), None, FakePeer())
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    body = b'{"topicConfig":{"topicName":"N"}}'
    fields = {"topic": "N", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "order": "false"}
    assert "hands over" in Caller(world).refused(RequestCode.UPDATE_AND_CREATE_TOPIC, body, **fields)[1]
    world.parts.replication.write_fence.end()
    Caller(world).ok(RequestCode.UPDATE_AND_CREATE_TOPIC, body, **fields)
