"""Pop consumption: POP_MESSAGE (200050), ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151), PEEK_MESSAGE (200052),
CHANGE_MESSAGE_INVISIBLETIME (200053), NOTIFICATION (200054) and POLLING_INFO (200055).

The checks come in the order of Java's PopMessageProcessor and AckMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.handlers.pop_checks import (
    LATE_MS,
    check_invisible,
    check_wishes,
    failed_reply,
    invalid,
    is_late,
    late_reply,
    wait_ms_of,
)
from pymq.broker.handlers.read_checks import check_broker_reads, check_group_reads, topic_to_read
from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.writer import NOT_WAITING
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.pop.check_points import CheckPoint, CheckPointKey
from pymq.broker.pop.hand_out import HandOut
from pymq.broker.pop.ordered_queues import OrderedQueue
from pymq.broker.pop.pop_polls import ParkedPop, PopPolls
from pymq.broker.pop.popper import PopAsk, Popped
from pymq.broker.replication.roles.write_fence import hand_over_refusal
from pymq.broker.runtime import Runtime
from pymq.errors import PymqError, Refusal
from pymq.model import pop
from pymq.model.lite_topics import MULTI_QUEUE_OFFSET, light_queue_name
from pymq.model.pop import Receipt
from pymq.model.priorities import factor_of
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_pop import BatchAck, decode_batch_acks
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, encode_command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeHeader,
    NotificationAnswer,
    NotificationHeader,
    PeekMessageHeader,
    PollingInfoAnswer,
    PollingInfoHeader,
    PopMessageAnswer,
    PopMessageHeader,
)
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.expressions import Expressions
    from pymq.broker.messages.writer import Writer
    from pymq.store.store import MessageStore


class PopHandlers:
    """Answers pops and acknowledgements. Answers wait in the writer for the turn's commit."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        expressions: Expressions,
        writer: Writer,
        hand_out: HandOut,
        wake_in: Callable[[int], None],
    ) -> None:
        """``wake_in`` has the tick of :attr:`polls` called in so many ms."""
        self._is_fenced = hand_out.is_fenced
        self._config = runtime.config
        self._clock = runtime.clock
        self._store = store
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._expressions = expressions
        self._writer = writer
        self._popper = hand_out.popper
        self._log = hand_out.revive_log
        self._turn_acks = hand_out.turn_acks
        self._ordered = hand_out.ordered_queues
        self.ineffective_ack_count = 0  # late, double and forged ones
        self.polls = PopPolls(
            runtime.clock,
            self._retry,
            self._give_up,
            budget=runtime.budget,
            count_max=lambda: runtime.config.max_pop_polling_size,
            queue_count_max=lambda: runtime.config.pop_polling_size,
            wake_in=wake_in,
        )

    # -- pop -----------------------------------------------------------------------------------------------------

    def pop(self, request: Command, header: PopMessageHeader, peer: Peer) -> Reply | None:
        """Hand out messages, or let the pop wait for some."""
        try:
            return self._pop(request, header, peer)
        except PymqError as error:
            return failed_reply(error, PopMessageAnswer())

    def _pop(self, request: Command, header: PopMessageHeader, peer: Peer) -> Reply | None:
        wait_ms = wait_ms_of(header.born_time, header.poll_time, self._clock.now_ms())
        if is_late(wait_ms):
            return late_reply(self._config.broker_name, wait_ms, PopMessageAnswer())
        ask = self._ask_of(header)
        place = (ask.group, ask.topic, ask.queue_id)
        if self.polls.is_turn_full and self.polls.park(
            peer, request, ask, place, ask.message_filter, max(wait_ms, LATE_MS), is_due=True
        ):
            return None
        popped = self._popper.pop(ask, self._clock.now_ms())
        if popped.count:
            return self._found(request, peer, ask, popped)
        if wait_ms <= 0:
            return _nothing(ResponseCode.POLLING_TIMEOUT, ask, popped)
        if self.polls.park(peer, request, ask, place, ask.message_filter, wait_ms, is_due=popped.rest > 0):
            return None
        return _nothing(ResponseCode.POLLING_FULL, ask, popped)

    def _ask_of(self, header: PopMessageHeader) -> PopAsk:
        """Check a pop and return what it wants. Raises Refusal."""
        check_broker_reads(self._config)
        check_wishes("maxMsgNums", header.max_msg_nums, header.invisible_time, header.attempt_id)
        topic = self._check_target(header.topic, header.consumer_group, header.queue_id)
        problem = pop.retry_topic_problem(header.consumer_group, header.topic)
        if problem:
            raise invalid(problem)
        if not header.order and self._log.check_points.is_full_for(header.consumer_group):
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"group {header.consumer_group} has {self._log.check_points.count_of(header.consumer_group)} hand-outs "
                "without acknowledgement, or all groups together too many: acknowledge messages, then pop again",
            )
        return PopAsk(
            group=header.consumer_group,
            topic=header.topic,
            queue_id=header.queue_id,
            queue_count=topic.read_queue_nums,
            count=header.max_msg_nums,
            invisible_ms=header.invisible_time,
            init_mode=header.init_mode,
            message_filter=self._filter_of(header),
            is_ordered=header.order,
            attempt_id=header.attempt_id,
            priority_factor=factor_of(topic, self._groups.ensure(header.consumer_group)),
        )

    def _filter_of(self, header: PopMessageHeader) -> MessageFilter:
        return self._expressions.message_filter(header.exp_type, header.exp or None)

    def _check_target(self, name: str, group_name: str, queue_id: int) -> TopicConfig:
        topic = topic_to_read(self._topics, name, queue_id, or_all=True)
        check_group_reads(self._groups, group_name, name)
        return topic

    def _found(self, request: Command, peer: Peer, ask: PopAsk, popped: Popped) -> Reply | None:
        """Have the answer leave once the check points are in the log; they need no disk: what is lost comes again.

        The answer to an orderly pop is returned: it has no check points.
        """
        self.polls.turn_bytes += popped.size_bytes
        if popped.rest:
            self.polls.wake_group(ask.topic, ask.group)
        reply = Reply(ResponseCode.SUCCESS, "FOUND", _answer(ask, popped), b"".join(popped.records))
        if ask.is_ordered:
            return reply
        if not request.is_oneway:
            self._writer.hold(peer, encode_command(reply.to_command(request)), NOT_WAITING)  # type: ignore[arg-type]
        return None

    # -- waiting requests ----------------------------------------------------------------------------------------

    def _retry(self, parked: ParkedPop, is_last: bool) -> bool:
        """Look again for a waiting request. Return False when it found nothing and is to wait on."""
        try:
            if isinstance(parked.ask, NotificationHeader):
                return self._notify(parked, parked.ask, is_last)
            if self._is_fenced():  # the slave that takes over may have copied by now what is handed out
                raise hand_over_refusal()
            popped = self._popper.pop(parked.ask, self._clock.now_ms())
        except (PymqError, OSError) as error:  # it must not stop the other requests
            parked.peer.answer(parked.request, failed_reply(error, PopMessageAnswer()))
            return True
        if popped.count:
            reply = self._found(parked.request, parked.peer, parked.ask, popped)
            if reply is not None:
                parked.peer.answer(parked.request, reply)
        elif is_last:
            parked.peer.answer(parked.request, _nothing(ResponseCode.POLLING_TIMEOUT, parked.ask, popped))
        else:
            return False
        return True

    def _notify(self, parked: ParkedPop, header: NotificationHeader, is_last: bool) -> bool:
        has_message = self._has_message(header)
        if not has_message and not is_last:
            return False
        parked.peer.answer(parked.request, Reply(ext=NotificationAnswer(has_msg=has_message, polling_full=False)))
        return True

    def _give_up(self, parked: ParkedPop, remark: str) -> None:
        """Answer a request without messages."""
        parked.peer.answer(parked.request, Reply(ResponseCode.POLLING_TIMEOUT, remark, PopMessageAnswer()))

    def notification(self, request: Command, header: NotificationHeader, peer: Peer) -> Reply | None:
        """Answer once a pop would find a message, or when the waiting time is over."""
        check_broker_reads(self._config)
        self._check_target(header.topic, header.consumer_group, header.queue_id)
        if self._has_message(header):
            return Reply(ext=NotificationAnswer(has_msg=True, polling_full=False))
        wait_ms = wait_ms_of(header.born_time, header.poll_time, self._clock.now_ms())
        place = (header.consumer_group, header.topic, header.queue_id)
        is_full = wait_ms > 0 and not self.polls.park(peer, request, header, place, MessageFilter(), wait_ms)
        if wait_ms > 0 and not is_full:
            return None
        return Reply(ext=NotificationAnswer(has_msg=False, polling_full=is_full))

    def _has_message(self, header: NotificationHeader) -> bool:
        queues = self._normal_queues_of(header)
        if header.order:
            queues = [each for each in queues if not self._is_blocked(header, each)]
        else:
            queues += self._retry_queues_of(header)
        return any(self._popper.waiting_count(header.consumer_group, *queue) for queue in queues)

    def _is_blocked(self, header: NotificationHeader, queue: tuple[str, int]) -> bool:
        topic, queue_id = queue
        return self._ordered.is_blocked(OrderedQueue(topic, header.consumer_group, queue_id), header.attempt_id)

    def _normal_queues_of(self, header: NotificationHeader | PeekMessageHeader) -> list[tuple[str, int]]:
        """Return the topic's queues that a pop with these fields visits."""
        topic = self._topics.get(header.topic)
        count = topic.read_queue_nums if topic is not None else 0
        numbers = range(count) if header.queue_id < 0 else (header.queue_id,)
        return [(header.topic, number) for number in numbers]

    def _retry_queues_of(self, header: NotificationHeader | PeekMessageHeader) -> list[tuple[str, int]]:
        queues = []
        for name, _ in self._popper.retry_topics(header.consumer_group, header.topic):
            queues += [(name, number) for number in range(self._topics.require(name).read_queue_nums)]
        return queues

    def polling_info(self, request: Command, header: PollingInfoHeader, peer: Peer) -> Reply:
        """Return how many pops wait with exactly this queue id."""
        check_broker_reads(self._config)
        self._check_target(header.topic, header.consumer_group, header.queue_id)
        count = self.polls.waiting_count(header.consumer_group, header.topic, header.queue_id)
        return Reply(ext=PollingInfoAnswer(polling_num=count))

    def peek(self, request: Command, header: PeekMessageHeader, peer: Peer) -> Reply:
        """Return how many messages a pop could get. Nothing is handed out."""
        check_broker_reads(self._config)
        self._check_target(header.topic, header.consumer_group, header.queue_id)
        queues = self._normal_queues_of(header) + self._retry_queues_of(header)
        rest = sum(self._popper.waiting_count(header.consumer_group, *queue) for queue in queues)
        code = ResponseCode.SUCCESS if rest else ResponseCode.PULL_NOT_FOUND
        answer = PopMessageAnswer(pop_time=self._clock.now_ms(), rest_num=rest)
        return Reply(code, "FOUND" if rest else "NO_MESSAGE_IN_QUEUE", answer)

    # -- acknowledgements ----------------------------------------------------------------------------------------

    def ack(self, request: Command, header: AckMessageHeader, peer: Peer) -> Reply | None:
        """Strike one message off its check point. One that is not there any more changes nothing."""
        self._check_place_of(header, past_end=1)
        receipt = _receipt_of(header.extra_info)
        if receipt.revive_queue_id == pop.ORDERLY_REVIVE_QUEUE or header.lite_topic is not None:
            self._ack_in_order(header, receipt)
            return Reply()
        point = self._point_of(header, receipt)
        if point is None:
            self.ineffective_ack_count += 1
            return Reply()
        self._turn_acks.add(point, point.bit_left(header.offset))
        self._hold_ack(request, peer)
        return None

    def _ack_in_order(self, header: AckMessageHeader, receipt: Receipt) -> None:
        """Acknowledge a message of an orderly pop. Its order information takes note; nothing goes to the log."""
        is_ours = receipt.broker_name == self._config.broker_name
        if not (is_ours and self._ordered.ack(_ordered_queue(header), header.offset, receipt.pop_time_ms)):
            self.ineffective_ack_count += 1

    def batch_ack(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Strike messages off many check points. A check point that is gone changes nothing."""
        acks = decode_batch_acks(request.body)
        if not acks:
            return Reply(ResponseCode.NO_MESSAGE, "the body names no acknowledgement: send at least one in `acks`")
        for ack in acks:
            if ack.retry_flag not in ("0", "1", "2"):
                raise Refusal(
                    ResponseCode.SYSTEM_ERROR, f"the retry flag {ack.retry_flag[:20]!r} is unknown: use 0, 1 or 2"
                )
        is_effective = False
        for ack in acks:
            is_effective = self._ack_many(ack) or is_effective
        if not is_effective:
            return Reply()
        self._hold_ack(request, peer)
        return None

    def _ack_many(self, ack: BatchAck) -> bool:
        """Acknowledge what a batch names of one check point. Return True when that is anything."""
        topic = ack.topic
        if ack.retry_flag != "0":
            named = pop.retry_topic_v1 if ack.retry_flag == "1" else pop.retry_topic_v2
            topic = named(ack.group, ack.topic)
        key = CheckPointKey(topic, ack.group, ack.queue_id, ack.start_offset, ack.pop_time_ms)
        point = self._log.check_points.get(key)
        bits, start = ack.decoded_bits(), ack.start_offset
        if ack.revive_queue_id == pop.ORDERLY_REVIVE_QUEUE:
            self._ack_many_in_order(ack, topic, bits)
            return False
        acked = [] if point is None else [each for each in point.left_offsets() if bits >> (each - start) & 1]
        self.ineffective_ack_count += bits.bit_count() - len(acked)
        if point is None or not acked:
            return False
        self._turn_acks.add(point, point.bits_left(acked))
        return True

    def _ack_many_in_order(self, ack: BatchAck, topic: str, bits: int) -> None:
        """Acknowledge what the bits name; other messages than those of the hand-out count as without effect."""
        queue = OrderedQueue(topic, ack.group, ack.queue_id)
        acked = 0
        for offset in self._ordered.handed_out(queue, ack.pop_time_ms):
            if offset >= ack.start_offset and bits >> (offset - ack.start_offset) & 1:
                acked += self._ordered.ack(queue, offset, ack.pop_time_ms)
        self.ineffective_ack_count += bits.bit_count() - acked

    def change_invisible_time(self, request: Command, header: ChangeInvisibleTimeHeader, peer: Peer) -> Reply | None:
        """Give a message a new invisible time from now on, under a new receipt."""
        self._check_place_of(header, past_end=0)
        check_invisible(header.invisible_time)
        receipt = _receipt_of(header.extra_info)
        if receipt.revive_queue_id == pop.ORDERLY_REVIVE_QUEUE or header.lite_topic is not None:
            return self._hide_in_order(header, receipt)
        point = self._point_of(header, receipt)
        if point is None:
            raise _over(header)
        queue_id = point.revive_queue_id
        key = CheckPointKey(header.topic, header.consumer_group, header.queue_id, header.offset, self._clock.now_ms())
        while key in self._log.check_points:  # within one millisecond
            key = key._replace(pop_time_ms=key.pop_time_ms + 1)
        self._log.put_check_point(key, [header.offset], header.invisible_time, queue_id)
        self._log.put_ack(point, point.bit_left(header.offset))
        answer = ChangeInvisibleTimeAnswer(
            pop_time=key.pop_time_ms, invisible_time=header.invisible_time, revive_qid=queue_id
        )
        self._hold(request, peer, Reply(ext=answer))
        return None

    def _hide_in_order(self, header: ChangeInvisibleTimeHeader, receipt: Receipt) -> Reply:
        """Give a message of an orderly pop a new invisible time from now on. Its receipt stays."""
        is_ours = receipt.broker_name == self._config.broker_name
        queue = _ordered_queue(header)
        end_ms = (
            self._ordered.hide(queue, header.offset, receipt.pop_time_ms, header.invisible_time) if is_ours else None
        )
        if end_ms is None:
            raise _over(header)
        return Reply(
            ext=ChangeInvisibleTimeAnswer(
                pop_time=receipt.pop_time_ms,
                invisible_time=end_ms - receipt.pop_time_ms,  # the client adds it to the pop's time
                revive_qid=pop.ORDERLY_REVIVE_QUEUE,
            )
        )

    def _check_place_of(self, header: AckMessageHeader | ChangeInvisibleTimeHeader, past_end: int) -> None:
        """Check that a message can be where the request says. Raises Refusal."""
        if header.lite_topic is None:
            self._check_place(header.topic, header.queue_id, header.offset, past_end)
            return
        self._topics.require(header.topic)
        high = self._store.lights.max_offset(header.topic, header.lite_topic)
        if not 0 <= header.offset < high + past_end:
            raise Refusal(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{header.topic}@{header.lite_topic[:60]}, commit:{header.offset}, "
                f"store:0~{high}: send the offset in the lite topic ({MULTI_QUEUE_OFFSET})",
            )

    def _check_place(self, topic_name: str, queue_id: int, offset: int, past_end: int) -> None:
        """Check that a message can be there. Raises Refusal."""
        topic = self._topics.require(topic_name)
        if not 0 <= queue_id < topic.read_queue_nums:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queue {queue_id} of topic {topic_name} does not exist: it has queues 0 to "
                f"{topic.read_queue_nums - 1}",
            )
        low, high = self._store.min_offset(topic_name, queue_id), self._store.max_offset(topic_name, queue_id)
        if not low <= offset < high + past_end:
            raise Refusal(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{topic_name}@{queue_id}, commit:{offset}, store:{low}~{high}",
            )

    def _point_of(self, header: AckMessageHeader | ChangeInvisibleTimeHeader, receipt: Receipt) -> CheckPoint | None:
        """Return the check point of a message that is handed out under this receipt; None when it is not."""
        if receipt.broker_name != self._config.broker_name:
            return None
        key = CheckPointKey(
            header.topic, header.consumer_group, header.queue_id, receipt.start_offset, receipt.pop_time_ms
        )
        point = self._log.check_points.get(key)
        return point if point is not None and point.bit_left(header.offset) else None

    def _hold_ack(self, request: Command, peer: Peer) -> None:
        if not request.is_oneway:
            self._turn_acks.hold(peer, encode_command(Reply().to_command(request)))  # type: ignore[arg-type]

    def _hold(self, request: Command, peer: Peer, reply: Reply) -> None:
        if not request.is_oneway:
            self._writer.hold(peer, encode_command(reply.to_command(request)))  # type: ignore[arg-type]


def _answer(ask: PopAsk, popped: Popped) -> PopMessageAnswer:
    return PopMessageAnswer(
        pop_time=popped.pop_time_ms,
        invisible_time=ask.invisible_ms,
        revive_qid=popped.revive_queue_id,
        rest_num=popped.rest,
        start_offset_info=pop.start_offset_info(popped.queues),
        msg_offset_info=pop.message_offset_info(popped.queues),
        order_count_info=";".join(popped.order_counts) if ask.is_ordered else None,
    )


def _nothing(code: int, ask: PopAsk, popped: Popped) -> Reply:
    return Reply(code, "NO_MESSAGE_IN_QUEUE", _answer(ask, popped))


def _ordered_queue(header: AckMessageHeader | ChangeInvisibleTimeHeader) -> OrderedQueue:
    if header.lite_topic is not None:
        return OrderedQueue(light_queue_name(header.topic, header.lite_topic), header.consumer_group, 0)
    return OrderedQueue(header.topic, header.consumer_group, header.queue_id)


def _over(header: ChangeInvisibleTimeHeader) -> Refusal:
    return Refusal(
        ResponseCode.NO_MESSAGE,
        f"{pop.RECEIPT_OVER} for offset {header.offset}: {header.extra_info[:80]!r}. The message was acknowledged or "
        "delivered again, so take the newest receipt",
    )


def _receipt_of(text: str) -> Receipt:
    try:
        return pop.decode_receipt(text)
    except ValueError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{error}: send the receipt as the broker gave it") from error
