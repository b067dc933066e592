"""Takes all workers of a machine out of service for producers together, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from pymq.client.admin import Admin
from pymq.client.admin.permissions import Activity, BrokerView, ServerView
from pymq.errors import PartialError
from pymq.operations.broker.drain import Draining, Show, State


class Drainable(Protocol):
    """What can be drained: one broker, or a machine."""

    async def look(self) -> State: ...

    async def drain(self, show: Show, *, is_waited: bool, until_read: bool) -> State: ...

    async def undrain(self) -> State: ...


async def draining_of(admin: Admin, name: str, *, settle_s: float) -> Drainable:
    """Return a run for a broker, or for all workers of a machine of that name."""
    names = await admin.cluster.workers_of(name)
    if len(names) == 1:
        return Draining(admin, names[0], settle_s=settle_s)
    return MachineDraining(admin, name, names, settle_s=settle_s)


class MachineDraining:
    """One run for all workers. A topic that its other workers alone have counts as written nowhere else."""

    def __init__(self, admin: Admin, machine: str, workers: Sequence[str], *, settle_s: float) -> None:
        self._machine = machine
        self._runs = {name: Draining(admin, name, settle_s=settle_s, besides=workers) for name in workers}

    async def look(self) -> State:
        """Return the state of all workers together. Raises NotFoundError."""
        return together(self._machine, await asyncio.gather(*(run.look() for run in self._runs.values())))

    async def drain(self, show: Show, *, is_waited: bool, until_read: bool) -> State:
        """Drain all at once; ``show`` gets each worker's lines. Raises PartialError at the end."""

        def drain(name: str, run: Draining) -> Awaitable[State]:
            def show_with_name(text: str) -> None:
                show(f"{name}: {text}")

            return run.drain(show_with_name, is_waited=is_waited, until_read=until_read)

        return await self._each(drain)

    async def undrain(self) -> State:
        """Give all workers the permission back. Raises PartialError, NotFoundError."""
        return await self._each(lambda _, run: run.undrain())

    async def _each(self, work: Callable[[str, Draining], Awaitable[State]]) -> State:
        done = await asyncio.gather(*(work(*one) for one in self._runs.items()), return_exceptions=True)
        failed = [one for one in done if isinstance(one, BaseException)]
        for error in sorted(failed, key=lambda one: isinstance(one, PartialError)):
            raise error  # another error says more than that a part is done
        return together(self._machine, [one for one in done if isinstance(one, State)])


def together(machine: str, states: Sequence[State]) -> State:
    """Return the states of workers as one: sums, and topics that any of them has."""
    views = [state.view for state in states]
    servers = [_server(shown) for shown in zip(*(view.servers for view in views), strict=True)]
    addresses = ", ".join(view.address for view in views if view.address is not None)
    unread: dict[str, int] = {}
    for state in states:
        for group, count in state.activity.unread.items():
            unread[group] = unread.get(group, 0) + count
    written = [state.activity.written for state in states if state.activity.written is not None]
    problems = [f"{state.view.name}: {state.activity.problem}" for state in states if state.activity.problem]
    view = BrokerView(machine, views[0].cluster, addresses or None, servers)
    return State(view, Activity(sum(written) if written else None, unread, "; ".join(problems)))


def _server(shown: Sequence[ServerView]) -> ServerView:
    """Return what one name server shows of all workers."""
    problem = next((one.problem for one in shown if one.problem), "")
    if problem:
        return ServerView(shown[0].address, problem=problem)
    return ServerView(
        shown[0].address,
        frozenset().union(*(one.topics for one in shown)),
        frozenset().union(*(one.writable for one in shown)),
        frozenset().union(*(one.only_here for one in shown)),
    )
