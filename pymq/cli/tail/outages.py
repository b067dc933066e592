"""Outages while a tail follows: a broker that restarts is one line, not one for each of its queues."""

from __future__ import annotations

from collections.abc import Callable

from pymq.cli.output import print_note
from pymq.client import MessageQueue
from pymq.errors import NotFoundError, PymqError


class Outages:
    """Which queues can't be read now, by what they have in common: their broker, or a topic that is gone."""

    def __init__(self, note: Callable[[str], None] = print_note) -> None:
        self._note = note
        self._failing: dict[str, set[MessageQueue]] = {}
        self._of_queue: dict[MessageQueue, str] = {}

    def failed(self, queue: MessageQueue, error: PymqError) -> None:
        """Note that a queue can't be read; the first one of a broker or topic prints a line."""
        what = queue.topic if isinstance(error, NotFoundError) else queue.broker_name
        if queue in self._of_queue:
            return
        self._of_queue[queue] = what
        if what in self._failing:
            self._failing[what].add(queue)
            return
        self._failing[what] = {queue}
        self._note(f"{what}: {error}; trying again")

    def worked(self, queue: MessageQueue) -> None:
        """Note that a queue can be read; the last one of an outage prints a line."""
        what = self._of_queue.pop(queue, None)
        if what is None:
            return
        self._failing[what].discard(queue)
        if not self._failing[what]:
            del self._failing[what]
            self._note(f"{what}: back")
