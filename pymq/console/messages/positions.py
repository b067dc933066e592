"""Positions of a search in the queues of a topic, as a text for an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from pymq.client import MessageQueue
from pymq.console.web.parameters import BadRequest

POSITION_LENGTH_MAX: Final = 8 * 1024
_QUEUE: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,19})", re.ASCII)


def encode_position(reached: Mapping[MessageQueue, int]) -> str:
    """Return the offsets as ``broker-a~0-17~1-5~~broker-b~0-9``."""
    brokers: dict[str, list[str]] = {}
    for queue, offset in sorted(reached.items()):
        brokers.setdefault(queue.broker_name, []).append(f"{queue.queue_id}-{offset}")
    return "~~".join("~".join([_quoted(name), *offsets]) for name, offsets in brokers.items())


def decode_position(name: str, topic: str, text: str) -> dict[MessageQueue, int]:
    """Return the offsets in a text of :func:`encode_position`. Raises BadRequest with the parameter's ``name``."""
    found: dict[MessageQueue, int] = {}
    for group in text.split("~~"):
        broker, *offsets = group.split("~")
        for each in offsets:
            match = _QUEUE.fullmatch(each)
            if match is None:
                raise BadRequest(name, "it is not a position of this search: begin it again")
            found[MessageQueue(topic, unquote(broker), int(match[1]))] = int(match[2])
    if not found:
        raise BadRequest(name, "it is not a position of this search: begin it again")
    return found


def _quoted(name: str) -> str:
    return quote(name.encode("utf-8", "surrogatepass"), safe="").replace("~", "%7E")
