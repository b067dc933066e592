"""The filter server's load is what it says it is, and one worker is told from two."""

from __future__ import annotations

import json

import pytest

from bench.filter_servers import (
    BATCH,
    FILTER_CLASS,
    ITEM_COUNTS,
    MATCHES_PER_BATCH,
    PRICE_MAX,
    batch_of_orders,
)
from bench.frames import pull_frame
from pymq.filterserver.classes import parse_class
from pymq.model import sysflag
from pymq.model.record import decode_batch
from pymq.wire.command import decode_command


@pytest.mark.parametrize(("size", "kib"), [("1 KiB", 1), ("8 KiB", 8)])
def test_one_message_of_a_batch_has_an_expensive_item(size: str, kib: int) -> None:
    bodies = [body for _, body, _ in decode_batch(batch_of_orders(ITEM_COUNTS[size]))]
    assert len(bodies) == BATCH and all(900 * kib < len(body) < 1100 * kib for body in bodies)
    dearest = [max(item["price"] for item in json.loads(body)["items"]) for body in bodies]
    assert sum(price > PRICE_MAX for price in dearest) == MATCHES_PER_BATCH


def test_frames() -> None:
    pull = decode_command(pull_frame(7, "T", "g", 3, 100, 32, filter_class=FILTER_CLASS)[4:])
    assert int(pull.ext["sysFlag"]) == sysflag.PULL_SUBSCRIPTION | sysflag.PULL_CLASS_FILTER
    text = parse_class(pull.ext["subscription"], None)
    assert (text.name, text.expression) == ("jsonpath", f"$.items[?@.price > {PRICE_MAX}]")
