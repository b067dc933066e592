"""Changes the queue numbers of a topic in the order that loses nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.draining import Draining, Mode
from pymq.errors import UnsafeError, UsageError
from pymq.units import format_count

LOOK_S = 1.0
# Producers ask for a topic's route every 30 s; until then they may send to a queue that is not written any more.
SETTLE_S = 35.0

SETTLING_COUNT_MAX = 256  # topics that a process watches at once

Show = Callable[[Draining], None]


class Settling:
    """Knows for how long nothing came to the upper queues of topics. It looks at states, and asks nobody."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._quiet: dict[Hashable, tuple[Draining, float]] = {}  # the oldest first

    def quiet_s(self, key: Hashable, state: Draining) -> float:
        """Note a state, and return how many seconds its upper queues have been neither written nor writable.

        ``key``: what the state is of. The count begins with the first state that is noted.
        """
        now_s = self._now_s()
        before = self._quiet.pop(key, None)
        since_s = now_s
        if before is not None and not state.written and not before[0].written and before[0].ends == state.ends:
            since_s = before[1]
        self._quiet[key] = state, since_s
        while len(self._quiet) > SETTLING_COUNT_MAX:
            del self._quiet[next(iter(self._quiet))]
        return now_s - since_s


class Shrinking:
    """One run of ``shrink``. What it finds done already, by an earlier run or by hand, it does not do again."""

    def __init__(
        self, admin: Admin, topic: str, to: int, brokers: Sequence[str], *, without: Sequence[str], settle_s: float
    ) -> None:
        """``brokers``: names, none for all of the topic. ``without``: groups that are not waited for."""
        self._admin = admin
        self._topic = topic
        self._to = to
        self._brokers = list(brokers)
        self._without = without
        self._settle_s = settle_s

    async def look(self) -> Draining:
        """Return the state now. Raises UsageError when no broker has more queues than wanted."""
        targets = await self._admin.cluster.select([], self._brokers) if self._brokers else None
        return await self._admin.draining.look(self._topic, self._to, targets)

    async def check(self) -> Draining:
        """Return the state before the first step. Raises UsageError when there is nothing to shrink."""
        state = await self.look()
        if not state.written and not state.read:
            most = max((config.queue_count for _, config in state.brokers), default=0)
            raise UsageError(
                f"{self._topic} has {format_count(most, 'queue')} on a broker at most: pymq topic expand "
                f"{self._topic} --to {self._to} "
                "makes more"
                if most < self._to
                else f"{self._topic} has {format_count(self._to, 'queue')} already: there is nothing to do"
            )
        return state

    async def run(self, show: Show, *, is_forced: bool) -> Draining:
        """Take all steps; ``show`` gets each state that differs from the one before. Return the last state."""
        state = await self.look()
        if state.written:
            await self._admin.topics.update(self._topic, state.written, write_queues=self._to)
        if not is_forced:
            await self._wait(show)
        state = await self.look()
        if state.read:
            await self._admin.topics.update(self._topic, state.read, read_queues=self._to)
        return await self.look()

    async def _wait(self, show: Show) -> None:
        """Wait until every group has read the upper queues, and no message came to them for the time to settle."""
        before: Draining | None = None
        settling = Settling()
        while True:
            state = await self.look()
            quiet_s = settling.quiet_s(self._topic, state)
            if state != before:
                show(state)
            before = state
            if not state.awaited(self._without) and quiet_s >= self._settle_s:
                return
            await asyncio.sleep(min(LOOK_S, self._settle_s or LOOK_S))


def plan_record(state: Draining, without: Sequence[str]) -> dict[str, Any]:
    """Return a state for output."""
    return {
        "topic": state.topic,
        "to": state.to,
        "brokers": [
            {
                "broker": target.name,
                "address": target.address,
                "read_queues": config.read_queue_nums,
                "write_queues": config.write_queue_nums,
                "next": _next_step(config.read_queue_nums, config.write_queue_nums, state.to),
            }
            for target, config in state.brokers
        ],
        "messages": state.message_count,
        "groups": [
            {
                "group": left.group,
                "mode": str(left.mode),
                "unread": left.unread if left.is_awaited else None,
                "waits": bool(left.unread) and left.is_awaited and left.group not in without,
            }
            for left in state.groups
        ],
    }


def _next_step(read: int, write: int, to: int) -> str:
    if write > to:
        return f"write {to}"
    return f"read {to} when drained" if read > to else "-"


def waiting_text(state: Draining, without: Sequence[str]) -> str:
    """Return one line that says what a shrink waits for."""
    awaited = state.awaited(without)
    if not awaited:
        return "every group has read the upper queues: waiting until producers know the new number of queues"
    parts = [f"{left.group} {left.unread:,}{' (offline)' if left.mode is Mode.OFFLINE else ''}" for left in awaited]
    return f"unread in queues {state.to} and above: {', '.join(parts)}"


async def refuse_hiding(admin: Admin, topic: str, targets: Sequence[BrokerTarget], to: int) -> None:
    """Check that ``to`` read queues hide nothing that a group has not read. Raises UnsafeError."""
    state = await admin.draining.look(topic, to, targets)
    awaited = state.awaited()
    if awaited:
        parts = ", ".join(f"{left.group} {left.unread:,}" for left in awaited)
        raise UnsafeError(
            f"{to} read queues would hide messages that groups have not read: {parts}: pymq topic shrink {topic} --to "
            f"{to} waits for them, --force hides them"
        )


async def expand(
    admin: Admin, topic: str, to: int, brokers: Sequence[str], *, is_dry: bool = False
) -> list[dict[str, Any]]:
    """Raise read queues, then write queues, so that every queue is read before it is written. Raises UsageError.

    With ``is_dry`` it changes nothing.
    """
    targets = await admin.cluster.select([], list(brokers)) if brokers else await admin.topics.targets(topic)
    before = {target.name: config for target, config in await admin.draining.configs(topic, targets)}
    more = [(target, before[target.name]) for target in targets if before[target.name].queue_count > to]
    if more:
        target, config = more[0]
        raise UsageError(
            f"{topic} has {format_count(config.queue_count, 'queue')} on {target.name}, more than {to}: pymq topic "
            f"shrink {topic} --to "
            f"{to} makes fewer"
        )
    await admin.topics.update(topic, targets, read_queues=to, is_dry=is_dry)
    changed = await admin.topics.update(
        topic, targets, write_queues=to, read_queues=to if is_dry else None, is_dry=is_dry
    )
    return [
        {
            "broker": target.name,
            "address": target.address,
            "read_queues": after.read_queue_nums,
            "write_queues": after.write_queue_nums,
            "before": f"{before[target.name].read_queue_nums}/{before[target.name].write_queue_nums}",
        }
        for target, _, after in changed
    ]
