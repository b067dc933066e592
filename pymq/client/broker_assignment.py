"""What a broker assigns to this member, and how: QUERY_ASSIGNMENT (400), for consumers with ``client_rebalance=False``.

Java: RebalanceImpl.tryQueryAssignment, getRebalanceResultFromBroker.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pymq.client.consumer_settings import ConsumerState
from pymq.client.popped_queue import PoppedQueue, PopReader
from pymq.client.popping import Popping
from pymq.client.queue_reader import Consumption
from pymq.errors import RefusedError
from pymq.model.message import MessageQueue
from pymq.wire.bodies_client import decode_body, encode_body
from pymq.wire.bodies_pop import POP, AssignmentAnswer, AssignmentRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request

_CLUSTERING = "CLUSTERING"


class Assigned(NamedTuple):
    """Queues of one topic: those to pull, and those to pop."""

    pulled: set[MessageQueue]
    popped: set[MessageQueue]


class BrokerAssignment:
    """Asks for assignments, and pops what is assigned for popping."""

    def __init__(self, state: ConsumerState, consumption: Consumption) -> None:
        self._state = state
        self._consumption = consumption
        self._popping = Popping(state.group, state.instance, from_end=state.settings.pops_from_end)
        self.popped: dict[MessageQueue, PoppedQueue] = {}
        self._readers: dict[MessageQueue, asyncio.Task[None]] = {}

    async def query(self, topic: str, queues: list[MessageQueue]) -> Assigned | None:
        """Return what a broker assigns to this member; None when all stays as it is.

        Raises RefusedError, also of a broker that does not know the request, UnreachableError.
        """
        instance = self._state.instance
        address = await instance.routes.read_address(instance.rng.choice(queues))
        body = AssignmentRequest(
            topic=topic,
            consumer_group=self._state.group,
            client_id=instance.client_id,
            strategy_name=str(self._state.settings.strategy),
            message_model=_CLUSTERING,
        )
        answer = await instance.remoting.invoke(address, request(RequestCode.QUERY_ASSIGNMENT, body=encode_body(body)))
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, address)
        found: AssignmentAnswer = decode_body(AssignmentAnswer, answer.body)
        if found.message_queue_assignments is None:
            await instance.heartbeat(address)  # it may not know this member yet
            return None
        assigned = Assigned(set(), set())
        for each in found.message_queue_assignments:
            queue = each.message_queue.to_queue()
            (assigned.popped if each.mode == POP else assigned.pulled).add(queue)
        return assigned

    async def apply(self, topic: str, popped: set[MessageQueue]) -> None:
        """Pop exactly these queues of a topic from now on."""
        current = {queue for queue in self.popped if queue.topic == topic}
        for queue in current - popped:
            await self._release(queue)
        for queue in sorted(popped - current):
            popped_queue = PoppedQueue(queue, self._state, self._popping)
            self.popped[queue] = popped_queue
            reader = PopReader(self._state, popped_queue, self._popping, self._consumption)
            self._readers[queue] = self._state.instance.spawn(reader.run())

    async def stop(self) -> None:
        """End all pops; what was popped can still be settled."""
        for reader in self._readers.values():
            reader.cancel()
        await asyncio.gather(*self._readers.values(), return_exceptions=True)
        self._readers.clear()

    async def give_back(self) -> None:
        """Let messages that no handler got come again at once."""
        for popped_queue in self.popped.values():
            await popped_queue.give_all_back()

    async def _release(self, queue: MessageQueue) -> None:
        """End the pops of a queue. Messages that are here are handled and settled as before."""
        del self.popped[queue]
        reader = self._readers.pop(queue)
        reader.cancel()
        await asyncio.wait([reader])
