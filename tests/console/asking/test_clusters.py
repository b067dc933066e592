"""One client for each person and context, closed when it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.console.asking.clusters import COUNT_MAX, IDLE_MAX_MS, BusyError, Clusters
from pymq.console.people.sessions import Session, Sessions
from pymq.errors import NotFoundError
from pymq.security.credentials import Credentials
from tests.console.asking.test_cluster import FakeAdmin


class World:
    """Clusters of two contexts, with the clients that were made."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sessions = Sessions(self.clock, 8082, ["prod", "test"])
        self.made: list[tuple[str, Session | None, FakeAdmin]] = []
        self.clusters = Clusters({"prod": "10.0.0.1:9876", "test": "10.0.0.2:9876"}, self.make, self.clock)

    def make(self, context: str, session: Session | None) -> Any:
        self.made.append((context, session, FakeAdmin()))
        return self.made[-1][2]

    def person(self, name: str) -> Session:
        return self.sessions.open(name, Credentials(name, "secret"), "10.0.0.9", "prod")[0]

    async def turn(self) -> list[bool]:
        """Return which clients are closed."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return [admin.closed for _, _, admin in self.made]


def run(work: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await work(World())

    asyncio.run(main())


def test_each_person_has_a_client_of_their_own_for_each_context() -> None:
    async def work(world: World) -> None:
        ann, bob = world.person("ann"), world.person("bob")
        clusters = [world.clusters.get(context, who) for context in ("prod", "test") for who in (ann, bob, None)]
        assert len(set(map(id, clusters))) == 6
        assert world.clusters.get("prod", ann) is clusters[0]
        assert [(context, who and who.name) for context, who, _ in world.made[:3]] == [
            ("prod", "ann"),
            ("prod", "bob"),
            ("prod", None),
        ]

    run(work)


def test_an_unknown_context_is_refused() -> None:
    async def work(world: World) -> None:
        with pytest.raises(NotFoundError, match="prod, test"):
            world.clusters.get("10.0.0.66:9876", None)
        assert not world.made

    run(work)


def test_the_end_of_a_session_closes_its_clients() -> None:
    async def work(world: World) -> None:
        ann = world.person("ann")
        world.clusters.get("prod", ann), world.clusters.get("test", ann), world.clusters.get("prod", None)
        world.sessions.end(ann)
        assert await world.turn() == [True, True, False]

    run(work)


def test_a_session_that_comes_back_again_and_again_keeps_one_listener() -> None:
    async def work(world: World) -> None:
        ann = world.person("ann")
        for _ in range(5):
            world.clusters.get("prod", ann)
            world.clock.advance(IDLE_MAX_MS)
            world.clusters.close_idle()
        assert len(world.made) == 5 and len(ann.on_end) == 1
        await world.turn()

    run(work)


def test_idle_clients_are_closed_and_asking_ones_are_not() -> None:
    async def work(world: World) -> None:
        asking, idle = world.clusters.get("prod", None), world.clusters.get("test", None)
        answer = asyncio.Event()
        question = asyncio.ensure_future(asking.ask("slow", lambda admin: answer.wait()))
        await asyncio.sleep(0)
        world.clock.advance(IDLE_MAX_MS - 1)
        world.clusters.close_idle()
        assert await world.turn() == [False, False]
        world.clock.advance(1)
        world.clusters.close_idle()
        assert await world.turn() == [False, True]
        assert world.clusters.get("test", None) is not idle
        answer.set()
        await question

    run(work)


def test_the_longest_unused_client_makes_room() -> None:
    async def work(world: World) -> None:
        people = [world.person(f"person-{number}") for number in range(COUNT_MAX + 1)]
        for person in people[:-1]:
            world.clusters.get("prod", person)
            world.clock.advance(1)
        world.clusters.get("prod", people[-1])
        assert len(world.clusters) == COUNT_MAX
        assert [number for number, closed in enumerate(await world.turn()) if closed] == [0]

    run(work)


def test_nobody_is_sent_away_from_a_question() -> None:
    async def work(world: World) -> None:
        answer = asyncio.Event()
        questions = []
        for number in range(COUNT_MAX):
            cluster = world.clusters.get("prod", world.person(f"person-{number}"))
            questions.append(asyncio.ensure_future(cluster.ask("slow", lambda admin: answer.wait())))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="200 persons are asking"):
            world.clusters.get("prod", None)
        answer.set()
        await asyncio.gather(*questions)

    run(work)


def test_all_are_closed_at_the_end() -> None:
    async def work(world: World) -> None:
        world.clusters.get("prod", None)
        await world.clusters.close()
        assert await world.turn() == [True]
        assert not len(world.clusters)

    run(work)
