"""Log-in: the cluster decides, failures look alike, and too many must wait."""

from __future__ import annotations

import asyncio

import pytest

from pymq.clock import ManualClock
from pymq.console.people.log_in import FAILURE_MS, FREE_FAILURES, FREE_FAILURES_OF_ADDRESS, LogInError, LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.people.waits import FIRST_WAIT_MS
from pymq.errors import UnreachableError
from pymq.operations.auth.proof import Proof
from pymq.security.credentials import Credentials

ADDRESS = "10.0.0.9"


class World:
    """A console with one context, whose cluster takes one secret."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sessions = Sessions(self.clock, 8082, ["prod"])
        self.log_ins = LogIns(self.sessions, self.prove, self.clock, self.sleep)
        self.asked: list[str] = []
        self.takes_ms = 0
        self.error: Exception | None = None
        self.checks = True
        self.slept_ms: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_ms.append(seconds * 1000)

    async def prove(self, context: str, credentials: Credentials) -> Proof:
        assert context == "prod"
        self.asked.append(credentials.access_key)
        self.clock.advance(self.takes_ms)
        if self.error is not None:
            raise self.error
        if not self.checks:
            return Proof.unchecked
        return Proof.proven if credentials.reveal() == "right" else Proof.unproven

    def log_in(self, name: str, secret: str, address: str = ADDRESS) -> tuple[Session, str]:
        return asyncio.run(self.log_ins.log_in("prod", name, secret, address))

    def fails(self, name: str, secret: str, address: str = ADDRESS) -> str:
        with pytest.raises(LogInError) as raised:
            self.log_in(name, secret, address)
        return str(raised.value)


@pytest.fixture
def world() -> World:
    return World()


def test_a_proven_person_has_a_session_that_signs(world: World) -> None:
    session, cookie = world.log_in("reader", "right")
    assert (session.name, session.context, session.address) == ("reader", "prod", ADDRESS)
    assert session.credentials is not None and session.credentials.reveal() == "right"
    header = world.sessions.set_cookie("prod", cookie).partition(";")[0].encode()
    assert world.sessions.find([header], "prod") is session


def test_failures_look_alike_and_take_the_same_time(world: World) -> None:
    texts = {world.fails("reader", "wrong"), world.fails("ghost", "wrong"), world.fails("", "wrong")}
    world.takes_ms = 300
    texts.add(world.fails("reader", "other"))
    assert len(texts) == 1
    assert world.slept_ms == [FAILURE_MS, FAILURE_MS, FAILURE_MS, FAILURE_MS - 300]
    assert not len(world.sessions)


def test_who_fails_too_often_waits_without_a_question_to_the_cluster(world: World) -> None:
    text = {world.fails("reader", "wrong") for _ in range(FREE_FAILURES)}
    assert len(world.asked) == FREE_FAILURES
    assert {world.fails("reader", "right")} == text
    assert len(world.asked) == FREE_FAILURES
    world.log_in("other", "right")
    world.log_in("reader", "right", "10.0.0.10")
    world.clock.advance(FIRST_WAIT_MS)
    world.log_in("reader", "right")


def test_an_address_that_tries_many_names_waits_too(world: World) -> None:
    for number in range(FREE_FAILURES_OF_ADDRESS):
        world.fails(f"name-{number}", "guess")
    asked = len(world.asked)
    world.fails("reader", "right")
    assert len(world.asked) == asked
    world.log_in("reader", "right", "10.0.0.10")


def test_a_cluster_without_users_has_no_log_in(world: World) -> None:
    world.checks = False
    assert "checks no users" in world.fails("reader", "right")
    assert not world.slept_ms


def test_a_cluster_that_is_away_is_said_and_counts_for_nobody(world: World) -> None:
    world.error = UnreachableError("away")
    for _ in range(2 * FREE_FAILURES):
        with pytest.raises(UnreachableError, match="away"):
            world.log_in("reader", "right")
    world.error = None
    world.log_in("reader", "right")
