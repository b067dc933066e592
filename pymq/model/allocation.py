"""Strategies that assign queues to the members of a group: pure functions, with the same result at each member.

Java: AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymq.model.message import MessageQueue

Strategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]


def average(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Gives neighboring queues to one client; the first ``len(queues) % len(clients)`` clients get one more."""
    ordered, clients = sorted(queues), sorted(client_ids)
    if client_id not in clients:
        return []
    index, count = clients.index(client_id), len(ordered)
    share, left_over = divmod(count, len(clients))
    size = share + (1 if index < left_over else 0)
    start = index * size if index < left_over else index * size + left_over
    return ordered[start : start + size]


def average_by_circle(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Gives queue k to client ``k % len(clients)``."""
    clients = sorted(client_ids)
    if client_id not in clients:
        return []
    return sorted(queues)[clients.index(client_id) :: len(clients)]


STRATEGIES: dict[str, Strategy] = {"AVG": average, "AVG_BY_CIRCLE": average_by_circle}
