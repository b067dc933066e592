"""A slave that takes over: groups go on in lite topics where they were, and expired ones do not come again."""

from __future__ import annotations

from pymq.broker.pop.lite_expiry import CHECK_PERIOD_MS
from pymq.wire.codes import RequestCode as Code
from tests.broker.handlers.test_lite_pops import NOTHING, LitePops
from tests.broker.replication.pair import Pair
from tests.broker.world import World

HOUR_MS = 3_600_000  # the expiration of P


def taken_over(pair: Pair, p: LitePops) -> LitePops:
    """Return the same clients at the slave, which has all that the master had."""
    p.wait(1_000)
    pair.copy_log()
    pair.run(10_000)
    return LitePops(pair.promote())


def test_a_group_goes_on_where_it_was() -> None:
    pair = Pair()
    p = LitePops(pair.master)
    p.subscribe("a@b", "c")
    p.fill("a@b", "a0", "a1", "a2")
    p.fill("c", "c0")
    found = p.pop(count=2)
    assert p.ack(found, 0) == 0
    assert p.pop().bodies == ["c0"]
    p = taken_over(pair, p)
    assert p.committed("a@b") == 1
    assert p.pop().code == NOTHING, "clients send their subscriptions again"
    p.wait(10_100)
    assert p.control("COMPLETE_ADD", "a@b", "c")[0] == 0
    again = p.pop()
    assert sorted(again.bodies) == ["a1", "a2", "c0"]
    assert p.ack(again) == 0
    p.fill("c", "c1")
    assert p.ends("c").max_offset == 2


def test_what_had_expired_does_not_come_again() -> None:
    pair = Pair()
    p = LitePops(pair.master)
    p.subscribe("a", "unread")
    p.fill("a", "a0")
    p.ack(p.pop())
    p.fill("unread", "u0")
    p.world.clock.advance(HOUR_MS)
    for _ in range(3):
        p.world.clock.advance(CHECK_PERIOD_MS)
        for _ in range(10):
            p.world.parts.pop.lite_expiry.tick()
    assert not p.world.parts.store.lights.has("P", "a")
    p = taken_over(pair, p)
    assert p.world.parts.store.lights.has("P", "a"), "the slave has not forgotten it"
    p.subscribe("a", "unread")
    assert p.pop().bodies == ["u0"]
    p.fill("a", "a1")
    assert p.pop().bodies == ["a1"]


def test_a_slave_hands_out_nothing_and_keeps_no_subscriptions() -> None:
    pair = Pair()
    slave: World = pair.slave
    p = LitePops(pair.master)
    p.world = slave
    for code, fields in ((Code.POP_LITE_MESSAGE, p.fields()), (Code.LITE_SUBSCRIPTION_CTL, {})):
        refused, remark = p.member("c").refused(code, **fields)
        assert refused == 14 and "hands out no messages" in remark
    assert slave.parts.pop.lite_subscriptions.client_count == 0
