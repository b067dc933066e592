"""Logs that a broker moved a consumer's offsets: one line for a reset, a warning where messages are skipped."""

from __future__ import annotations

import asyncio
import logging

from pymq.client.instance import ClientInstance
from pymq.model.message import MessageQueue, PullResult

log = logging.getLogger(__name__)

RESET_GATHER_S = 1.0  # the queues of one reset learn of it within this time, each with its own pull
QUEUES_SHOWN_MAX = 8


class OffsetMoves:
    """The moves of one consumer. Each queue reports its own moves; the moves of a reset are logged together."""

    def __init__(self, group: str, instance: ClientInstance) -> None:
        self._group = group
        self._instance = instance
        self._resets: dict[MessageQueue, tuple[int, int]] = {}
        self._reporting: asyncio.Task[None] | None = None

    def moved(self, queue: MessageQueue, offset: int, result: PullResult) -> None:
        """Note that the pull at ``offset`` was answered with another offset to go on at."""
        target = result.next_offset
        if target == offset:
            return
        if result.min_offset <= offset <= result.max_offset:
            self._resets[queue] = (offset, target)
            if self._reporting is None or self._reporting.done():
                self._reporting = self._instance.spawn(self._report())
        elif offset < target:
            log.warning(
                "group %s: the messages %d to %d of %s were deleted before they were consumed, continuing at %d: "
                "consume faster or keep messages longer",
                *(self._group, offset, target - 1, _place(queue), target),
            )
        else:
            log.warning(
                "group %s: offset %d of %s is beyond its end, continuing at %d: the queue was made new or lost its end",
                *(self._group, offset, _place(queue), target),
            )

    async def _report(self) -> None:
        try:
            await asyncio.sleep(RESET_GATHER_S)
        finally:
            resets, self._resets = self._resets, {}
            shown = [f"{_place(queue)} from {old} to {new}" for queue, (old, new) in sorted(resets.items())]
            more = f" and {len(shown) - QUEUES_SHOWN_MAX} more queues" if len(shown) > QUEUES_SHOWN_MAX else ""
            log.info("the offsets of group %s were reset: %s%s", self._group, ", ".join(shown[:QUEUES_SHOWN_MAX]), more)


def _place(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
