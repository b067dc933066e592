"""What a channel pops next: never more than it has room for, urgent topics first, and no broker holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from pymq_celery import fetching
from pymq_celery.fetching import LONG_POLL_MS, Fetcher, Queue
from pymq_celery.settings import Options

from pymq.errors import RefusedError, UnreachableError
from pymq.wire.codes import ResponseCode


class Cluster:
    """Stands for the link and its consumer: messages by topic and broker, and the pops that wait."""

    def __init__(self, brokers: list[str], room: int) -> None:
        self.names = brokers
        self.room = room
        self.messages: dict[tuple[str, str | None], list[Any]] = {}
        self.waiting: dict[tuple[str, str | None], tuple[int, int, asyncio.Future[list[Any]]]] = {}
        self.errors: dict[str | None, Exception] = {}
        self.accepted: list[Any] = []
        self.failures: list[BaseException] = []
        self.faults = self.consumer = self
        self.options = Options()
        self.loop = asyncio.get_running_loop()
        self.fetcher = Fetcher(self, lambda: self.room, self.accept, self.failures.append)  # type: ignore[arg-type]

    async def brokers(self, topic: str) -> list[str]:
        return self.names

    def write(self, source: str, text: str) -> None:
        self.accepted.append(text)

    async def receive(
        self, topic: str, count: int, *, invisible_ms: int, wait_ms: int, broker_name: str | None
    ) -> list[Any]:
        if broker_name in self.errors:
            raise self.errors[broker_name]
        key = (topic, broker_name)
        found = self.messages.get(key, [])
        if not found and wait_ms:
            future: asyncio.Future[list[Any]] = self.loop.create_future()
            self.waiting[key] = count, wait_ms, future
            return await future
        self.messages[key] = found[count:]
        return found[:count]

    async def accept(self, queue: Queue, topic: str, found: list[Any], begun_s: float) -> None:
        self.room -= len(found)
        self.accepted += found

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - the condition has no event
                await asyncio.sleep(0)

    def arrive(self, key: tuple[str, str], *messages: Any) -> None:
        """Let messages come where a pop waits."""
        count, _, future = self.waiting.pop(key)
        future.set_result(list(messages[:count]))
        self.messages[key] = list(messages[count:])


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_one_place_has_one_pop_for_all_the_room() -> None:
    async def scenario() -> None:
        cluster = Cluster(["a"], room=5)
        cluster.fetcher.add(Queue("tag", ("T",)))
        await cluster.until(lambda: cluster.waiting)
        assert [(key, at[:2]) for key, at in cluster.waiting.items()] == [(("T", "a"), (5, LONG_POLL_MS))]
        cluster.arrive(("T", "a"), *range(7))
        await cluster.until(lambda: len(cluster.accepted) == 5)
        assert not cluster.waiting
        cluster.room = 2
        cluster.fetcher.look()
        await cluster.until(lambda: len(cluster.accepted) == 7)

    run(scenario)


def test_pops_wait_at_all_brokers_and_reserve_their_room() -> None:
    async def scenario() -> None:
        cluster = Cluster(["a", "b", "c"], room=2)
        cluster.fetcher.add(Queue("tag", ("T",)))
        await cluster.until(lambda: len(cluster.waiting) == 2)
        assert {at[:2] for at in cluster.waiting.values()} == {(1, cluster.options.poll_ms)}
        first, second = cluster.waiting
        cluster.arrive(first, "x")  # type: ignore[arg-type]
        await cluster.until(lambda: cluster.accepted == ["x"])
        cluster.fetcher.look()
        for _ in range(20):
            await asyncio.sleep(0)
        assert list(cluster.waiting) == [second], "its message has the room that is left"
        cluster.room = 10
        cluster.fetcher.look()
        await cluster.until(lambda: len(cluster.waiting) == 3)
        assert max(at[1] for at in cluster.waiting.values()) == LONG_POLL_MS

    run(scenario)


def test_urgent_topics_are_emptied_first() -> None:
    async def scenario() -> None:
        cluster = Cluster(["a"], room=3)
        cluster.messages = {("T", "a"): ["urgent"] * 4, ("T3", "a"): ["later"] * 2}
        cluster.fetcher.add(Queue("tag", ("T", "T3")))
        await cluster.until(lambda: len(cluster.accepted) == 3)
        cluster.room = 2
        cluster.fetcher.look()
        await cluster.until(lambda: len(cluster.accepted) == 5)
        assert cluster.accepted == ["urgent"] * 4 + ["later"]

    run(scenario)


def test_a_broker_that_is_away_rests_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "RETRY_PAUSE_S", 0.02)

    async def scenario() -> None:
        cluster = Cluster(["a", "b"], room=4)
        cluster.errors["a"] = UnreachableError("no connection")
        cluster.messages["T", "b"] = ["x"]
        cluster.fetcher.add(Queue("tag", ("T",)))
        await cluster.until(lambda: "x" in cluster.accepted)
        assert any("no connection" in str(line) for line in cluster.accepted)
        del cluster.errors["a"]
        cluster.messages["T", "a"] = ["y"]
        await cluster.until(lambda: "y" in cluster.accepted)
        assert not cluster.failures

    run(scenario)


def test_a_refusal_fails_the_consumer() -> None:
    async def scenario() -> None:
        cluster = Cluster(["a"], room=4)
        refused = cluster.errors["a"] = RefusedError(ResponseCode.NO_PERMISSION, "no SUB", "a:1")
        cluster.fetcher.add(Queue("tag", ("T",)))
        await cluster.until(lambda: cluster.failures)
        assert cluster.failures == [refused]

    run(scenario)


def test_a_close_waits_for_a_pop_that_is_under_way() -> None:
    async def scenario() -> None:
        cluster = Cluster(["a", "b"], room=4)
        cluster.fetcher.add(Queue("tag", ("T",)))
        await cluster.until(lambda: len(cluster.waiting) == 2)
        await cluster.fetcher.close(5)
        assert not cluster.fetcher.queues
        cluster.arrive(("T", "a"), "late")
        await cluster.until(lambda: cluster.accepted == ["late"])

    run(scenario)
