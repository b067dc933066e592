"""Reads of queues for pages and searches: a pull whose messages are made into something small at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from pymq.client import MessageQueue, PullStatus, StoredMessage
from pymq.client.subscription_options import SubscriptionOptions
from pymq.model.message import PullResult

READER_GROUP: Final = "TOOLS_CONSUMER"  # RocketMQ's group for tools: every broker has it, and it commits nothing

T = TypeVar("T")


class Pull(Protocol):
    """Pulls once, and returns what ``take`` makes of the answer; bodies are dropped with it."""

    async def __call__(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int,
        options: SubscriptionOptions,
        take: Callable[[PullResult], Any],
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one pull, where the next one begins, and how many offsets before the first are gone."""

    messages: list[StoredMessage]
    next_offset: int
    gone: int = 0


def batch_of(result: PullResult, offset: int) -> Batch:
    """Return the messages of a pull from ``offset`` on. The next offset is always behind it."""
    following = max(result.next_offset, offset + 1)
    if result.status is PullStatus.OFFSET_ILLEGAL:
        return Batch([], following, following - offset)
    return Batch(result.messages() if result.status is PullStatus.FOUND else [], following)
