"""MessageRequests: sends, replies and pulls, their plain and fast paths, and pulls that wait for an arrival."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from pymq.broker import row_access as access
from pymq.broker.assembly.broker_data import BrokerData
from pymq.broker.assembly.messages import Messages
from pymq.broker.assembly.pop_parts import PopParts
from pymq.broker.fast.ack import FastAcks
from pymq.broker.fast.lite import FastLites
from pymq.broker.fast.pull import FastPulls
from pymq.broker.fast.secured import SendCheck, checked
from pymq.broker.fast.send import FastSends, OtherKinds
from pymq.broker.fast.table import FastRow, FastTable
from pymq.broker.fast.targets import SendTargets
from pymq.broker.fast.timer import FastTimerPuts
from pymq.broker.fast.transaction import FastEnds, FastHalves
from pymq.broker.handlers.lite_pops import LitePopHandlers
from pymq.broker.handlers.pop import PopHandlers
from pymq.broker.handlers.pull import PullHandlers
from pymq.broker.handlers.replies import ReplyHandlers
from pymq.broker.handlers.send import Redirects, SendHandlers
from pymq.broker.messages.resends import Resends
from pymq.broker.metadata.late import WhenRegistered
from pymq.broker.pop.hand_out import HandOut
from pymq.broker.replication.read_advice import ReadAdvice
from pymq.broker.replication.roles.role import Role
from pymq.broker.runtime import Runtime
from pymq.broker.timers.timer_puts import TimerPuts
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, TICK_PERIOD_MS, HastenJob, Job
from pymq.model.ids import UniqueIdMaker
from pymq.model.lite_topics import is_light_queue
from pymq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from pymq.security.gatekeeper import Gatekeeper
from pymq.store.store import QueueView, tags_codes
from pymq.wire.codes import RequestCode as Code
from pymq.wire.dispatch import Peer
from pymq.wire.headers.pop import AckMessageHeader
from pymq.wire.headers.pull import PullMessageHeader
from pymq.wire.headers.send import SendMessageV2Header
from pymq.wire.headers.transaction import EndTransactionHeader

POP_JOB = "waiting pops"
LITE_POP_JOB = "waiting lite pops"


class MessageRequests:
    """The parts that answer the commonest requests. They listen to the store's arrivals."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        role: Role,
        data: BrokerData,
        messages: Messages,
        pop: PopParts,
        read_advice: ReadAdvice,
        hasten_job: HastenJob,
        when_registered: WhenRegistered,
        is_fenced: Callable[[], bool],
    ) -> None:
        store, metadata, stats = data.store, data.metadata, data.stats
        self._is_master = role.is_master
        self._reader = messages.reader
        self._delays = messages.delays
        self._timers = messages.timers
        self.timer_puts = TimerPuts(runtime.config, runtime.clock, messages.timers)
        ids = UniqueIdMaker(
            runtime.clock, runtime.store_host[:4], runtime.config.listen_port, runtime.rng.getrandbits(32)
        )
        self.sends = SendHandlers(
            runtime,
            topics=metadata.topics,
            writer=messages.writer,
            redirects=Redirects(messages.retries, messages.transactions, self.timer_puts),
            stats=stats,
            resends=Resends(store, runtime.clock, is_on=runtime.config.raft_enabled),
            lites=messages.lites,
            ids=ids,
            when_registered=when_registered,
        )
        self.replies = ReplyHandlers(
            runtime,
            sends=self.sends,
            clients=metadata.clients,
            writer=messages.writer,
            stats=stats,
        )
        self.pulls = PullHandlers(
            runtime,
            metadata=metadata,
            expressions=messages.expressions,
            reader=messages.reader,
            advice=read_advice,
            stats=stats,
        )
        self.long_polls = self.pulls.long_polls
        self.pops = PopHandlers(
            runtime,
            metadata=metadata,
            store=store,
            expressions=messages.expressions,
            writer=messages.writer,
            hand_out=HandOut(pop.popper, pop.revive_log, pop.turn_acks, pop.ordered_queues, is_fenced),
            wake_in=lambda delay_ms: hasten_job(POP_JOB, delay_ms),
        )
        self.pop_polls = self.pops.polls
        self.lite_pops = LitePopHandlers(
            runtime,
            metadata=metadata,
            lights=store.lights,
            subscriptions=pop.lite_subscriptions,
            control=pop.lite_control,
            popper=pop.lite_popper,
            wake_in=lambda delay_ms: hasten_job(LITE_POP_JOB, delay_ms),
            other_waiting_count=lambda: self.pop_polls.count,
            is_fenced=is_fenced,
        )
        self.lite_polls = self.lite_pops.polls
        self._lite_subscriptions = pop.lite_subscriptions
        pop.reviver.on_revived = self.pop_polls.wake_group
        pop.ordered_queues.on_free = self._on_free
        self._writer = messages.writer
        self._schedule_turn_end = runtime.schedule_turn_end
        stager = store.plain_stager()
        targets = SendTargets(metadata.topics, stager, stats, checks_types=runtime.config.topic_message_type_check)
        transactions = messages.transactions
        self.fast_acks = FastAcks(
            config=runtime.config,
            store=store,
            topics=metadata.topics,
            revive_log=pop.revive_log,
            turn_acks=pop.turn_acks,
            ordered_queues=pop.ordered_queues,
            is_fenced=is_fenced,
        )
        self.fast_ends = FastEnds(transactions, store, messages.writer, stager, targets)
        self.fast_pulls = FastPulls(self.pulls)
        self.fast_sends = FastSends(
            runtime,
            writer=messages.writer,
            stager=stager,
            targets=targets,
            others=OtherKinds(
                FastTimerPuts(runtime.config, runtime.clock, messages.timers, messages.writer, stager, targets),
                FastHalves(transactions, messages.writer, stager, targets, stats),
                FastLites(runtime, writer=messages.writer, stager=stager, targets=targets, lights=store.lights),
            ),
            ids=ids,
        )
        store.add_arrival_listener(self._on_arrival)
        self.fast_path = FastTable(self._fast_rows())

    def _fast_rows(self) -> list[FastRow]:
        """Return the rows of this role: a slave takes no sends, and refuses acknowledgements and ends."""
        pulls = [
            FastRow(Code.PULL_MESSAGE, PullMessageHeader, access.CONSUME, self.fast_pulls.take),
            FastRow(Code.LITE_PULL_MESSAGE, PullMessageHeader, access.CONSUME, self.fast_pulls.take),
        ]
        if not self._is_master:
            return pulls
        one, batch = self.fast_sends.take, partial(self.fast_sends.take, is_batch=True)
        return [
            FastRow(Code.SEND_MESSAGE_V2, SendMessageV2Header, access.PUBLISH, one, checks_sender=True),
            FastRow(Code.SEND_BATCH_MESSAGE, SendMessageV2Header, access.PUBLISH, batch, checks_sender=True),
            *pulls,
            FastRow(Code.ACK_MESSAGE, AckMessageHeader, access.USE_RECEIPT, self.fast_acks.take),
            FastRow(Code.END_TRANSACTION, EndTransactionHeader, access.END_TRANSACTION, self.fast_ends.take),
        ]

    def secured_fast_path(self, gatekeeper: Gatekeeper) -> FastTable:
        """Return the fast path of a secured broker, which checks each sender."""
        self.fast_sends.secure(SendCheck(gatekeeper))
        self.fast_ends.require_topic()
        return FastTable(checked(row, gatekeeper) for row in self._fast_rows())

    def jobs(self) -> list[Job]:
        """Return the jobs that answer pulls and pops whose time is over."""
        return [
            Job("parked pulls", TICK_PERIOD_MS, self.long_polls.tick),
            Job(POP_JOB, TICK_PERIOD_MS, self.pop_polls.tick),
            Job(LITE_POP_JOB, TICK_PERIOD_MS, self.lite_polls.tick),
            Job("lite subscriptions", SLOW_TICK_PERIOD_MS, self._lite_subscriptions.tick),
        ]

    def wake_waiting(self) -> bool:
        """Answer pulls and pops that are due. Called once a turn, after the commit.

        Return True when another turn has work: more are due, or pops that waited staged check points, whose commit
        their answers wait for.
        """
        more = self.long_polls.wake()
        more = self.pop_polls.wake() or more
        more = self.lite_polls.wake() or more
        return more or self._writer.staged_count > 0

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Have requests that wait for a queue look again: an operator reset an offset."""
        self.long_polls.wake_queue(topic, queue_id)
        self.pop_polls.wake_queue(topic, queue_id)

    def dismiss_all(self) -> None:
        """End every waiting request without messages: the clients ask again, and are checked again."""
        self.long_polls.dismiss_all()
        self.pop_polls.dismiss_all()
        self.lite_polls.dismiss_all()
        self._schedule_turn_end()

    async def release_all(
        self, watch: Callable[[Callable[[], None]], None], rest: Callable[[], Awaitable[None]]
    ) -> None:
        """Answer every waiting request, because the broker stops, in turns of some ms that ``watch`` runs.

        ``rest`` lets others have their turn.
        """
        more = True

        def release() -> None:
            nonlocal more
            more = self.long_polls.release_some()
            more = self.pop_polls.release_some() or more
            more = self.lite_polls.release_some() or more

        while more:
            watch(release)
            self._schedule_turn_end()
            await rest()

    def disconnect(self, peer: Peer) -> None:
        """Drop the waiting requests of a connection that has ended."""
        self.long_polls.disconnect(peer)
        self.pop_polls.disconnect(peer)
        self.lite_polls.disconnect(peer)
        self._lite_subscriptions.disconnect(peer)

    def _on_free(self, topic: str, group: str) -> None:
        if is_light_queue(topic):
            self.lite_pops.on_free(topic, group)
        else:
            self.pop_polls.wake_group(topic, group)

    def _on_arrival(self, queue: QueueView, units: bytes) -> None:
        topic, queue_id = queue.topic, queue.queue_id
        if self.long_polls.is_waited_for(topic, queue_id):
            codes = tags_codes(queue.listed(units))
            first = queue.max_offset - len(codes)
            self.long_polls.on_arrival(
                topic,
                queue_id,
                codes,
                lambda message_filter: self._reader.any_accepted(topic, queue_id, first, message_filter),
            )
        if self.pop_polls.is_waited_for(topic):
            self.pop_polls.on_arrival(topic, queue_id, frozenset(tags_codes(queue.listed(units))))
        if topic == SCHEDULE_TOPIC and self._is_master:
            self._delays.on_arrival(topic, queue_id, queue.max_offset, tags_codes(queue.listed(units)))
        elif topic == TIMER_TOPIC:
            self._timers.on_arrival(queue.max_offset)
