"""Sessions begin, are found by their cookie alone, and end."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.console.people.sessions import (
    AGE_MAX_MS,
    IDLE_MAX_MS,
    SESSION_COUNT_MAX,
    SESSION_COUNT_OF_PERSON_MAX,
    FullError,
    Session,
    Sessions,
)
from pymq.security.credentials import Credentials


class World:
    """Sessions with a clock, and the cookies that browsers would send."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sessions = Sessions(self.clock, 8082, ["prod", "test"])

    def open(self, name: str = "reader") -> tuple[Session, list[bytes]]:
        session, cookie = self.sessions.open(name, Credentials(name, "a secret key"), "10.0.0.1", "prod")
        return session, [self.sessions.set_cookie("prod", cookie).partition(";")[0].encode()]

    def find(self, cookies: list[bytes]) -> Session | None:
        return self.sessions.find(cookies, "prod")


def test_a_session_is_found_by_its_cookie_alone() -> None:
    world = World()
    session, cookies = world.open()
    other, _ = world.open("other")
    assert world.find(cookies) is session
    assert world.find([b"theme=dark", *cookies, b"a=b"]) is session
    assert session.token != other.token and session.key != other.key
    name, _, value = cookies[0].partition(b"=")
    for wrong in ([], [b""], [name + b"="], [cookies[0][:-1]], [b"__Host-pymq-8083-0=" + value]):
        assert world.find(wrong) is None
    assert world.find([name + b"=" + session.key.encode()]) is None  # what the console keeps


def test_a_session_is_of_one_context() -> None:
    world = World()
    _, cookies = world.open()
    value = cookies[0].partition(b"=")[2]
    assert world.sessions.find(cookies, "test") is None
    assert world.sessions.find([b"__Host-pymq-8082-1=" + value], "test") is None
    assert world.sessions.find(cookies, "another") is None


@pytest.mark.parametrize("cookie", [b"\xff=\xff", b"a=b; " * 3000, b";;;", b"a[]=b", b'x="'])
def test_cookies_that_cannot_be_read_are_nobodys(cookie: bytes) -> None:
    world = World()
    world.open()
    assert world.find([cookie]) is None


def test_nothing_shows_a_secret() -> None:
    session, cookies = World().open()
    shown = repr(session)
    assert "a secret key" not in shown and session.token not in shown
    assert cookies[0].split(b"=", 1)[1].decode() not in shown


def test_only_the_token_of_a_session_is_its_token() -> None:
    world = World()
    session, other = world.open()[0], world.open()[0]
    assert session.has_token(session.token)
    for wrong in ("", other.token, session.token[:-1], session.token + "x", "\ud800", "ä"):
        assert not session.has_token(wrong)


def test_an_idle_session_ends_and_one_in_use_stays_until_it_is_old() -> None:
    world = World()
    _, idle = world.open()
    session, used = world.open()
    step_ms = IDLE_MAX_MS - 1
    spent_ms = 0
    while spent_ms + step_ms < AGE_MAX_MS:
        world.clock.advance(step_ms)
        spent_ms += step_ms
        assert world.find(used) is session
    assert world.find(idle) is None
    world.clock.advance(AGE_MAX_MS - spent_ms)
    assert world.find(used) is None


def test_an_end_is_told_once() -> None:
    world = World()
    session, cookies = world.open()
    told: list[str] = []
    session.on_end["a test"] = lambda: told.append("ended")
    world.sessions.end(session)
    world.sessions.end(session)
    assert told == ["ended"]
    assert world.find(cookies) is None


def test_a_person_has_so_many_sessions_and_the_longest_unused_one_ends() -> None:
    world = World()
    opened = []
    for _ in range(SESSION_COUNT_OF_PERSON_MAX):
        opened.append(world.open()[1])
        world.clock.advance(1)
    assert all(world.find(cookies) for cookies in opened)
    world.clock.advance(1)
    world.find(opened[0])
    world.open()
    assert [world.find(cookies) is not None for cookies in opened] == [True, False, *[True] * 18]


def test_there_are_so_many_sessions_and_old_ones_make_room() -> None:
    world = World()
    for number in range(SESSION_COUNT_MAX):
        world.open(f"person-{number}")
    with pytest.raises(FullError, match="1,000 sessions are open"):
        world.open("one more")
    world.clock.advance(IDLE_MAX_MS)
    world.open("one more")
    assert len(world.sessions) == 1


def test_the_cookie_stays_in_this_browser_and_out_of_scripts() -> None:
    header = World().sessions.set_cookie("test", "value")
    assert header == "__Host-pymq-8082-1=value; Path=/; Secure; HttpOnly; SameSite=Strict"
    assert "Max-Age=0" in World().sessions.clear_cookie("test")
