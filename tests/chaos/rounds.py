"""Rounds of faults under load on one group, and the check at their end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pymq.model.tables import TopicConfig
from tests.chaos.checking import Commits, Watcher, check_all
from tests.chaos.faults import EVENTS, Harm, Plan, plans
from tests.chaos.group import Broker, Group
from tests.chaos.load import QUEUE_COUNT, TOPIC, Sending
from tests.chaos.side_load import SideLoad
from tests.client.scenarios import until

STOPPED_S_MAX = 8.0
# After a round this many messages must be acknowledged, which shows that the group serves again.
SERVED_COUNT = 20
SERVED_TIMEOUT_S = 120.0  # a JVM starts in less, whatever else the machine does


class Outcome(NamedTuple):
    """``faults`` and ``sends`` are counts by kind; ``side_count`` messages of `SideLoad` were acknowledged,
    ``seen_count`` were read while the faults went on, ``doubled`` counts delayed ones that came again,
    by the event they met."""

    round_count: int
    faults: Counter[str]
    sends: Counter[str]
    side_count: int
    seen_count: int
    stored_count: int
    doubled: Counter[str]
    truncation_count: int


class ChaosRounds:
    """Runs rounds. ``open_load`` gets the name server's address; ``report`` gets a line after each round."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        open_load: Callable[[str], Sending],
        events: Sequence[str] = EVENTS,
        stopped_s_max: float = STOPPED_S_MAX,
        in_sync_replicas: int = 2,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._directory = directory
        self._seed = seed
        self._settings = {"inSyncReplicas": str(in_sync_replicas)}
        self._open_load = open_load
        self._numbers: dict[str, list[int]] = {}  # event -> numbers of its rounds
        self._plan = lambda round_count: plans(seed, round_count, stopped_s_max, events)
        self._report = report

    async def run(self, round_count: int) -> Outcome:
        """Run all rounds. Raises AssertionError when something is lost or goes back, or the group does not heal."""
        group = Group(self._directory, self._settings)
        try:
            await group.start()
            config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
            await group.admin.topics.put(group.brokers[0].broker, config)
            side = SideLoad(group)
            await side.start(group.brokers[0])
            load, watcher = self._open_load(group.namesrv.address), Watcher(group.namesrv.address)
            try:
                harm = await self._rounds(group, load, side, round_count)
            finally:
                await load.end()
                await watcher.end()
            assert not watcher.problems, watcher.problems
            doubled = await side.check(await group.healed())
            stored_count = await check_all(group, load.ledger, watcher.seen)
            statuses = await group.statuses()
            truncation_count = sum(
                len(status.truncations) for status in statuses.values() if not isinstance(status, str)
            )
            sends = load.ledger.counts
            return Outcome(
                round_count,
                harm.counts,
                sends,
                side.count,
                len(watcher.seen),
                stored_count,
                Counter({event: sum(doubled[n] for n in numbers) for event, numbers in self._numbers.items()}),
                truncation_count,
            )
        finally:
            await group.stop()

    async def _rounds(self, group: Group, load: Sending, side: SideLoad, round_count: int) -> Harm:
        loop = asyncio.get_running_loop()
        harm = Harm(group, random.Random(self._seed))
        commits = Commits(group)
        master = await self._served(group, load)
        for number, plan in enumerate(self._plan(round_count), start=1):
            self._numbers.setdefault(plan.event, []).append(number)
            try:
                await commits.settle()
                await side.send(number)
                await harm.do(plan, master)
                ended_s = loop.time()
                master = await self._served(group, load)
            except AssertionError as failure:
                raise AssertionError(f"round {number}, {_text(plan)}: {failure}") from failure
            acknowledged, healed_s = load.ledger.counts["ok"], loop.time() - ended_s
            self._report(f"round {number}: {_text(plan)}; healed in {healed_s:.1f} s, {acknowledged} acknowledged")
        await commits.settle()
        return harm

    async def _served(self, group: Group, load: Sending) -> Broker:
        """Wait until the group has healed and takes messages. Return its master."""
        master = await group.healed()
        goal = load.ledger.counts["ok"] + SERVED_COUNT
        await until(lambda: load.ledger.counts["ok"] >= goal, "messages to be acknowledged again", SERVED_TIMEOUT_S)
        return master


def _text(plan: Plan) -> str:
    return f"{plan.event}, link: {plan.link_kind}"
