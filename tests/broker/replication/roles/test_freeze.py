"""Freeze: writes rest, everything else goes on, and it ends by itself."""

from __future__ import annotations

from pymq.wire.bodies_replication import FREEZE_MS_MAX
from pymq.wire.codes import ResponseCode
from tests.broker.replication.master.test_sync_mode import bodies, commit_one, opened, send_refusal
from tests.broker.world import World


def test_writes_rest_until_it_ends() -> None:
    world = World()
    world.put("T", b"1")
    world.parts.freeze.begin(1000, "broker-a hands over to 10.0.0.2:10911")
    code, remark = send_refusal(world)
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert remark == "broker-a hands over to 10.0.0.2:10911: send again in a moment"
    assert bodies(world) == [b"1"], "reads go on"
    world.parts.freeze.end()
    assert world.parts.store.is_writable and not world.parts.freeze.is_on
    world.parts.freeze.end()
    world.put("T", b"2")


def test_it_ends_by_itself() -> None:
    world = World()
    world.parts.freeze.begin(1000, "x")
    world.clock.advance(999)
    world.parts.freeze.tick()
    assert not world.parts.store.is_writable
    world.clock.advance(1)
    world.parts.freeze.tick()
    assert world.parts.store.is_writable


def test_nobody_freezes_longer_than_the_limit() -> None:
    world = World()
    world.parts.freeze.begin(FREEZE_MS_MAX + 1, "x")
    world.clock.advance(FREEZE_MS_MAX)
    world.parts.freeze.tick()
    assert world.parts.store.is_writable


def test_asked_again_it_counts_from_then() -> None:
    world = World()
    world.parts.freeze.begin(1000, "x")
    world.clock.advance(900)
    world.parts.freeze.begin(1000, "y")
    world.clock.advance(900)
    world.parts.freeze.tick()
    assert send_refusal(world)[1].startswith("y")


def test_what_waited_before_is_confirmed_and_answered() -> None:
    world, slaves = opened()
    peer = commit_one(world, 1)
    world.parts.freeze.begin(1000, "x")
    slaves.ack()
    assert [frame.code for frame in peer.frames] == [0] and bodies(world) == [b"1"]


def test_other_reasons_to_refuse_stay_when_it_ends() -> None:
    world, slaves = opened(slaves=0)
    world.parts.freeze.begin(1000, "x")
    world.parts.freeze.end()
    assert "SYNC_MASTER" in send_refusal(world)[1]
    world.parts.freeze.begin(1000, "x")
    slaves.come()
    assert not world.parts.store.is_writable
    world.parts.freeze.end()
    assert world.parts.store.is_writable
