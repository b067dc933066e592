"""Queues as options name them: ``3``, on every broker that has it, or ``broker-a:3``, also as ``broker-a/3``."""

from __future__ import annotations

import re
from typing import NamedTuple

from pymq.errors import UsageError

# RocketMQ numbers queues with Java's int.
_QUEUE_ID_MAX = 2**31 - 1


class QueueChoice(NamedTuple):
    """A queue's number; ``broker`` is None for the queue of every broker."""

    broker: str | None
    queue_id: int

    def takes(self, broker: str, queue_id: int) -> bool:
        return queue_id == self.queue_id and self.broker in (None, broker)

    def __str__(self) -> str:
        return str(self.queue_id) if self.broker is None else f"{self.broker}:{self.queue_id}"


def parse_queue_choice(text: str) -> QueueChoice:
    """Parse the value of ``--queue``. Raises UsageError."""
    found = re.fullmatch(r"(?:(.+)[:/])?([0-9]{1,10})", text.strip())
    if found is None or int(found[2]) > _QUEUE_ID_MAX:
        raise UsageError(f"--queue {text!r} is wrong: write BROKER:ID or ID, for example broker-a:0 or 0")
    return QueueChoice(found[1], int(found[2]))
