"""One person's questions: joined, kept for a moment, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pymq.client.admin import connection
from pymq.clock import ManualClock
from pymq.console.asking.cluster import (
    AT_ONCE,
    CHANGE_MS,
    HOLDERS_AT_ONCE,
    KEPT_COUNT_MAX,
    KEPT_MS,
    KEPT_TIMES,
    LONG_KEPT_MS,
    OLD_MAX_MS,
    SLOW_MS,
    Cluster,
    Known,
    noting_age,
)
from pymq.console.asking.room import Room
from pymq.errors import UnreachableError, UsageError
from pymq.operations.asking.retried import RETRY_AFTER_MS


class FakeAdmin:
    """A client that only counts."""

    def __init__(self) -> None:
        self.unreached: dict[str, str] = {}
        self.closed = False
        self.opened = 0

    async def __aenter__(self) -> FakeAdmin:
        self.opened += 1
        return self

    async def close(self) -> None:
        self.closed = True


class World:
    """A cluster whose questions are counted and wait until they are let go."""

    def __init__(self) -> None:
        self.clock, self.admin = ManualClock(), FakeAdmin()
        self.cluster = Cluster(self.admin, self.clock)  # type: ignore[arg-type]
        self.asked: list[str] = []
        self.running = self.most = 0
        self.free = asyncio.Event()

    def question(self, name: str, error: Exception | None = None) -> Callable[[Any], Any]:
        async def ask(admin: Any) -> str:
            self.asked.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
            await self.free.wait()
            self.running -= 1
            if error is not None:
                raise error
            return f"answer {len(self.asked)} to {name}"

        return ask

    def ask(self, name: str, error: Exception | None = None) -> Awaitable[str]:
        return self.cluster.ask(name, self.question(name, error))


def run(work: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await work(World())

    asyncio.run(main())


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_same_question_goes_out_once_and_its_answer_is_kept_for_a_moment() -> None:
    async def work(world: World) -> None:
        both = asyncio.gather(world.ask("topics"), world.ask("topics"))
        await turn()
        assert world.cluster.is_asking
        world.free.set()
        assert list(await both) == ["answer 1 to topics"] * 2
        assert not world.cluster.is_asking
        world.clock.advance(KEPT_MS - 1)
        assert await world.ask("topics") == "answer 1 to topics"
        world.clock.advance(1)
        assert await world.ask("topics") == "answer 2 to topics"
        assert world.admin.opened == 1

    run(work)


@pytest.mark.parametrize(("took_ms", "kept_ms"), [(0, KEPT_MS), (1_000, KEPT_TIMES * 1_000), (30_000, LONG_KEPT_MS)])
def test_an_answer_that_took_long_is_kept_for_longer(took_ms: int, kept_ms: int) -> None:
    async def work(world: World) -> None:
        async def ask(admin: Any) -> int:
            world.clock.advance(took_ms)
            world.asked.append("rows")
            return len(world.asked)

        assert await world.cluster.ask("rows", ask) == 1
        world.clock.advance(kept_ms - 1)
        with noting_age() as oldest:
            assert await world.cluster.ask("rows", ask) == 1
        assert oldest.age_ms == kept_ms - 1
        assert await world.cluster.ask("rows", ask, kept_ms=kept_ms) == 1
        world.clock.advance(1)
        with noting_age() as oldest:
            assert await world.cluster.ask("rows", ask) == 2
        assert oldest.age_ms == 0

    run(work)


def test_a_change_forgets_what_was_kept() -> None:
    async def work(world: World) -> None:
        world.free.set()
        await world.ask("topics")
        world.cluster.forget()
        assert await world.ask("topics") == "answer 2 to topics"

    run(work)


def test_an_answer_that_was_on_its_way_during_a_change_is_not_kept() -> None:
    async def work(world: World) -> None:
        before = asyncio.ensure_future(world.ask("a"))
        await turn()
        world.cluster.forget()
        world.free.set()
        await before
        await world.ask("a")
        await world.ask("a")
        assert world.asked == ["a", "a"]

    run(work)


def test_a_failure_is_everyones_who_asked_and_is_not_kept() -> None:
    async def work(world: World) -> None:
        world.free.set()
        error = UnreachableError("away")
        both = await asyncio.gather(world.ask("topics", error), world.ask("topics", error), return_exceptions=True)
        assert list(both) == [error, error]
        assert await world.ask("topics") == "answer 2 to topics"

    run(work)


def test_some_questions_are_asked_at_a_time() -> None:
    async def work(world: World) -> None:
        answers = [asyncio.ensure_future(world.ask(f"topic {number}")) for number in range(3 * AT_ONCE)]
        await turn()
        assert len(world.asked) == AT_ONCE
        world.free.set()
        await asyncio.gather(*answers)
        assert world.most == AT_ONCE and len(world.asked) == 3 * AT_ONCE

    run(work)


def test_the_kept_answers_are_bounded() -> None:
    async def work(world: World) -> None:
        world.free.set()
        for number in range(KEPT_COUNT_MAX + 1):
            await world.ask(f"topic {number}")
        await world.ask("topic 1")
        assert len(world.asked) == KEPT_COUNT_MAX + 1
        await world.ask("topic 0")
        assert len(world.asked) == KEPT_COUNT_MAX + 2

    run(work)


def test_an_unreached_broker_is_asked_again_after_a_while() -> None:
    async def work(world: World) -> None:
        world.free.set()
        world.admin.unreached["broker-a"] = "away"
        await world.ask("topics")
        assert world.cluster.unreached == {"broker-a": "away"}
        world.clock.advance(RETRY_AFTER_MS)
        await world.ask("topics")
        assert not world.cluster.unreached

    run(work)


def test_the_client_is_closed() -> None:
    async def work(world: World) -> None:
        await world.cluster.close()
        assert world.admin.closed

    run(work)


@pytest.mark.parametrize("step_ms", [0, KEPT_MS])
def test_the_last_use_is_known(step_ms: int) -> None:
    async def work(world: World) -> None:
        world.free.set()
        world.clock.advance(step_ms)
        await world.ask("topics")
        assert world.cluster.used_ms == step_ms

    run(work)


class FakeProducer:
    """A producer that knows whether it runs."""

    def __init__(self) -> None:
        self.is_running = False

    async def __aenter__(self) -> FakeProducer:
        self.is_running = True
        return self

    async def __aexit__(self, *error: object) -> None:
        self.is_running = False


def test_few_works_of_all_persons_hold_bodies_at_once() -> None:
    async def work() -> None:
        gate, free = asyncio.Semaphore(HOLDERS_AT_ONCE), asyncio.Event()
        running = most = 0
        clusters = [Cluster(FakeAdmin(), ManualClock(), holding=gate) for _ in range(3)]  # type: ignore[arg-type]

        async def hold(cluster: Cluster) -> None:
            nonlocal running, most
            async with cluster.holding():
                assert cluster.is_asking
                running += 1
                most = max(most, running)
                await free.wait()
                running -= 1

        tasks = [asyncio.ensure_future(hold(cluster)) for cluster in clusters for _ in range(HOLDERS_AT_ONCE)]
        await asyncio.sleep(0)
        assert running == HOLDERS_AT_ONCE
        free.set()
        await asyncio.gather(*tasks)
        assert most == HOLDERS_AT_ONCE and not any(cluster.is_asking for cluster in clusters)

    asyncio.run(work())


def test_a_producer_runs_during_its_block_and_holds_bodies() -> None:
    async def work() -> None:
        made: list[FakeProducer] = []
        gate = asyncio.Semaphore(1)

        def make() -> Any:
            made.append(FakeProducer())
            return made[-1]

        cluster = Cluster(FakeAdmin(), ManualClock(), make_producer=make, holding=gate)  # type: ignore[arg-type]
        async with cluster.producer():
            assert made[0].is_running and gate.locked() and cluster.is_asking
        assert not made[0].is_running and not gate.locked() and not cluster.is_asking
        with pytest.raises(RuntimeError):
            async with cluster.producer():
                raise RuntimeError
        assert not made[1].is_running and not gate.locked()

    asyncio.run(work())


def test_a_console_that_only_looks_has_no_producer() -> None:
    async def work() -> None:
        with pytest.raises(UsageError, match="sends no messages"):
            async with World().cluster.producer():
                pass

    asyncio.run(work())


class Slow:
    """A question whose answers take long: 1, then 2, and so on."""

    def __init__(self, took_ms: int = SLOW_MS) -> None:
        self.clock, self.admin = ManualClock(), FakeAdmin()
        self.cluster = Cluster(self.admin, self.clock)  # type: ignore[arg-type]
        self.took_ms = took_ms
        self.count = 0
        self.error: Exception | None = None
        self.known: Known | None = None
        self.kept_at_least_ms = 0
        self.is_renewed = False

    async def _answer(self, admin: Any) -> int:
        self.count += 1
        number = self.count
        await turn()
        if self.error is not None:
            raise self.error
        self.clock.advance(self.took_ms)
        return number

    async def ask(self, *, may_be_old: bool = True) -> tuple[int, int]:
        """Return the answer and its age."""
        with noting_age() as oldest:
            found = await self.cluster.ask(
                "rows",
                self._answer,
                may_be_old=may_be_old,
                known=lambda: self.known,
                kept_at_least_ms=lambda answer: self.kept_at_least_ms,
            )
        self.is_renewed = oldest.is_renewed
        return found, oldest.age_ms

    async def renewed(self) -> None:
        """Wait until nothing is asked for in the background."""
        await asyncio.gather(*self.cluster._renewals.values())
        await asyncio.sleep(0)


def slowly(work: Callable[[Slow], Awaitable[None]], took_ms: int = SLOW_MS) -> None:
    async def main() -> None:
        await work(Slow(took_ms))

    asyncio.run(main())


@pytest.mark.parametrize("may_be_old", [True, False])
def test_an_answer_is_kept_as_long_as_the_asker_wants(may_be_old: bool) -> None:
    async def work(slow: Slow) -> None:
        slow.kept_at_least_ms = 30_000
        assert await slow.ask(may_be_old=may_be_old) == (1, 0)
        slow.clock.advance(29_999)
        assert await slow.ask(may_be_old=may_be_old) == (1, 29_999) and not slow.is_renewed
        slow.clock.advance(1)
        assert await slow.ask(may_be_old=may_be_old) == (2, 0)
        slow.cluster.forget()
        assert await slow.ask(may_be_old=may_be_old) == (3, 0), "this person has changed something"

    slowly(work, took_ms=1)


def test_what_someone_else_knows_is_taken_as_long_and_nothing_is_asked() -> None:
    async def work(slow: Slow) -> None:
        slow.clock.advance(100_000)
        slow.kept_at_least_ms = 30_000
        slow.known = Known(slow.clock.monotonic_ms(), 99)
        slow.clock.advance(29_999)
        assert await slow.ask() == (99, 29_999) and not slow.is_renewed and not slow.cluster._renewals
        slow.clock.advance(1)
        assert await slow.ask() == (99, 30_000) and slow.is_renewed

    slowly(work)


def test_an_old_answer_is_given_with_its_age_while_a_new_one_is_asked_for() -> None:
    async def work(slow: Slow) -> None:
        assert await slow.ask() == (1, 0)
        slow.clock.advance(OLD_MAX_MS - 1)
        assert list(await asyncio.gather(slow.ask(), slow.ask())) == [(1, OLD_MAX_MS - 1)] * 2
        assert slow.is_renewed
        await slow.renewed()
        assert await slow.ask() == (2, 0) and slow.count == 2 and not slow.is_renewed

    slowly(work)


@pytest.mark.parametrize(
    ("took_ms", "old_ms", "may_be_old"), [(199, 2_000, True), (200, OLD_MAX_MS, True), (200, 2_000, False)]
)
def test_an_answer_is_waited_for_that_comes_soon_or_must_be_new_or_is_too_old(
    took_ms: int, old_ms: int, may_be_old: bool
) -> None:
    async def work(slow: Slow) -> None:
        await slow.ask()
        slow.clock.advance(old_ms)
        assert await slow.ask(may_be_old=may_be_old) == (2, 0)

    slowly(work, took_ms)


def test_an_error_in_the_background_is_the_next_ones_and_not_hidden() -> None:
    async def work(slow: Slow) -> None:
        await slow.ask()
        slow.clock.advance(LONG_KEPT_MS - 1)
        slow.error, slow.known = UnreachableError("away"), Known(slow.clock.monotonic_ms(), 77)
        assert await slow.ask() == (1, LONG_KEPT_MS - 1)
        await slow.renewed()
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await slow.ask()
        slow.error = None
        assert (await slow.ask())[1] == 0

    slowly(work)


def test_a_bug_in_the_background_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work(slow: Slow) -> None:
        slow.known, slow.error = Known(0, 77), ValueError("a bug")
        assert await slow.ask() == (77, 0)
        await slow.renewed()
        assert "a new answer to rows" in caplog.text

    slowly(work)


def test_what_others_know_is_taken_while_it_is_young() -> None:
    async def work(slow: Slow) -> None:
        slow.known = Known(0, 77)
        slow.clock.advance(OLD_MAX_MS - 1)
        assert await slow.ask() == (77, OLD_MAX_MS - 1)
        await slow.renewed()
        assert await slow.ask() == (1, 0)
        slow.clock.advance(OLD_MAX_MS)
        assert await slow.ask() == (2, 0), "neither is young"
        assert await slow.ask(may_be_old=False) == (2, 0)

    slowly(work)


def test_nothing_of_before_a_change_is_given_after_it() -> None:
    async def work(slow: Slow) -> None:
        await slow.ask()
        slow.clock.advance(KEPT_MS)
        assert await slow.ask() == (1, KEPT_MS)
        for _ in range(2):
            await asyncio.sleep(0)
        assert slow.count == 2, "a new one is on its way"
        slow.cluster.forget()
        changed_ms = slow.clock.monotonic_ms()
        slow.known = Known(changed_ms + CHANGE_MS - 1, 77)
        assert await slow.ask() == (3, 0), "neither joined, nor taken"
        slow.cluster.forget()
        slow.clock.advance(CHANGE_MS)
        slow.known = Known(slow.clock.monotonic_ms(), 88)
        assert await slow.ask() == (88, 0)
        await slow.renewed()

    slowly(work)


def test_a_question_that_left_before_a_change_is_not_joined_after_it() -> None:
    async def work(world: World) -> None:
        before = asyncio.ensure_future(world.ask("a"))
        await turn()
        world.cluster.forget()
        after = asyncio.ensure_future(world.ask("a"))
        await turn()
        world.free.set()
        assert world.asked == ["a", "a"]
        await asyncio.gather(before, after)
        assert await world.ask("a") == "answer 2 to a"

    run(work)


def test_what_is_on_its_way_in_the_background_ends_with_the_client() -> None:
    async def work(slow: Slow) -> None:
        slow.known = Known(0, 77)
        await slow.ask()
        assert slow.cluster._renewals
        await slow.cluster.close()
        assert not slow.cluster._renewals and not slow.cluster.is_asking

    slowly(work)


def test_failures_that_are_remembered_are_bounded() -> None:
    async def work(slow: Slow) -> None:
        for number in range(KEPT_COUNT_MAX + 1):
            slow.cluster._give_up(number)
        assert len(slow.cluster._not_renewed) == 1

    slowly(work)


def test_kept_answers_of_all_persons_share_a_room() -> None:
    async def main() -> None:
        room, clock = Room(100), ManualClock()
        ann, bob = (Cluster(FakeAdmin(), clock, room=room) for _ in range(2))  # type: ignore[arg-type]

        async def large(admin: Any) -> str:
            parsed = connection._parsed.get()
            assert parsed is not None
            parsed.size_bytes += 60
            return "large"

        await ann.ask("a", large)
        assert room.held_bytes == 60
        await bob.ask("a", large)
        assert room.held_bytes == 60 and not ann._kept, "the older one went"
        await ann.ask("a", large)
        assert (ann.question_count, bob.question_count) == (2, 1)
        for _ in range(2):
            await bob.ask("small", large, is_small=True)
        assert room.held_bytes == 60 and bob.question_count == 2 and ann._kept
        await ann.close()
        assert room.held_bytes == 0

    asyncio.run(main())
