"""What groups did with a message: some of many are asked, and the rest is counted."""

from __future__ import annotations

import asyncio
from typing import Any

from pymq.client import MessageQueue
from pymq.operations.message.readers import GROUPS_MAX, reader_records
from pymq.wire.bodies_admin import ConsumeOffset
from tests.console.messages.world import FakeTopic, stored

QUEUE = MessageQueue("orders", "broker-a", 0)


def records(there: FakeTopic, offset: int = 5) -> tuple[list[dict[str, Any]], int]:
    return asyncio.run(reader_records(there.admin(), stored(offset)))


def test_as_many_groups_are_asked_as_may_be_and_others_are_counted() -> None:
    there = FakeTopic(stored(5))
    there.groups = [f"g{at:02}" for at in range(GROUPS_MAX + 3)]
    there.lags = {group: {QUEUE: ConsumeOffset(consumer_offset=9)} for group in there.groups}
    found, left_out = records(there)
    assert [record["group"] for record in found] == there.groups[:GROUPS_MAX] and left_out == 3


def test_a_group_is_past_a_message_when_its_offset_is_behind_it() -> None:
    there = FakeTopic(stored(5))
    there.groups = ["g"]
    for committed, state, before in ((4, "not yet", 1), (5, "not yet", 0), (6, "past it", None), (-1, "unknown", None)):
        there.lags = {"g": {QUEUE: ConsumeOffset(consumer_offset=committed)}}
        ((record,), _) = records(there)
        assert (record["state"], record["before"]) == (state, before), committed
    there.lags = {"g": {}}
    ((record,), _) = records(there)
    assert record["state"] == "unknown" and "committed nothing" in record["why"]
