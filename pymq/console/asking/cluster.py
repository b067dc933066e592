"""Cluster: what one person asks of one cluster, with one client whose connections all pages share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from pymq.client import Producer, PullConsumer
from pymq.client.admin import Admin
from pymq.client.admin.connection import counting_parsed
from pymq.clock import Clock
from pymq.console.asking.reader import READS_AT_ONCE, Reader
from pymq.console.asking.room import Room
from pymq.errors import PymqError, UsageError
from pymq.operations.asking.retried import Retried
from pymq.operations.asking.single_flight import SingleFlight

KEPT_MS: Final = 2_000
# An answer that took long is kept so many times as long, so that looking costs brokers at most a tenth of their time.
KEPT_TIMES: Final = 10
LONG_KEPT_MS: Final = 60_000
KEPT_COUNT_MAX: Final = 200
# A page that may be old does not wait for an answer which takes so long, while there is one that is not older.
SLOW_MS: Final = 200
OLD_MAX_MS: Final = 60_000
RENEWAL_TIMEOUT_S: Final = 30.0
# What came so soon after a change may have been asked for before it.
CHANGE_MS: Final = 10_000
AT_ONCE: Final = 16
# Works of all persons together that hold whole bodies: a message that is sent, a file that is made.
HOLDERS_AT_ONCE: Final = 4

log = logging.getLogger(__name__)

T = TypeVar("T")
Question = Callable[[Admin], Coroutine[Any, Any, T]]


class Known(NamedTuple):
    """An answer, and when it came (monotonic ms)."""

    at_ms: int
    answer: Any


class Kept(NamedTuple):
    """An answer: when it came (monotonic ms), for how long it is taken, and for how long as an old one."""

    at_ms: int
    kept_ms: int
    old_ms: int
    answer: Any


@dataclass(slots=True)
class Oldest:
    """The age of the oldest kept answer that a page is made of. ``is_renewed``: newer ones are on their way."""

    age_ms: int = 0
    is_renewed: bool = False

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
    their way. An old answer is given at once, while a new one is asked for, to those who say that it may be old.
    """

    def __init__(
        self,
        admin: Admin,
        clock: Clock,
        make_consumer: Callable[[], PullConsumer] | None = None,
        reading: asyncio.Semaphore | None = None,
        make_producer: Callable[[], Producer] | None = None,
        holding: asyncio.Semaphore | None = None,
        room: Room | None = None,
    ) -> None:
        """``make_consumer``: without it nothing reads queues. ``make_producer``: without it nothing sends.

        ``reading``, ``holding``: the gates of all persons, of reads of bodies and of works that hold bodies. ``room``:
        for the kept answers of all persons.
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
        self._room = room or Room()
        self._renewals: dict[Hashable, asyncio.Task[None]] = {}
        self._not_renewed: set[Hashable] = set()  # questions whose old answers are no longer given
        self._change_count = 0
        self._changed_ms: int | None = None
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

    async def ask(
        self,
        key: Hashable,
        question: Question[T],
        *,
        kept_ms: int | None = None,
        may_be_old: bool = False,
        known: Callable[[], Known | None] = lambda: None,
        kept_at_least_ms: Callable[[T], int] = lambda answer: 0,
        is_small: bool = False,
    ) -> T:
        """Return the answer to ``question``, of which ``key`` says all that matters. Raises PymqError.

        A kept answer is taken as it is, with ``kept_ms`` if it is younger. Within a :func:`noting_age` block its age is
        noted.

        ``may_be_old``: an answer that took :data:`SLOW_MS` is taken until it is :data:`OLD_MAX_MS` old, and a new one
        asked for in the background. So is what ``known`` returns, an answer that someone else has got and this person
        may see, when it is younger than that and than this person's last change. After a failure the next caller waits.

        ``kept_at_least_ms``: for how long an answer is taken, if that is longer than how long it took says; that of
        ``known``, too.

        ``is_small``: the answer takes little memory, whatever it is made of.
        """
        now_ms = self.used_ms = self._clock.monotonic_ms()
        kept = self._kept.get(key)
        taken: Known | None = None
        is_renewed = False
        if kept is not None and now_ms - kept.at_ms < (kept.kept_ms if kept_ms is None else kept_ms):
            taken = Known(kept.at_ms, kept.answer)
        elif may_be_old and (taken := self._old(key, known, now_ms)) is not None:
            is_renewed = now_ms - taken.at_ms >= kept_at_least_ms(taken.answer)
            if is_renewed:
                self._renew(key, question, kept_at_least_ms, is_small=is_small)
        if taken is None:
            return await self._asked(key, question, kept_at_least_ms, is_small=is_small)
        if (oldest := _oldest.get()) is not None:
            oldest.note(now_ms - taken.at_ms)
            oldest.is_renewed |= is_renewed
        answer: T = taken.answer
        return answer

    async def _asked(
        self, key: Hashable, question: Question[T], kept_at_least_ms: Callable[[T], int], *, is_small: bool
    ) -> T:
        def ask() -> Coroutine[Any, Any, T]:
            return self._ask(key, question, None, kept_at_least_ms, is_small=is_small)

        with self.used():
            # A question that left before a change does not answer one of after it.
            flight = (self._change_count, key)
            asked: T = await self._flights.ask(flight, ask)
            return asked

    def _old(self, key: Hashable, find_known: Callable[[], Known | None], now_ms: int) -> Known | None:
        """Return an old answer that may be given: this person's own one, else the other."""
        if key in self._not_renewed:
            return None
        kept = self._kept.get(key)
        if kept is not None and now_ms - kept.at_ms < kept.old_ms:
            return Known(kept.at_ms, kept.answer)
        known = find_known()
        if known is None or now_ms - known.at_ms >= OLD_MAX_MS:
            return None
        return known if self._changed_ms is None or known.at_ms >= self._changed_ms + CHANGE_MS else None

    def _renew(
        self, key: Hashable, question: Question[Any], kept_at_least_ms: Callable[[Any], int], *, is_small: bool
    ) -> None:
        if key not in self._renewals:
            renewed = self._renewed(key, question, kept_at_least_ms, is_small=is_small)
            task = asyncio.get_running_loop().create_task(renewed)
            self._renewals[key] = task
            task.add_done_callback(lambda _: self._renewals.pop(key, None))

    async def _renewed(
        self, key: Hashable, question: Question[Any], kept_at_least_ms: Callable[[Any], int], *, is_small: bool
    ) -> None:
        try:
            async with asyncio.timeout(RENEWAL_TIMEOUT_S):
                await self._asked(key, question, kept_at_least_ms, is_small=is_small)
        except (PymqError, TimeoutError):
            self._give_up(key)
        except Exception:
            log.exception("a new answer to %s", key)
            self._give_up(key)

    def _give_up(self, key: Hashable) -> None:
        self._room.take(self._kept, key)
        if len(self._not_renewed) >= KEPT_COUNT_MAX:
            self._not_renewed.clear()
        self._not_renewed.add(key)

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
            flight = (self._change_count, key)
            asked: T = await self._flights.ask(flight, lambda: self._ask(None, question, self._reading))
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
        self.free()
        self._change_count += 1
        self._changed_ms = self._clock.monotonic_ms()

    def free(self) -> None:
        """Forget all kept answers, to have their memory for other things."""
        self._room.clear(self._kept)
        self._not_renewed.clear()

    async def close(self) -> None:
        """End the connections."""
        self.forget()
        for task in (renewals := list(self._renewals.values())):
            task.cancel()
        await asyncio.gather(*renewals, return_exceptions=True)
        if self._reader is not None:
            await self._reader.close()
        await self._admin.close()

    async def _ask(
        self,
        key: Hashable | None,
        question: Question[T],
        also: asyncio.Semaphore | None = None,
        kept_at_least_ms: Callable[[T], int] = lambda answer: 0,
        *,
        is_small: bool = False,
    ) -> T:
        async with self._gate, also or nullcontext():
            if not self._is_open:
                await self._admin.__aenter__()
                self._is_open = True
            self._retried.forget_old()
            self.question_count += 1
            begun_ms, change_count = self._clock.monotonic_ms(), self._change_count
            with counting_parsed() as parsed:
                answer = await question(self._admin)
        if key is not None and change_count == self._change_count:  # else it may be of before the change
            size_bytes = 0 if is_small else parsed.size_bytes
            took_ms = self._clock.monotonic_ms() - begun_ms
            self._keep(key, answer, took_ms, size_bytes, kept_at_least_ms(answer))
        return answer

    def _keep(self, key: Hashable, answer: Any, took_ms: int, size_bytes: int, kept_at_least_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._not_renewed.discard(key)
        kept_ms = max(kept_at_least_ms, min(max(KEPT_MS, KEPT_TIMES * took_ms), LONG_KEPT_MS))
        old_ms = OLD_MAX_MS if took_ms >= SLOW_MS else kept_ms
        self._room.put(self._kept, key, Kept(now_ms, kept_ms, old_ms, answer), size_bytes)
        for old in [each for each, kept in self._kept.items() if now_ms - kept.at_ms >= kept.old_ms]:
            self._room.take(self._kept, old)
        while len(self._kept) > KEPT_COUNT_MAX:
            self._room.take(self._kept, next(iter(self._kept)))
