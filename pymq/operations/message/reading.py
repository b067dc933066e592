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
    """The messages of one pull, where the next one begins, and how many offsets before the first are gone.

    The next pull begins at the same offset when the broker says that nothing is stored there: a slave may be behind.
    """

    messages: list[StoredMessage]
    next_offset: int
    gone: int = 0


def batch_of(result: PullResult, offset: int) -> Batch:
    """Return the messages of a pull from ``offset`` on."""
    if result.status is PullStatus.OFFSET_ILLEGAL:
        following = max(result.next_offset, offset)
        return Batch([], following, following - offset)
    if result.status is PullStatus.NO_NEW_MESSAGE:
        return Batch([], max(result.next_offset, offset))
    following = max(result.next_offset, offset + 1)
    return Batch(result.messages() if result.status is PullStatus.FOUND else [], following)
