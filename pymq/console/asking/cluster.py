"""Cluster: what one person asks of one cluster, with one client whose connections all pages share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from pymq.client import Producer, PullConsumer
from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.console.asking.reader import READS_AT_ONCE, Reader
from pymq.errors import UsageError
from pymq.operations.asking.retried import Retried
from pymq.operations.asking.single_flight import SingleFlight

KEPT_MS: Final = 2_000
# An answer that took long is kept so many times as long, so that looking costs brokers at most a tenth of their time.
KEPT_TIMES: Final = 10
LONG_KEPT_MS: Final = 60_000
KEPT_COUNT_MAX: Final = 200
AT_ONCE: Final = 16
# Works of all persons together that hold whole bodies: a message that is sent, a file that is made.
HOLDERS_AT_ONCE: Final = 4

T = TypeVar("T")
Question = Callable[[Admin], Coroutine[Any, Any, T]]


class Kept(NamedTuple):
    """An answer: when it came (monotonic ms), and for how long it is taken."""

    at_ms: int
    kept_ms: int
    answer: Any


@dataclass(slots=True)
class Oldest:
    """The age of the oldest kept answer that a page is made of."""

    age_ms: int = 0

    def note(self, age_ms: int) -> None:
        """Note the age of a further answer."""
        self.age_ms = max(self.age_ms, age_ms)


_oldest: ContextVar[Oldest | None] = ContextVar("oldest", default=None)


@contextmanager
def noting_age() -> Iterator[Oldest]:
    """Note how old the kept answers are that are taken during the ``with`` block."""
    oldest = Oldest()
    token = _oldest.set(oldest)
    try:
        yield oldest
    finally:
        _oldest.reset(token)


class Cluster:
    """The questions of one person to one cluster.

    A question that is on its way is joined, and its answer is kept for :data:`KEPT_MS`, one that took long for
    up to :data:`LONG_KEPT_MS`: ten open pages cost the brokers as much as one. At most :data:`AT_ONCE` questions are on
    their way.
    """

    def __init__(
        self,
        admin: Admin,
        clock: Clock,
        make_consumer: Callable[[], PullConsumer] | None = None,
        reading: asyncio.Semaphore | None = None,
        make_producer: Callable[[], Producer] | None = None,
        holding: asyncio.Semaphore | None = None,
    ) -> None:
        """``make_consumer``: without it nothing reads queues. ``make_producer``: without it nothing sends.

        ``reading``, ``holding``: the gates of all persons, of reads of bodies and of works that hold bodies.
        """
        self.used_ms = clock.monotonic_ms()
        self.question_count = 0  # how many left, and were not answered from memory
        self._admin = admin
        self._clock = clock
        self._retried = Retried(admin.unreached, clock)
        self._flights: SingleFlight[Any] = SingleFlight()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._reading = reading or asyncio.Semaphore(READS_AT_ONCE)
        self._make_consumer = make_consumer
        self._make_producer = make_producer
        self._holding = holding or asyncio.Semaphore(HOLDERS_AT_ONCE)
        self._reader: Reader | None = None
        self._kept: dict[Hashable, Kept] = {}
        self._change_count = 0
        self._on_the_way = 0
        self._is_open = False

    @property
    def is_asking(self) -> bool:
        """Return whether a question is on its way."""
        return self._on_the_way > 0

    @property
    def unreached(self) -> dict[str, str]:
        """The names of brokers that did not answer, each with the reason."""
        return dict(self._admin.unreached)

    @property
    def reader(self) -> Reader:
        """What reads the queues of this cluster, signed by this person."""
        if self._reader is None:
            if self._make_consumer is None:
                raise UsageError("this console reads no messages")
            self._reader = Reader(self._make_consumer(), self._reading, self._clock)
        return self._reader

    async def ask(self, key: Hashable, question: Question[T], *, kept_ms: int | None = None) -> T:
        """Return the answer to ``question``, of which ``key`` says all that matters. Raises PymqError.

        A kept answer is taken as it is, with ``kept_ms`` if it is younger. Within a :func:`noting_age` block its age is
        noted.
        """
        now_ms = self.used_ms = self._clock.monotonic_ms()
        kept = self._kept.get(key)
        if kept is not None and now_ms - kept.at_ms < (kept.kept_ms if kept_ms is None else kept_ms):
            if (oldest := _oldest.get()) is not None:
                oldest.note(now_ms - kept.at_ms)
            answer: T = kept.answer
            return answer
        with self.used():
            asked: T = await self._flights.ask(key, lambda: self._ask(key, question))
            return asked

    async def change(self, question: Question[T]) -> T:
        """Return the answer to a question that may change the cluster: it goes out for itself, and none is kept.

        What was kept of other questions is forgotten. Raises PymqError.
        """
        with self.used():
            try:
                return await self._ask(None, question)
            finally:
                self.forget()

    async def ask_for_bodies(self, key: Hashable, question: Question[T]) -> T:
        """Return the answer as :meth:`ask`, to a question whose answer holds bodies: few at once, and none is kept.

        Such a question must not read with :attr:`reader`, which waits for the same gate.
        """
        with self.used():
            asked: T = await self._flights.ask(key, lambda: self._ask(None, question, self._reading))
            return asked

    @asynccontextmanager
    async def holding(self) -> AsyncIterator[None]:
        """Hold whole bodies during the ``async with`` block, which waits while many others do.

        Such a block must not ask with :meth:`ask`, whose questions may wait for the block.
        """
        with self.used():
            async with self._holding:
                yield

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        """Run a producer that signs as this person during the ``async with`` block, which holds bodies.

        Raises UsageError in a console that sends nothing.
        """
        if self._make_producer is None:
            raise UsageError("this console sends no messages")
        async with self.holding(), self._make_producer() as producer:
            yield producer

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the connections open during the ``with`` block."""
        self._on_the_way += 1
        try:
            yield
        finally:
            self._on_the_way -= 1
            self.used_ms = self._clock.monotonic_ms()

    def forget(self) -> None:
        """Forget all kept answers, because this person has changed something."""
        self._kept.clear()
        self._change_count += 1

    async def close(self) -> None:
        """End the connections."""
        self.forget()
        if self._reader is not None:
            await self._reader.close()
        await self._admin.close()

    async def _ask(self, key: Hashable | None, question: Question[T], also: asyncio.Semaphore | None = None) -> T:
        async with self._gate, also or nullcontext():
            if not self._is_open:
                await self._admin.__aenter__()
                self._is_open = True
            self._retried.forget_old()
            self.question_count += 1
            begun_ms, change_count = self._clock.monotonic_ms(), self._change_count
            answer = await question(self._admin)
        if key is not None and change_count == self._change_count:  # else it may be of before the change
            self._keep(key, answer, self._clock.monotonic_ms() - begun_ms)
        return answer

    def _keep(self, key: Hashable, answer: Any, took_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._kept.pop(key, None)
        self._kept[key] = Kept(now_ms, min(max(KEPT_MS, KEPT_TIMES * took_ms), LONG_KEPT_MS), answer)
        for old in [each for each, kept in self._kept.items() if now_ms - kept.at_ms >= kept.kept_ms]:
            del self._kept[old]
        while len(self._kept) > KEPT_COUNT_MAX:
            del self._kept[next(iter(self._kept))]
