"""A machine's workers as one broker for those who drain it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client.admin.permissions import Activity, BrokerView, ServerView
from pymq.errors import NotFoundError, PartialError, UnreachableError
from pymq.operations.broker.drain import State
from pymq.operations.broker.machine_drain import MachineDraining, together


def state(number: int, *topics: str, unread: int = 0, problem: str = "", server: str = "") -> State:
    view = ServerView("ns:1", frozenset(topics), frozenset(topics[:1]), frozenset(topics[:1]), server)
    made = BrokerView(f"m-{number}", "c", f"h:{number}", [view])
    return State(made, Activity(5, {"g": unread} if unread else {}, problem))


def test_the_states_of_workers_are_added_up() -> None:
    found = together("m", [state(0, "a", "b", unread=2), state(1, "c", unread=3, problem="gone")])
    assert (found.view.name, found.view.address) == ("m", "h:0, h:1")
    assert found.view.topics == {"a", "b", "c"} and found.view.writable == found.view.only_here == {"a", "c"}
    assert found.activity == Activity(10, {"g": 5}, "m-1: gone")
    broken = together("m", [state(0, "a"), state(1, server="no answer")])
    assert broken.view.servers[0].problem == "no answer" and not broken.view.topics


class Run:
    def __init__(self, outcome: State | Exception) -> None:
        self._outcome = outcome

    async def drain(self, show: Any, *, is_waited: bool, until_read: bool) -> State:
        show("waits")
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def drained(*outcomes: State | Exception) -> tuple[State, list[str]]:
    shown: list[str] = []
    machine = MachineDraining(None, "m", [], settle_s=0)  # type: ignore[arg-type]
    machine._runs = {f"m-{number}": Run(outcome) for number, outcome in enumerate(outcomes)}
    return asyncio.run(machine.drain(shown.append, is_waited=True, until_read=False)), shown


def test_all_are_drained_and_each_says_what_it_waits_for() -> None:
    found, shown = drained(state(0, "a"), state(1, "b"))
    assert found.view.topics == {"a", "b"} and sorted(shown) == ["m-0: waits", "m-1: waits"]


def test_an_error_is_raised_once_all_are_through_and_the_gravest_first() -> None:
    partial = PartialError(["ns:1"], {"ns:2": UnreachableError("gone")})
    with pytest.raises(PartialError):
        drained(state(0), partial)
    with pytest.raises(NotFoundError):
        drained(partial, NotFoundError("no broker m-1"))
