"""Plans belong to a session, and end with it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.console.app import Console, make_app
from pymq.console.audit import Audit
from pymq.console.changes.flow import Changes, Person
from pymq.console.changes.plan import Outcome, Plan
from pymq.console.people.sessions import Sessions
from pymq.console.web.origins import Origins
from pymq.errors import NotFoundError
from tests.console.asgi import request
from tests.console.pages.visits import FakeCluster, visit
from tests.console.test_app import World


class Changing(FakeCluster):
    """A cluster that plans what it is asked to."""

    async def change(self, question: Any) -> Any:
        return await question(None)


async def prepare(admin: Any) -> Plan:
    async def apply(admin: Any) -> Outcome:
        return Outcome([], {})

    return Plan("Move billing", "offset move", "group billing", [], {}, ("offset", "reset"), apply)


def test_a_session_with_many_plans_has_one_listener_and_its_end_forgets_them() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, 8082, ["prod"])
    changes = Changes(Audit(clock), clock)

    async def plan() -> str:
        return await changes.plan(person, visit(Changing({})), prepare)

    session, _ = sessions.open("ann", None, "127.0.0.1", "prod")
    person = Person(session, "prod", "127.0.0.1")
    numbers = [asyncio.run(plan()) for _ in range(5)]
    assert len(session.on_end) == 1
    assert changes.plan_page(person, numbers[0]).title == "Move billing"
    sessions.end(session)
    for number in numbers:
        with pytest.raises(NotFoundError):
            changes.plan_page(person, number)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_begins_no_session(site: str) -> None:
    world = World()
    shell = replace(world.shell, changes=Changes(Audit(world.clock), world.clock))
    app = make_app(Console(shell, {}), Origins.of_listener("127.0.0.1", 8082, "http"))
    for _ in range(3):
        answer = request(app, "/at/prod/new/topic", headers={"Sec-Fetch-Site": site})
        assert answer.status == 403 and answer.header("set-cookie") is None
    assert len(world.sessions) == 0
    for own in ({}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}):
        assert request(app, "/at/prod/new/topic", headers=own).status == 200
    assert len(world.sessions) == 3
