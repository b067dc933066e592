"""Figures of lite topics."""

from __future__ import annotations

from pymq.broker.metrics.lites import LiteMetrics
from tests.broker.handlers.test_lite_pops import LitePops
from tests.broker.metrics.readings import table


def test_subscriptions_and_what_waits_are_counted() -> None:
    p = LitePops()
    p.fill("a", "a0", "a1")
    p.fill("b", "b0")
    p.subscribe("a", "b", "c")

    def figures() -> dict[str, float]:
        return {name: values[()] for name, values in table(LiteMetrics(p.world.parts)).items()}

    before = figures()
    assert (before["pymq_lite_topics"], before["pymq_lite_topics_max"]) == (2, 1_000_000)
    assert (before["pymq_lite_clients"], before["pymq_lite_subscriptions"]) == (1, 3)
    assert (before["pymq_lite_topics_due"], before["pymq_lite_topics_handed_out"]) == (2, 0)
    found = p.pop()
    assert (figures()["pymq_lite_topics_due"], figures()["pymq_lite_topics_handed_out"]) == (0, 2)
    for number in range(3):
        p.ack(found, number)
    assert figures()["pymq_lite_topics_handed_out"] == 0
    p.control("COMPLETE_REMOVE")
    assert figures()["pymq_lite_clients"] == figures()["pymq_lite_subscriptions"] == 0
