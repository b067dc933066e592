"""The faults of one round, drawn from a seed: one of a process or a role, and one of a link."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.chaos.group import Broker, Group
from tests.chaos.proxy import KINDS, Fault, Link

KILL_MASTER, KILL_SLAVE = "kill -9 of the master", "kill -9 of a slave"
STOP_MASTER, STOP_SLAVE = "SIGSTOP of the master", "SIGSTOP of a slave"
RESTART_MASTER, RESTART_SLAVE = "restart of the master", "restart of a slave"
KILL_ALL, KILL_NAMESRV = "kill -9 of all brokers", "kill -9 of the name server"
FAIL_OVER, HAND_OVER = "kill -9 of the master, a slave promoted", "a slave promoted beside its master"
KILL_TWO = "kill -9 of the master and a slave"
RESTART_BESIDE = "restart of the master beside a slave under SIGSTOP"
TAKE_OVER = "SIGSTOP of the master, a slave promoted"
PROMOTING = (FAIL_OVER, HAND_OVER, TAKE_OVER)
EVENTS: Final = (
    KILL_MASTER,
    FAIL_OVER,
    STOP_SLAVE,
    HAND_OVER,
    KILL_SLAVE,
    STOP_MASTER,
    RESTART_SLAVE,
    RESTART_MASTER,
    TAKE_OVER,
    KILL_ALL,
    KILL_NAMESRV,
    KILL_TWO,
    RESTART_BESIDE,
)
STOPPED_S_MIN = 1.0
DOWN_S_MAX = 2.0
LINK_FAULT_S = (0.5, 3.0)
PROMOTIONS_MAX = 3


class Plan(NamedTuple):
    """One round's faults. ``link_index``: the master's port for requests or for the log; ``victim``: which slave."""

    event: str
    link_kind: str
    link_index: int
    link_fault_s: float
    stopped_s: float
    down_s: float
    victim: int


def plans(seed: int, count: int, stopped_s_max: float, events: Sequence[str] = EVENTS) -> list[Plan]:
    """Return rounds in which each event and each kind of fault comes before one comes again."""
    rng = random.Random(seed)
    drawn, kinds = _deck(rng, events, count), _deck(rng, KINDS, count)
    return [
        Plan(
            event,
            kind,
            rng.randrange(2),
            rng.uniform(*LINK_FAULT_S),
            rng.uniform(STOPPED_S_MIN, stopped_s_max),
            rng.uniform(0, DOWN_S_MAX),
            rng.randrange(2),
        )
        for event, kind in zip(drawn, kinds, strict=True)
    ]


def _deck(rng: random.Random, cards: Sequence[str], count: int) -> list[str]:
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += rng.sample(cards, len(cards))
    return drawn[:count]


class Harm:
    """Applies plans to a group, and counts the faults that took effect, by kind."""

    def __init__(self, group: Group, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._group = group
        self._rng = rng

    async def do(self, plan: Plan, master: Broker) -> None:
        """Harm the link first, and the process as soon as bytes have met that. The group must heal by itself."""
        slaves = [broker for broker in self._group.brokers if broker is not master]
        link, fault = self._link(plan, master), Fault(plan.link_kind, self._rng)
        link.harm(fault)
        harmed = asyncio.ensure_future(self._heal_later(plan, link, fault))
        felt = asyncio.ensure_future(fault.felt.wait())
        await asyncio.wait((felt, harmed), return_when=asyncio.FIRST_COMPLETED)
        felt.cancel()
        await asyncio.gather(harmed, self._to_process(plan, master, slaves[plan.victim]))

    def _link(self, plan: Plan, master: Broker) -> Link:
        """Return the link to harm. A promotion must reach all slaves, so it leaves the link of requests alone."""
        if plan.event in PROMOTING:
            return master.ha
        return (master.remoting, master.ha)[plan.link_index]

    async def _heal_later(self, plan: Plan, link: Link, fault: Fault) -> None:
        await asyncio.sleep(plan.link_fault_s)
        link.heal()
        self.counts[f"link: {fault.kind}"] += fault.felt.is_set()

    async def _to_process(self, plan: Plan, master: Broker, slave: Broker) -> None:
        if plan.event in (KILL_MASTER, KILL_SLAVE):
            await self._kill(master if plan.event == KILL_MASTER else slave, plan.down_s)
        elif plan.event in (STOP_MASTER, STOP_SLAVE):
            await self._stop(master if plan.event == STOP_MASTER else slave, plan.stopped_s)
        elif plan.event in (RESTART_MASTER, RESTART_SLAVE):
            await self._group.restart(master if plan.event == RESTART_MASTER else slave)
        elif plan.event == FAIL_OVER:
            await self._fail_over(master)
        elif plan.event == TAKE_OVER:
            await self._take_over(master)
        elif plan.event == KILL_ALL:
            await asyncio.gather(*[self._kill(broker, plan.down_s) for broker in self._group.brokers])
        elif plan.event == KILL_TWO:
            await asyncio.gather(self._kill(master, plan.down_s), self._kill(slave, 0))
        elif plan.event == RESTART_BESIDE:
            await asyncio.gather(self._stop(slave, plan.stopped_s), self._group.restart(master))
        elif plan.event == KILL_NAMESRV:
            await self._group.kill_name_server(plan.down_s)
        else:
            await self._hand_over()
        self.counts[plan.event] += 1

    async def _kill(self, broker: Broker, down_s: float) -> None:
        await asyncio.to_thread(broker.kill)
        _check_killed(broker)
        await asyncio.sleep(down_s)
        broker.launch()

    async def _stop(self, broker: Broker, stopped_s: float) -> None:
        broker.signal(signal.SIGSTOP)
        await asyncio.sleep(stopped_s)
        broker.signal(signal.SIGCONT)

    async def _fail_over(self, master: Broker) -> None:
        await asyncio.to_thread(master.kill)
        _check_killed(master)
        problem = await self._group.promote(force=True)
        assert not problem, f"no slave could be promoted: {problem}"
        master.launch()

    async def _take_over(self, master: Broker) -> None:
        """Promote a slave beside a stopped master. The old master wakes up alone, and must notice the new one."""
        master.signal(signal.SIGSTOP)
        problem = await self._group.promote(force=True)
        assert not problem, f"no slave could be promoted: {problem}"
        await self._group.healed(without=master)
        master.signal(signal.SIGCONT)

    async def _hand_over(self) -> None:
        """Promote a slave beside its master.

        A harmed link may cause refusals. The master then goes on, and a retry succeeds.
        """
        for _ in range(PROMOTIONS_MAX):
            problem = await self._group.promote(force=False)
            if not problem:
                return
            self.counts["promotions refused"] += 1
            await self._group.healed()
        raise AssertionError(f"no slave could be promoted beside its master: {problem}")


def _check_killed(broker: Broker) -> None:
    assert broker.server.process.returncode == -signal.SIGKILL, f"it had ended before:\n{broker.log_tail()}"
