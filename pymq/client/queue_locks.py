"""Locks queues at their brokers (codes 41, 42), so that only one member at a time reads a queue in order."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable

from pymq.client.consumer_settings import ConsumerState
from pymq.client.process_queue import ProcessQueue
from pymq.errors import PymqError
from pymq.model.message import MessageQueue
from pymq.wire.bodies_client import LockAnswer, LockRequest, QueueName, decode_body, encode_body
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, request

log = logging.getLogger(__name__)

LOCK_LIFE_MS = 30_000  # by this client's clock; the broker keeps a lock for 60 s
RENEW_INTERVAL_S = 20.0
TIMEOUT_S = 3.0


class QueueLocks:
    """Acquires, renews and releases the locks of one consumer."""

    def __init__(self, state: ConsumerState) -> None:
        self._state = state
        self._clock = state.instance.clock

    def holds(self, process_queue: ProcessQueue) -> bool:
        """Return True while this client is certain to hold the lock."""
        return self._clock.monotonic_ms() < process_queue.locked_until_ms

    async def lock(self, process_queues: Iterable[ProcessQueue]) -> None:
        """Ask each broker once to lock its queues; afterwards :meth:`holds` returns which locks this client has.

        A lock that a broker refuses ends at once; one at a broker that can't be reached expires.
        """
        by_queue = {one.queue: one for one in process_queues}
        asked_ms = self._clock.monotonic_ms()
        asked = list(_by_broker(by_queue).values())
        answers = await asyncio.gather(*[self._lock_at(queues) for queues in asked])
        for queues, locked in zip(asked, answers, strict=True):
            if locked is None:
                continue
            for queue in queues:
                if queue in locked:
                    by_queue[queue].locked_until_ms = asked_ms + LOCK_LIFE_MS
                    by_queue[queue].last_lock_ms = self._clock.now_ms()
                else:
                    by_queue[queue].locked_until_ms = 0

    async def renew(self) -> None:
        """Renew the locks of all assigned queues."""
        await self.lock(list(self._state.queues.values()))

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release locks; at a broker that can't be reached they expire."""
        for some in _by_broker(queues).values():
            try:
                address = await self._state.instance.routes.write_address(some[0])
                command = self._command(RequestCode.UNLOCK_BATCH_MQ, some)
                await self._state.instance.remoting.invoke_ok(address, command, TIMEOUT_S)
            except PymqError as error:
                log.info("the locks of %s are not released and will expire: %s", some, error)

    async def _lock_at(self, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        """Return the queues that one broker has locked for this client, None when the request fails."""
        try:
            address = await self._state.instance.routes.write_address(queues[0])
            command = self._command(RequestCode.LOCK_BATCH_MQ, queues)
            answer = await self._state.instance.remoting.invoke_ok(address, command, TIMEOUT_S)
            locked: LockAnswer = decode_body(LockAnswer, answer.body)
        except PymqError as error:
            log.warning("no lock on %s: %s", queues, error)
            return None
        return {name.to_queue() for name in locked.lock_ok_mq_set}

    def _command(self, code: int, queues: list[MessageQueue]) -> Command:
        body = LockRequest(
            consumer_group=self._state.group,
            client_id=self._state.instance.client_id,
            mq_set=[QueueName.of(queue) for queue in queues],
        )
        return request(code, body=encode_body(body))


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    result: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        result[queue.broker_name].append(queue)
    return result
