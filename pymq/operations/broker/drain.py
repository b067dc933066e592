"""Takes a broker out of service for producers, and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from pymq.client.admin import Admin
from pymq.client.admin.permissions import Activity, BrokerView
from pymq.errors import PartialError, UnreachableError, UnsafeError
from pymq.units import format_count

LOOK_S = 1.0
ROUTES_LOOK_S = 10.0  # a look at every topic's route costs a request each
# Producers ask for a topic's route every 30 s; until then they may send to a broker that is not written any more.
SETTLE_S = 35.0
NAMED_TOPICS_MAX = 5

Show = Callable[[str], None]


@dataclass(frozen=True)
class State:
    """A broker as its name servers show it, and what it does."""

    view: BrokerView
    activity: Activity = field(default_factory=Activity)


def only_here_text(state: State) -> str:
    """Return a sentence about the topics that are written on no other broker."""
    topics = sorted(state.view.only_here)
    more = f" and {len(topics) - NAMED_TOPICS_MAX} more" if len(topics) > NAMED_TOPICS_MAX else ""
    return f"no other broker is written for {', '.join(topics[:NAMED_TOPICS_MAX])}{more}: sends to them would fail"


def check(state: State, *, is_forced: bool) -> None:
    """Check that each topic can be written elsewhere. Raises UnsafeError, UnreachableError without a name server."""
    if all(server.problem for server in state.view.servers):
        raise UnreachableError(state.view.servers[0].problem)
    if state.view.only_here and not is_forced:
        raise UnsafeError(f"{only_here_text(state)}: pymq topic create makes them elsewhere, --force drains anyway")


class Draining:
    """One run. What an earlier run has done already, it finds so."""

    def __init__(self, admin: Admin, name: str, *, settle_s: float, besides: Collection[str] = ()) -> None:
        """``besides``: brokers that are drained with it, so that what they alone have is written nowhere else."""
        self._admin = admin
        self._besides = besides
        self._name = name
        self._settle_s = settle_s
        self._partial: PartialError | None = None

    async def look(self) -> State:
        """Return the state now. Raises NotFoundError."""
        view = await self._admin.permissions.look(self._name, self._besides)
        if view.address is None:
            return State(view, Activity(problem=f"broker {self._name} has no master now"))
        return State(view, await self._admin.permissions.activity(view.address))

    async def drain(self, show: Show, *, is_waited: bool, until_read: bool) -> State:
        """Take the permission and wait; ``show`` gets a line for each change. Return the last state.

        Raises PartialError at the end when a name server was away or refused.
        """
        await self._wipe()
        if is_waited:
            await self._wait(show, until_read=until_read)
        state = await self.look()
        if self._partial is not None:
            raise self._partial
        return state

    async def _wipe(self) -> None:
        try:
            await self._admin.namesrv.wipe_write_permission(self._name)
            self._partial = None
        except PartialError as error:
            self._partial = error

    async def _wait(self, show: Show, *, until_read: bool) -> None:
        """Wait until the broker stores nothing for the time to settle.

        A broker whose topics change, or a name server that starts, brings the permission back: it is taken again.
        """
        state, shown, written = await self.look(), "", None
        quiet_since_s = looked_s = time.monotonic()
        while True:
            now_s = time.monotonic()
            activity = state.activity
            if activity.written != written:
                quiet_since_s, written = now_s, activity.written
            if now_s - looked_s >= ROUTES_LOOK_S:
                state, looked_s = await self.look(), now_s
            if state.view.writable:
                show(f"{len(state.view.writable)} topics are writable again at a name server: taken again")
                await self._wipe()
                state, quiet_since_s = await self.look(), now_s
            quiet_s = now_s - quiet_since_s
            text = waiting_text(activity, quiet_s, self._settle_s)
            if text != shown:
                show(text)
                shown = text
            is_read = not (until_read and activity.unread)
            if activity.problem or (quiet_s >= self._settle_s and is_read):
                return
            await asyncio.sleep(min(LOOK_S, self._settle_s or LOOK_S))
            assert state.view.address is not None
            state = State(state.view, await self._admin.permissions.activity(state.view.address))

    async def undrain(self) -> State:
        """Give the permission back and return the state then. Raises PartialError, NotFoundError."""
        partial: PartialError | None = None
        before = await self.look()
        try:
            await self._admin.namesrv.add_write_permission(self._name)
        except PartialError as error:
            partial = error
        if before.view.address is not None and not before.activity.problem:
            kept = await self._admin.permissions.read_only(before.view.address)
            await self._admin.permissions.announce(before.view.address, kept)
        if partial is not None:
            raise partial
        return await self.look()


def waiting_text(activity: Activity, quiet_s: float, settle_s: float) -> str:
    """Return one line that says what a drain waits for."""
    if activity.problem:
        return f"the broker does not answer, so nothing is written: {activity.problem}"
    count = sum(activity.unread.values())
    unread = f"{count:,} unread in {format_count(len(activity.unread), 'group')}" if count else "all is read"
    if quiet_s < min(2 * LOOK_S, settle_s):
        return f"{activity.written or 0:,} messages written since the broker's start, the last just now; {unread}"
    return f"nothing written lately; waiting until every producer has asked for routes; {unread}"


def record(state: State) -> dict[str, Any]:
    """Return a state for output."""
    view, activity = state.view, state.activity
    return {
        "broker": view.name,
        "cluster": view.cluster,
        "address": view.address,
        "topics": len(view.topics),
        "writable": len(view.writable),
        "only_here": sorted(view.only_here),
        "servers": [
            {
                "address": server.address,
                "topics": None if server.problem else len(server.topics),
                "writable": None if server.problem else len(server.writable),
                "problem": server.problem or None,
            }
            for server in view.servers
        ],
        "written": activity.written,
        "groups": [{"group": group, "unread": count} for group, count in sorted(activity.unread.items())],
        "problem": activity.problem or None,
    }
