"""A directory that Apache RocketMQ 5.3.3 left while messages were handed out to pops: PyMQ goes on with it.

tests/interop/support/popped.py made it; the check points and acknowledgements are still in Apache's timer.
"""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model import pop
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.apache_store import STEP_MS, ApacheStore, let_pass
from tests.broker.handlers.test_pop import Found, Popping
from tests.broker.handlers.test_pop_orderly import Ordered

STORE = ApacheStore("store-popped")


@pytest.mark.parametrize("late_ms", [-7000, 3_600_000])
def test_what_apache_handed_out_comes_again_and_what_was_acknowledged_does_not(late_ms: int) -> None:
    p = Popping(STORE.world(STORE.end_ms + late_ms))
    fields: dict[str, Any] = {"consumerGroup": "poppers", "topic": "popped"}
    assert p.pop(**fields).bodies == [b"5"]
    let_pass(p.world, max(0, -late_ms) - 2 * STEP_MS)
    if late_ms < 0:
        assert p.pop(**fields).code == ResponseCode.POLLING_TIMEOUT
    let_pass(p.world, 6000)
    found: Found = p.pop(**fields)
    assert sorted((message.body, message.reconsume_times) for message in found.messages) == [
        (b"0", 1), (b"2", 1), (b"3", 1),
    ]  # fmt: skip


def test_an_ordered_queue_stays_closed_until_its_invisible_time_is_over_and_its_receipts_count() -> None:
    p = Ordered(STORE.world(STORE.end_ms - 7000))
    fields: dict[str, Any] = {"consumerGroup": "poppers", "topic": "popped-in-order", "queueId": 0}
    assert p.pop(**fields).code == ResponseCode.POLLING_TIMEOUT
    assert pop.decode_receipt(STORE.manifest["receipt"]).revive_queue_id == pop.ORDERLY_REVIVE_QUEUE
    receipt = {**fields, "offset": 1, "extraInfo": f"{STORE.manifest['receipt']} 1"}
    assert p.ask(Code.ACK_MESSAGE, **receipt)[0] == 0
    p.wait(7000)
    found = p.pop(**fields)
    assert found.bodies == [b"3", b"4", b"5"]
    assert found.ext["orderCountInfo"] == "0 qo0%3 1;0 qo0%4 1;0 qo0%5 1;0 0 1"
