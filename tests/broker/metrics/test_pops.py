"""Figures of pop consumption."""

from __future__ import annotations

from pymq.broker.metrics.pops import PopMetrics
from tests.broker.handlers.test_pop import REVIVE, Popping
from tests.broker.metrics.readings import table


def test_hand_outs_are_counted_from_the_pop_to_the_end() -> None:
    p = Popping(reviveQueueNum="1")
    for _ in range(3):
        p.world.put("T")
    found = p.pop(invisible_ms=1000)
    assert p.ack(found.receipt(0)) == p.ack(found.receipt(0)) == 0
    p.world.put(REVIVE, b"no json", TAGS="ck")
    p.park()
    figures = table(PopMetrics(p.world.parts))
    assert figures["pymq_pop_invisible_messages"] == {("T", "g"): 2}
    assert figures["pymq_pop_check_points"] == figures["pymq_pop_waiting_requests"] == {(): 1}
    assert figures["pymq_pop_ineffective_acks_total"] == {(): 1}
    p.wait(1000)
    figures = table(PopMetrics(p.world.parts))
    assert figures["pymq_pop_messages_revived_total"] == {(): 2}
    assert figures["pymq_pop_unreadable_records_total"] == {(): 1}
    assert figures["pymq_pop_invisible_messages"] == {("%RETRY%g+T", "g"): 2}  # the pop that waited has them
