"""Strategies that assign queues to the members of a group: pure functions, with the same result at each member.

Java: the classes of org.apache.rocketmq.client.consumer.rebalance. All of them sort queues and clients first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from hashlib import md5

from pymq.errors import UsageError
from pymq.model.message import MessageQueue

Strategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], Sequence[MessageQueue]]

VIRTUAL_NODE_COUNT = 10  # Java: AllocateMessageQueueConsistentHash
ROOM_SEPARATOR = "@"


def average(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Give neighboring queues to one client; the first ``len(queues) % len(clients)`` clients get one more."""
    ordered, clients = sorted(queues), sorted(client_ids)
    if client_id not in clients:
        return []
    index, count = clients.index(client_id), len(ordered)
    share, left_over = divmod(count, len(clients))
    size = share + (1 if index < left_over else 0)
    start = index * size if index < left_over else index * size + left_over
    return ordered[start : start + size]


def average_by_circle(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Give queue k to client ``k % len(clients)``."""
    clients = sorted(client_ids)
    if client_id not in clients:
        return []
    return sorted(queues)[clients.index(client_id) :: len(clients)]


class ConsistentHash:
    """Gives each queue to the next client on a ring of hashes: a client that comes or goes moves few queues.

    Java: AllocateMessageQueueConsistentHash. A node's place is the number of the first 4 bytes of its MD5.
    """

    def __init__(self, virtual_node_count: int = VIRTUAL_NODE_COUNT) -> None:
        """``virtual_node_count``: the places of each client on the ring; more share more evenly."""
        self._nodes = range(virtual_node_count)

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        ring = {_place(f"{client}-{node}"): client for client in sorted(client_ids) for node in self._nodes}
        places = sorted(ring)
        return [queue for queue in sorted(queues) if places and ring[_next(places, queue)] == client_id]


def _place(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4])


def _next(places: list[int], queue: MessageQueue) -> int:
    """Return the first place at or behind that of the queue, whose key is the text of Java's MessageQueue."""
    key = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
    return places[bisect_left(places, _place(key)) % len(places)]


class Configured:
    """Gives this client the queues that it names. A topic of which it names none is shared by ``AVG``.

    Java: AllocateMessageQueueByConfig, which reads no other topic, not even the group's retry topic.
    """

    def __init__(self, queues: Collection[MessageQueue]) -> None:
        self._queues = list(queues)

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        topics = {queue.topic for queue in queues}
        own = [queue for queue in self._queues if queue.topic in topics]
        return own or average(client_id, queues, client_ids)


class MachineRoom:
    """Shares the queues of the brokers in ``rooms`` out in blocks; a broker's name is ``room@name``. Others rest.

    Java: AllocateMessageQueueByMachineRoom. The first clients get one of the left-over queues from the end each.
    """

    def __init__(self, rooms: Collection[str]) -> None:
        self._rooms = frozenset(rooms)

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        clients = sorted(client_ids)
        if client_id not in clients:
            return []
        near = [queue for queue in sorted(queues) if self._is_near(queue)]
        index, share = clients.index(client_id), len(near) // len(clients)
        left_over = near[share * len(clients) :]
        return near[index * share : (index + 1) * share] + left_over[index : index + 1]

    def _is_near(self, queue: MessageQueue) -> bool:
        parts = queue.broker_name.split(ROOM_SEPARATOR)
        return len(parts) == 2 and parts[0] in self._rooms


class Nearby:
    """Shares the queues of each room out among the room's clients, those of a room without clients among all.

    Java: AllocateMachineRoomNearby. ``broker_room(queue)`` and ``client_room(client_id)`` name the rooms.
    """

    def __init__(
        self,
        broker_room: Callable[[MessageQueue], str],
        client_room: Callable[[str], str],
        inside: str | Strategy = average,
    ) -> None:
        """``inside`` shares the queues of a room. Raises UsageError for a strategy that is not known."""
        self._broker_room = broker_room
        self._client_room = client_room
        self._inside = strategy_of(inside)

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_by_room: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in sorted(queues):
            queues_by_room[self._broker_room(queue)].append(queue)
        clients_by_room: dict[str, list[str]] = defaultdict(list)
        for client in sorted(client_ids):
            clients_by_room[self._client_room(client)].append(client)
        own = self._client_room(client_id)
        result = [*self._inside(client_id, queues_by_room.pop(own, []), clients_by_room[own])]
        for room, rest in sorted(queues_by_room.items()):
            if room not in clients_by_room:
                result += self._inside(client_id, rest, client_ids)
        return result


STRATEGIES: dict[str, Strategy] = {"AVG": average, "AVG_BY_CIRCLE": average_by_circle}  # those that brokers know too
BY_NAME: dict[str, Strategy] = {**STRATEGIES, "CONSISTENT_HASH": ConsistentHash()}
_OF_CLASSES = {  # need arguments, so a name alone can't stand for them
    "CONFIG": "Configured(queues)",
    "MACHINE_ROOM": "MachineRoom(rooms)",
    "MACHINE_ROOM_NEARBY": "Nearby(broker_room, client_room)",
}


def strategy_of(chosen: str | Strategy) -> Strategy:
    """Return the strategy called ``chosen``, or ``chosen`` itself if it can be called. Raises UsageError otherwise."""
    found = chosen if callable(chosen) else BY_NAME.get(chosen)
    if found is None and chosen in _OF_CLASSES:
        raise UsageError(f"the rebalance strategy {chosen} needs arguments: give {_OF_CLASSES[str(chosen)]}")
    if found is None:
        raise UsageError(
            f"there is no rebalance strategy {chosen!r}: choose one of {', '.join(sorted(BY_NAME))}, "
            f"give one of {', '.join(_OF_CLASSES.values())}, "
            "or a function (client_id, queues, client_ids) that returns queues"
        )
    return found
