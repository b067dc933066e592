"""QueueSends: sends prepared requests to the queues their caller chose, one at a time in each queue, many at once."""

from __future__ import annotations

import asyncio
from collections import deque

from pymq.client.instance import ClientInstance, ClusterAccess, Membership
from pymq.client.outgoing import Outgoing
from pymq.client.sender import Deadline, Sender, may_retry
from pymq.clock import Clock
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.model.names import check_topic
from pymq.security.credentials import Credentials
from pymq.wire.codes import ResponseCode

IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024
ATTEMPT_TIMEOUT_S = 10.0
PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 5.0
# Another broker may accept what one refuses with these codes, but here the queue is fixed.
_FINAL_CODES = frozenset(
    {
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)


class QueueSends:
    """The producer of tools that move many messages: it keeps the order of each queue, and repeats what fails there.

    So a message may be stored twice, with equal bytes, but never behind a later one alone. After the first error that
    no repetition mends within ``retry_budget_s`` nothing more is sent, and every call raises that error.
    """

    def __init__(
        self,
        group: str,
        namesrv: str,
        *,
        retry_budget_s: float,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
        in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX,
    ) -> None:
        self._instance = ClientInstance(
            ClusterAccess(namesrv, credentials), Membership(producer_group=group), clock=clock
        )
        self._sender = Sender(self._instance, group, 0, None, avoids_slow=False)
        self._budget_s = retry_budget_s
        self._bytes_max = in_flight_bytes_max
        self._bytes = 0
        self._has_room = asyncio.Condition()
        self._waiting: dict[MessageQueue, deque[Outgoing]] = {}
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._error: PymqError | None = None

    async def start(self) -> None:
        """Start background jobs, such as the refresh of routes."""
        self._instance.start()

    async def stop(self) -> None:
        """Drop what has not left, and close all connections."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._instance.close()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of ``topic``; name servers may be away for the retry budget.

        Raises UsageError for an illegal name, NotFoundError, NoQueueError, UnreachableError.
        """
        check_topic(topic)
        deadline = Deadline(self._instance.clock, self._budget_s)
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                return list(await self._instance.routes.queues_to_write(topic, max(deadline.left_s(), PAUSE_FIRST_S)))
            except UnreachableError:
                if deadline.left_s() <= pause_s:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def put(self, requests: list[tuple[Outgoing, MessageQueue]]) -> None:
        """Accept requests, waiting for room for each. Raises the error that ended the sends."""
        for outgoing, queue in requests:
            await self._room(len(outgoing.body))
            self._waiting.setdefault(queue, deque()).append(outgoing)
            if queue not in self._tasks:
                self._tasks[queue] = asyncio.get_running_loop().create_task(self._run(queue))

    async def flush(self) -> None:
        """Return when all that was put in is stored. Raises the error that ended the sends."""
        while self._tasks and self._error is None:
            await asyncio.wait(list(self._tasks.values()))
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    async def _room(self, size_bytes: int) -> None:
        """Count a request in once there is room; one that is larger than the limit goes alone."""
        async with self._has_room:
            while self._error is None and self._bytes and self._bytes + size_bytes > self._bytes_max:
                await self._has_room.wait()
            self._raise()
            self._bytes += size_bytes

    async def _run(self, queue: MessageQueue) -> None:
        waiting = self._waiting[queue]
        try:
            while waiting and self._error is None:
                outgoing = waiting.popleft()
                try:
                    await self._store(outgoing, queue)
                except PymqError as error:
                    self._error = self._error or error
                async with self._has_room:
                    self._bytes -= len(outgoing.body)
                    self._has_room.notify_all()
        finally:
            del self._tasks[queue]

    async def _store(self, outgoing: Outgoing, queue: MessageQueue) -> None:
        """Send until it is stored, or the budget is used up."""
        budget = Deadline(self._instance.clock, self._budget_s)
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                await self._sender.attempt(outgoing, queue, Deadline(self._instance.clock, ATTEMPT_TIMEOUT_S))
                return
            except (RefusedError, UnreachableError, NotFoundError) as error:
                if not _may_repeat(error) or budget.left_s() <= pause_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _may_repeat(error: RefusedError | UnreachableError | NotFoundError) -> bool:
    if isinstance(error, NotFoundError):
        return True  # a topic is unknown to name servers also while its only broker is away
    return may_retry(error) and not (isinstance(error, RefusedError) and error.code in _FINAL_CODES)
