"""Three groups consume one topic while their members join, leave and are killed: in order, at once, and by pop."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pymq.client import Admin, Message, MessageQueue, Producer
from pymq.model.tables import TopicConfig
from tests.client.scenarios import until
from tests.soak.ledger import Ledger
from tests.soak.members import PULL_COUNT_MAX, Member, PopMember, PushMember

# What a change may have handled twice in a queue: the messages of a cache, those of the pull behind it, and those that
# were done since the last pull that carried an offset.
DOUBLES_PER_CHANGE_AND_QUEUE = 3 * PULL_COUNT_MAX
LOCK_LIFE_S = 60.0  # a killed member's locks: its queues wait so long
DRAIN_S = 60.0
SEND_PAUSE_S = 0.1
SEND_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """``seconds`` of load on ``queues`` queues, with up to ``members`` members, of which one changes every ``pause_s``.

    ``kills_in_order``: orderly members are killed too; their queues then wait for a minute. ``invisible_ms``: of pops.
    """

    seconds: float
    members: int
    queues: int
    pause_s: float
    seed: int
    kills_in_order: bool = True
    invisible_ms: int = 5_000


@dataclass(slots=True)
class SoakResult:
    """What was sent and what each group handled."""

    sent: int
    ledgers: list[Ledger]
    missing: dict[str, int]
    too_many_doubles: list[str]

    @property
    def faults(self) -> list[str]:
        """All that must not have happened, one line each."""
        lines = [f"{name}: {count} messages were never handled" for name, count in self.missing.items() if count]
        lines += self.too_many_doubles
        return lines + [f"{one.name}: {fault}" for one in self.ledgers for fault in one.faults]

    def lines(self) -> list[str]:
        """The figures, one line for each group."""
        return [
            f"{one.name}: {len(one.handled)} of {self.sent} messages, {one.doubles} doubles, {one.changes} changes"
            for one in self.ledgers
        ]


class GroupSoak:
    """One run against the cluster of ``namesrv``."""

    def __init__(self, namesrv: str, plan: SoakPlan) -> None:
        self._namesrv = namesrv
        self._plan = plan
        self._rng = random.Random(plan.seed)
        self._topic = f"soak_{self._rng.getrandbits(32):x}"
        names = [f"{kind}_{self._topic}" for kind in ("ordered", "push", "pop")]
        self._ledgers = [Ledger(name, in_order=name.startswith("ordered")) for name in names]
        self._members: dict[str, list[Member]] = {name: [] for name in names}
        self._sent: list[int] = [0] * plan.queues  # by queue
        self._made = 0

    async def run(self) -> SoakResult:
        """Sends and changes members for the plan's time, then waits until all is consumed."""
        await self._make_topic()
        try:
            for ledger in self._ledgers:
                await self._join(ledger)
            sending = asyncio.ensure_future(self._send(time.monotonic() + self._plan.seconds))
            while not sending.done():
                await asyncio.wait([sending], timeout=self._plan.pause_s)
                await self._change()
            await sending
            await self._drain()
        finally:
            members = [one for some in self._members.values() for one in some]
            await asyncio.gather(*[one.leave() for one in members], return_exceptions=True)
        return self._result()

    async def _make_topic(self) -> None:
        count = self._plan.queues
        async with Admin(self._namesrv) as admin:
            for master in await admin.cluster.masters():
                config = TopicConfig(topic_name=self._topic, read_queue_nums=count, write_queue_nums=count)
                await admin.topics.put(master.address, config)

    async def _send(self, end_s: float) -> None:
        """Sends a message to each queue, again and again."""
        async with Producer("soak_producer", namesrv=self._namesrv) as producer:
            queues = await producer.queues(self._topic)
            while time.monotonic() < end_s:
                await asyncio.gather(*[self._send_one(producer, queue) for queue in queues])
                await asyncio.sleep(SEND_PAUSE_S)

    async def _send_one(self, producer: Producer, queue: MessageQueue) -> None:
        number = self._sent[queue.queue_id]
        message = Message(self._topic, b"%d:%d" % (queue.queue_id, number))
        await producer.send(message, queue=queue, timeout_s=SEND_TIMEOUT_S)
        self._sent[queue.queue_id] = number + 1

    async def _change(self) -> None:
        """Has a member join, leave or die; each group keeps one."""
        ledger = self._rng.choice(self._ledgers)
        members = self._members[ledger.name]
        total = sum(map(len, self._members.values()))
        if len(members) == 1 or (total < self._plan.members and self._rng.random() < 0.5):
            await self._join(ledger)
            return
        member = members.pop(self._rng.randrange(len(members)))
        ledger.changes += 1
        if (self._plan.kills_in_order or not ledger.in_order) and self._rng.random() < 0.5:
            await member.kill()
        else:
            await member.leave()

    async def _join(self, ledger: Ledger) -> None:
        self._made += 1
        name = f"{ledger.name}-{self._made}"
        member: Member
        if ledger.name.startswith("pop"):
            member = PopMember(name, ledger, self._rng, self._namesrv, self._topic, self._plan.invisible_ms)
        else:
            member = PushMember(name, ledger, self._rng, self._namesrv, self._topic)
        ledger.changes += 1
        await member.join()
        self._members[ledger.name].append(member)

    async def _drain(self) -> None:
        """Waits until all is handled, or none of it for a while: what is missing is then in the result."""
        pause_s = DRAIN_S + (LOCK_LIFE_S if self._plan.kills_in_order else 0)
        with suppress(AssertionError):
            while missing := sum(map(self._missing, self._ledgers)):
                await until(partial(self._has_less_than, missing), "a further message", pause_s)

    def _has_less_than(self, missing: int) -> bool:
        return sum(map(self._missing, self._ledgers)) < missing

    def _missing(self, ledger: Ledger) -> int:
        return sum(self._sent) - len(ledger.handled)

    def _result(self) -> SoakResult:
        too_many = []
        for one in self._ledgers:
            limit = one.changes * self._plan.queues * DOUBLES_PER_CHANGE_AND_QUEUE
            if one.doubles > limit:
                too_many.append(f"{one.name}: {one.doubles} doubles in {one.changes} changes, at most {limit}")
        missing = {one.name: self._missing(one) for one in self._ledgers}
        return SoakResult(sum(self._sent), self._ledgers, missing, too_many)
