"""Clusters: the clients of all persons, one for each person and context. Idle ones are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from pymq.client import Producer, PullConsumer
from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.console.asking.cluster import HOLDERS_AT_ONCE, Cluster
from pymq.console.asking.reader import READS_AT_ONCE
from pymq.console.asking.room import Room
from pymq.console.people.sessions import Session
from pymq.errors import NotFoundError, PymqError

IDLE_MAX_MS: Final = 60_000
COUNT_MAX: Final = 200

# Makes the client of a session, or of nobody, for a context. It is not connected yet.
MakeAdmin = Callable[[str, Session | None], Admin]
# Makes what reads queues for a session, or for nobody, in a context.
MakeConsumer = Callable[[str, Session | None], PullConsumer]
# Makes what sends messages of a session, or of nobody, in a context.
MakeProducer = Callable[[str, Session | None], Producer]


class BusyError(PymqError):
    """As many persons ask as may ask at a time."""


class Clusters:
    """Makes clients at their first question, keeps them while they are used, and closes them."""

    def __init__(
        self,
        contexts: Mapping[str, str],
        make_admin: MakeAdmin,
        clock: Clock,
        make_consumer: MakeConsumer | None = None,
        make_producer: MakeProducer | None = None,
        room: Room | None = None,
    ) -> None:
        """``contexts``: name -> how it is shown, in their order. The first is where a visitor begins.

        ``make_consumer``: without it no page reads queues. ``make_producer``: without it no change sends messages.
        ``room``: for all kept answers.
        """
        self.contexts = dict(contexts)
        self._make_admin = make_admin
        self._make_consumer = make_consumer
        self._make_producer = make_producer
        self.room = room or Room()
        self._reading = asyncio.Semaphore(READS_AT_ONCE)
        self._holding = asyncio.Semaphore(HOLDERS_AT_ONCE)
        self._clock = clock
        self._clusters: dict[tuple[str, str], Cluster] = {}  # by the session's key, "" for nobody, and the context
        self._closing: set[asyncio.Task[None]] = set()
        self._question_count_of_closed = 0

    @property
    def question_count(self) -> int:
        """The number of questions that all persons have asked since the start."""
        return self._question_count_of_closed + sum(each.question_count for each in self._clusters.values())

    def __len__(self) -> int:
        return len(self._clusters)

    def get(self, context: str, session: Session | None) -> Cluster:
        """Return the person's cluster of that context. Raises NotFoundError for an unknown context, BusyError."""
        if context not in self.contexts:
            raise NotFoundError(f"context {context[:100]!r} is not one of this console: {', '.join(self.contexts)}")
        key = (session.key if session is not None else "", context)
        cluster = self._clusters.get(key)
        if cluster is None:
            self._make_room()
            consumer = None if self._make_consumer is None else partial(self._make_consumer, context, session)
            admin = self._make_admin(context, session)
            producer = None if self._make_producer is None else partial(self._make_producer, context, session)
            cluster = self._clusters[key] = Cluster(
                admin, self._clock, consumer, self._reading, producer, self._holding, self.room
            )
            if session is not None:
                session.on_end[key] = lambda: self._drop(key)
        return cluster

    def close_idle(self) -> None:
        """Close the clients that were not used for :data:`IDLE_MAX_MS`. Call it now and then."""
        now_ms = self._clock.monotonic_ms()
        for key, cluster in list(self._clusters.items()):
            if not cluster.is_asking and now_ms - cluster.used_ms >= IDLE_MAX_MS:
                self._drop(key)

    async def close(self) -> None:
        """Close all clients."""
        for key in list(self._clusters):
            self._drop(key)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _make_room(self) -> None:
        if len(self._clusters) < COUNT_MAX:
            return
        resting = {key: cluster for key, cluster in self._clusters.items() if not cluster.is_asking}
        if not resting:
            raise BusyError(f"{COUNT_MAX} persons are asking now: try again in a moment")
        self._drop(min(resting, key=lambda key: resting[key].used_ms))

    def _drop(self, key: tuple[str, str]) -> None:
        cluster = self._clusters.pop(key, None)
        if cluster is not None:
            self._question_count_of_closed += cluster.question_count
            self._in_background(cluster.close())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
