"""The operator: it makes topics and groups, hands over, fails over, and makes sure that there is a master.

Its promotions follow the plan and the steps of ``pymq broker promote``, on a simulated loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pymq.client.admin import Admin
from pymq.client.admin.promotion import Promotion
from pymq.client.admin.promotion_plan import PromotionPlan
from pymq.errors import PymqError
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.broker.promotion import make_plan
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.broker_node import SimBroker
from tests.simulation.clients import QUEUE_COUNT, TOPIC, Operator, World, send_request, topic_request
from tests.simulation.loop import SimLoop, start
from tests.simulation.master_slave import dealing, lites, priorities
from tests.simulation.master_slave.batches import BATCH_ATTRIBUTES, BATCH_TOPIC
from tests.simulation.master_slave.timers import TIMER_TARGET
from tests.simulation.timeline import SECOND, NodeClock

if TYPE_CHECKING:
    from tests.simulation.master_slave.cluster import MasterSlave

Judge = Callable[[PromotionPlan], str | None]

LOOK_S = 5.0
PATIENCE = 8  # looks at a state that may settle by itself, before the operator acts
PATIENCE_AFTER_A_LIAR = 22  # a name server may have kept the master's id for it: 65 s
OTHER_TOPICS = ("Returns", "Invoices")


class MasterSlaveOperator(Operator):
    """Runs one promotion at a time, and records what it may cost before and after it."""

    def __init__(self, name: str, host: str, rng: random.Random, world: World, cluster: MasterSlave) -> None:
        super().__init__(name, host, rng, world)
        self._cluster = cluster
        self._loop = SimLoop(  # type: ignore[abstract]
            self._timeline, self.process, cluster.network, random.Random(self._rng.getrandbits(64)), self._failed
        )
        self._clock = NodeClock(self._timeline)
        self.is_busy = False
        self.held: list[SimBroker] = []  # dead brokers that must not start now

    def _failed(self, what: str, error: BaseException | None) -> None:
        self._history.violated(f"{what}: {type(error).__name__}: {error}")

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        start(self._loop, work)

    def _tell(self, text: str) -> None:
        self._history.note(f"{self.now_us / SECOND:.4f} operator: {text}")

    # -- topics and groups --------------------------------------------------------------------------------------

    def set_up(self) -> None:
        self._begin(self._set_up())

    async def _set_up(self) -> None:
        address = self._cluster.brokers[0].address
        while not self.is_set_up:
            try:
                await self._ask(address, topic_request(TOPIC, QUEUE_COUNT))
                if self._cluster.dealers:
                    await self._ask(address, topic_request(dealing.TOPIC, 1))
                if self._cluster.plan.has_timers:
                    await self._ask(address, topic_request(TIMER_TARGET, 1))
                if self._cluster.plan.has_batches:
                    await self._ask(address, topic_request(BATCH_TOPIC, 1, BATCH_ATTRIBUTES))
                if self._cluster.plan.has_lites:
                    await self._ask(address, topic_request(lites.PARENT, 1, lites.PARENT_ATTRIBUTES))
                    for request in lites.group_requests():
                        await self._ask(address, request)
                if self._cluster.plan.has_priorities:
                    for request in priorities.set_up_requests():
                        await self._ask(address, request)
                for consumer in self._cluster.consumers:
                    await self._make_group(address, consumer.group)
            except PymqError:
                await asyncio.sleep(1)
            else:
                self.is_set_up = True

    async def _ask(self, address: str, command: Command) -> None:
        """Send a command through the product's own admin client. Raises PymqError."""
        async with Admin(self._name_servers, clock=self._clock) as admin:
            await admin._connection._client.invoke_ok(address, command)

    async def _make_group(self, address: str, group: str) -> None:
        body = msgspec.json.encode(SubscriptionGroupConfig(group_name=group))
        await self._ask(address, Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))

    def change_topics(self) -> bool:
        """Create, use and delete another topic in random order. Return False when there is no master."""
        master = self._cluster.master
        if master is None:
            return False
        self._begin(self._change_topics(master.address, self._rng.choice(OTHER_TOPICS)))
        return True

    async def _change_topics(self, address: str, topic: str) -> None:
        try:
            for _ in range(self._rng.randrange(1, 6)):
                step = self._rng.randrange(4)
                if step == 0:
                    await self._ask(address, topic_request(topic, self._rng.randrange(1, 3)))
                elif step == 1:
                    await self._ask(address, Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": topic}))
                else:
                    await self._ask(address, send_request(topic, b"of the operator"))
        except PymqError as error:
            self._tell(f"changing {topic}: {error}")

    # -- promotions ---------------------------------------------------------------------------------------------

    def hand_over(self) -> bool:
        """Let a slave take over from the living master: nothing may be lost. Return whether it began."""
        slaves = [broker for broker in self._cluster.brokers if broker.is_serving and not broker.is_master]
        if self.is_busy or not slaves or not any(broker.is_master for broker in self._cluster.brokers):
            return False
        self.hand_over_to(self._rng.choice(slaves))
        return True

    def hand_over_to(self, slave: SimBroker, on_step: Callable[[str], None] = lambda text: None) -> None:
        """Hand over to ``slave``. ``on_step`` gets the text of each step before it is done."""
        self._promote(slave.address, lambda plan: "" if plan.master is not None else None, on_step)

    def fail_over(self) -> bool:
        """Promote the furthest slave when the master is dead and all slaves serve. Return whether it began.

        The operator keeps the dead master down until the end.
        """
        brokers = self._cluster.brokers
        dead = [broker for broker in brokers if not broker.is_alive]
        living = [broker for broker in brokers if broker.is_serving]
        if self.is_busy or len(dead) != 1 or len(living) != len(brokers) - 1 or any(b.is_master for b in living):
            return False
        self.held = dead
        is_sync = self._cluster.plan.copies_needed > 1

        def judge(plan: PromotionPlan) -> str | None:
            # A master that does not answer is one risk; any other risk makes the choice unwise.
            ours = [member for member in plan.members if self._cluster.is_broker(member.address)]
            is_wise = plan.master is None and len(self._own_risks(plan)) <= 1 and len(ours) == len(brokers)
            return ("promote" if is_sync else "force") if is_wise else None

        self._promote(self._cluster.broker_name, judge)
        return True

    def force(self) -> bool:
        """Promote some slave, whatever it lacks, even if there may be a master that the operator can't see."""
        slaves = [broker for broker in self._cluster.brokers if broker.is_serving and not broker.is_master]
        if self.is_busy or not slaves:
            return False
        self._promote(self._rng.choice(slaves).address, lambda plan: "force" if plan.master is None else None)
        return True

    def _is_foreign(self, plan: PromotionPlan) -> bool:
        """Return True for a plan whose old or new master is none of the operator's machines."""
        chosen = [plan.target, *([plan.master] if plan.master is not None else []), *plan.second_masters]
        return not all(self._cluster.is_broker(member.address) for member in chosen)

    def _own_risks(self, plan: PromotionPlan) -> list[str]:
        """Return the risks that an operator sees who knows the group's machines."""
        liar = self._cluster.liar
        return [risk for risk in plan.risks if liar is None or liar.address not in risk]

    def _promote(self, target: str, judge: Judge, on_step: Callable[[str], None] = lambda text: None) -> None:
        self.is_busy = True
        self._begin(self._promoting(target, judge, on_step))

    async def _promoting(self, target: str, judge: Judge, on_step: Callable[[str], None]) -> None:
        """Promote the address, or the best slave of the broker name, ``target``.

        ``judge`` returns what the plan may cost: "" for nothing, or an incident's kind; None stops the promotion.
        """
        history = self._history

        def tell(text: str) -> None:
            self._tell(text)
            on_step(text)

        try:
            async with Admin(self._name_servers, clock=self._clock) as admin:
                plan = await make_plan(admin, target)
                if self._is_foreign(plan):
                    self._history.operations["plans with a liar that the operator did not carry out"] += 1
                    return
                kind = judge(plan)
                if kind is None or plan.obstacles:
                    self._tell(f"no promotion: {plan.obstacles} {plan.risks}")
                    return
                name = plan.target.address
                self._tell(f"promotes {name} ({kind or 'hand over'}), risks {plan.risks}")
                offsets = self._offsets_at(name)
                if kind:
                    self._note_promotion(kind, plan, offsets)
                try:
                    promotion = Promotion(admin.replication, self._clock, asyncio.sleep, tell=tell)
                    result = await promotion.run(plan, force=bool(kind))
                    if result.master.epoch_history[-1].epoch <= plan.target.epoch:
                        history.violated(f"{name} became the master without a new epoch: {result.master.epoch_history}")
                    history.operations[f"promotions ({kind or 'hand over'})"] += 1
                finally:
                    if kind:
                        self._note_promotion(kind, plan, offsets)
        except PymqError as error:
            history.operations["promotions that failed"] += 1
            self._tell(f"promotion failed: {error}")
        finally:
            self.is_busy = False
            self.held = []

    def _note_promotion(self, kind: str, plan: PromotionPlan, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Record a promotion as an incident. ``offsets``: what the slave had before it."""
        address, epoch = plan.target.address, plan.target.epoch + 1
        is_done = self._cluster.broker_at(address).entry[0] == epoch
        self._history.incident(self.now_us, kind, address, str(epoch), offsets, is_done=is_done)

    def _offsets_at(self, address: str) -> Mapping[str, Mapping[str, int]]:
        parts = self._cluster.broker_at(address).parts
        return parts.metadata.cursors.as_table()["offsetTable"] if parts is not None else {}

    # -- the end ------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Make sure, until the end, that there is a master."""
        self._begin(self._mend())

    async def _mend(self) -> None:
        """Do what docs/replication.md tells an operator to do.

        Restart dead brokers. Promote a slave when there is no master. Choose one of two masters that can't tell which
        of them is right; a forced promotion may leave such masters.
        """
        brokers, looks = self._cluster.brokers, 0
        patience = PATIENCE if self._cluster.liar is None else PATIENCE_AFTER_A_LIAR
        while not self.is_stopping:
            await asyncio.sleep(LOOK_S)
            for broker in brokers:
                if not broker.is_alive:
                    if broker.needs_other_id:
                        if not self._was_forced():
                            self._history.violated(f"{broker.name} wants another id, and nothing was forced")
                        broker.configured_id = broker.named_id
                    broker.start()
            masters = [broker for broker in brokers if broker.is_master]
            is_settled = len(masters) == 1 or not all(broker.is_serving for broker in brokers)
            looks = 0 if is_settled else looks + 1
            if looks >= patience and not self.is_busy:
                await self._settle(masters)
                looks = 0

    async def _settle(self, masters: list[SimBroker]) -> None:
        if not masters:
            # An interrupted hand-over leaves slaves that have everything, and no master.
            is_sync = self._cluster.plan.copies_needed > 1
            self._promote(self._cluster.broker_name, lambda plan: "promote" if is_sync else "force")
            return
        furthest = max(masters, key=_progress)
        other = next(broker for broker in masters if broker is not furthest)
        self._history.operations["masters demoted by hand"] += 1
        if other.entry[0] != furthest.entry[0] or not self._was_forced():
            self._history.violated(f"{other.name} is a second master, of {other.entry}, beside {furthest.entry}")
        self._promote(furthest.address, lambda plan: "force" if plan.second_masters else None)

    def _was_forced(self) -> bool:
        """Return whether a slave was promoted without its master.

        If that slave dies before another broker hears of its epoch, the next promotion gives the same epoch again. An
        operator must choose between two such masters.
        """
        return any(incident.kind in ("force", "promote") for incident in self._history.incidents)


def _progress(broker: SimBroker) -> tuple[int, int]:
    end = broker.parts.store.physical_max_offset if broker.parts is not None else -1
    return broker.entry[0], end
