"""Which queues a member of a group consumes, as the broker decides it. Pure functions.

Java: QueryAssignmentProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymq.model.allocation import Strategy
from pymq.model.message import MessageQueue

ANY_QUEUE = -1


def popped_queues(
    strategy: Strategy, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], share: int
) -> list[MessageQueue]:
    """Return the queues that a client pops. ``share``: how many other members' queues it pops as well.

    With a share of 0, or of all others, it pops any queue of each broker, which queue id -1 stands for.
    """
    clients = sorted(client_ids)
    if client_id not in clients or not queues:
        return []
    if share <= 0 or share >= len(clients) - 1:
        brokers = sorted({(queue.topic, queue.broker_name) for queue in queues})
        return [MessageQueue(topic, broker, ANY_QUEUE) for topic, broker in brokers]
    index = clients.index(client_id)
    if len(clients) > len(queues):
        return [sorted(queues)[index % len(queues)]]
    ring = [clients[(index + number) % len(clients)] for number in range(share + 1)]
    return [queue for member in ring for queue in strategy(member, queues, clients)]
