"""The filter server's load is what it says it is, and one worker is told from two."""

from __future__ import annotations

import json

from pymq.bench.filter_servers import BATCH, FILTER_CLASS, PRICE_MAX, WANTED_A_BATCH, batch_of_orders
from pymq.bench.frames import pull_frame
from pymq.filterserver.classes import parse_class
from pymq.model import sysflag
from pymq.model.record import decode_batch
from pymq.wire.command import decode_command


def test_one_message_of_a_batch_has_a_dear_item() -> None:
    bodies = [body for _, body, _ in decode_batch(batch_of_orders())]
    assert len(bodies) == BATCH and all(900 < len(body) < 1100 for body in bodies)
    dearest = [max(item["price"] for item in json.loads(body)["items"]) for body in bodies]
    assert sum(price > PRICE_MAX for price in dearest) == WANTED_A_BATCH


def test_frames() -> None:
    pull = decode_command(pull_frame(7, "T", "g", 3, 100, 32, filter_class=FILTER_CLASS)[4:])
    assert int(pull.ext["sysFlag"]) == sysflag.PULL_SUBSCRIPTION | sysflag.PULL_CLASS_FILTER
    text = parse_class(pull.ext["subscription"], None)
    assert (text.name, text.expression) == ("jsonpath", f"$.items[?@.price > {PRICE_MAX}]")
