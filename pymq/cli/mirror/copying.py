"""Copies one queue of the source: pulls in order, sends in order, and knows up to where everything is stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pymq.cli.mirror.figures import Figures
from pymq.cli.mirror.messages import Clusters, copy_of, is_loop
from pymq.cli.output import print_note
from pymq.cli.tail.outages import Outages
from pymq.client import MessageQueue, PullConsumer, PullStatus, StoredMessage
from pymq.client.ordered_sends import OrderedSends
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.model.compression import InflateError
from pymq.operations.pace import Pace

PULL_COUNT = 1024
SUSPEND_MS = 5_000
RETRY_AFTER_S = 1.0
AHEAD_MAX = 4096  # messages of one queue that are read and not stored at the target yet


class CopyError(PymqError):
    """A message can't be copied, and the mirror was asked to stop then."""


@dataclass
class Copied:
    """The position in one queue. ``offset``: the next to read. ``done``: everything before is stored at the target.

    ``failed_at``: the offset of a message that can't be copied, which ends the queue.
    """

    queue: MessageQueue
    target: MessageQueue
    offset: int
    done: int
    saved: int = -1
    open_count: int = 0
    failed_at: int | None = None
    room: asyncio.Event = field(default_factory=asyncio.Event)


class Copier:
    """Copies queues of one mirror. ``skips_failures``: a message that can't be copied is left out, with a note."""

    def __init__(
        self,
        pull: PullConsumer,
        sends: OrderedSends,
        figures: Figures,
        outages: Outages,
        pace: Pace,
        *,
        clusters: Clusters,
        skips_failures: bool,
    ) -> None:
        self._pull = pull
        self._sends = sends
        self._figures = figures
        self._outages = outages
        self._pace = pace
        self._clusters = clusters
        self._skips_failures = skips_failures
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def copy(self, at: Copied, end: int | None) -> None:
        """Copy the queue up to the offset ``end``, or without end. Trouble with the source is waited out."""
        while at.failed_at is None and (end is None or at.offset < end):
            try:
                messages, next_offset = await self._read(at)
            except (NotFoundError, UnreachableError, RefusedError) as error:
                self._figures.failing.add(at.queue)
                self._outages.failed(at.queue, error)
                await asyncio.sleep(RETRY_AFTER_S)
                continue
            self._figures.failing.discard(at.queue)
            self._outages.worked(at.queue)
            for message in messages:
                if at.failed_at is None and (end is None or message.queue_offset < end):
                    await self._put(at, message)
            at.offset = next_offset
            self._pass(at, next_offset)

    @staticmethod
    def _pass(at: Copied, offset: int) -> None:
        """Move the position behind what needs no copy, unless copies before it are under way: their answers do it."""
        if not at.open_count and at.failed_at is None:
            at.done = max(at.done, offset)

    async def _read(self, at: Copied) -> tuple[list[StoredMessage], int]:
        result = await self._pull.pull(at.queue, at.offset, PULL_COUNT, suspend_ms=SUSPEND_MS)
        figures = self._figures.of(at.queue.topic)
        figures.behind[at.queue.broker_name, at.queue.queue_id] = max(result.max_offset - at.done, 0)
        name = f"{at.queue.topic} {at.queue.broker_name}/{at.queue.queue_id}"
        if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset != at.offset:
            if result.next_offset > at.offset:
                print_note(f"{name}: offsets {at.offset} to {result.next_offset - 1} are no longer stored")
            else:
                print_note(f"{name}: the queue begins again at {result.next_offset}: it was deleted meanwhile")
                await _until(at, 0)
                at.done = result.next_offset
        return result.messages() if result.status is PullStatus.FOUND else [], result.next_offset

    async def _put(self, at: Copied, message: StoredMessage) -> None:
        figures = self._figures.of(at.queue.topic)
        if is_loop(message, self._clusters):
            figures.skipped += 1
            self._pass(at, message.queue_offset + 1)
            return
        try:
            copy = copy_of(message, at.target.topic, self._clusters.source)
        except InflateError as error:
            self._failed(at, message, error)
            self._pass(at, message.queue_offset + 1)
            return
        await self._pace.wait()
        await _until(at, AHEAD_MAX - 1)
        at.open_count += 1

        def done(error: PymqError | None) -> None:
            at.open_count -= 1
            at.room.set()
            if error is not None:
                self._failed(at, message, error)
            if at.failed_at is not None and message.queue_offset >= at.failed_at:
                return  # everything from there on is copied when the mirror runs again
            at.done = message.queue_offset + 1
            if error is not None:
                return
            figures.copied += 1
            figures.copied_bytes += len(copy.body)
            behind = (at.queue.broker_name, at.queue.queue_id)
            figures.behind[behind] = max(figures.behind.get(behind, 0) - 1, 0)

        await self._sends.put(copy, at.target, done)

    def _failed(self, at: Copied, message: StoredMessage, error: PymqError) -> None:
        place = f"{message.topic} {message.broker_name}/{message.queue_id}@{message.queue_offset}"
        if self._skips_failures:
            self._figures.of(at.queue.topic).skipped += 1
            print_note(f"pymq: {place} is left out: {error}")
            return
        at.failed_at = min(message.queue_offset, at.failed_at if at.failed_at is not None else message.queue_offset)
        if not self.failure.done():
            self.failure.set_exception(
                CopyError(f"{place} can't be copied: {error}; --on-error skip leaves such messages out")
            )


async def _until(at: Copied, open_max: int) -> None:
    """Wait until at most ``open_max`` messages of the queue are under way."""
    while at.open_count > open_max:
        at.room.clear()
        await at.room.wait()
