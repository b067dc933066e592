"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

The checks come in the order of Java's SendMessageProcessor. Answers wait in the writer for the turn's commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pymq.broker.metadata.late import WhenRegistered, answer_when_registered
from pymq.broker.runtime import Runtime
from pymq.broker.timers.timer_puts import TimerTarget
from pymq.errors import Refusal
from pymq.model import sysflag, timers
from pymq.model.draft import Draft
from pymq.model.ids import UniqueIdMaker, encode_offset_id
from pymq.model.inner_batch import INNER_PROPERTIES_SIZE_MAX_BYTES, has_batch_queues
from pymq.model.layout import (
    INNER_COUNT_MAX,
    SENT_PROPERTIES_MAX_BYTES,
    STORED_AGAIN_MAX_BYTES,
    sent_properties_max_bytes,
)
from pymq.model.message_types import type_problem, wanted_type
from pymq.model.names import RETRY_PREFIX, TOPIC_LENGTH_MAX, is_send_forbidden
from pymq.model.priorities import routed
from pymq.model.properties import (
    RETRY_TOPIC,
    append_properties,
    encode_properties,
    find_property,
    sent_properties,
)
from pymq.model.record import MalformedRecordError, StoredMessage, decode_batch
from pymq.model.tables import PERM_WRITE, TopicConfig
from pymq.model.transactions import is_half
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, encode_command
from pymq.wire.dispatch import Handler, Peer
from pymq.wire.headers.send import SendMessageAnswer, SendMessageHeader, SendMessageV2Header
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.lite_topics import LiteTopics
    from pymq.broker.messages.resends import Resends
    from pymq.broker.messages.retries import Retries
    from pymq.broker.messages.writer import Writer
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.broker.timers.timer_puts import TimerPuts
    from pymq.broker.transactions.transactions import Transactions
    from pymq.store.store import Placed

SendHeader = SendMessageHeader | SendMessageV2Header

_DELAY_LEVEL = re.compile(rb"[+-]?[0-9]{1,9}")  # what Java's broker reads as a number, without its largest ones

# Properties that need more than storing. A message with one of these words is parsed.
_HALF = b"TRAN_MSG\x01"
_TIMER = b"TIMER_DEL"  # the names of all three delays begin so


def sent_draft(request: Command, header: SendHeader, peer: Peer, properties: bytes) -> Draft:
    """Return what a send asks to store, with these properties and without bits of a transaction."""
    return Draft(
        request.body,
        properties,
        header.born_timestamp,
        peer.host_bytes,
        flag=header.flag,
        sys_flag=header.sys_flag & ~sysflag.TRANSACTION_MASK,
        reconsume_times=header.reconsume_times or 0,
    )


@dataclass(frozen=True, slots=True)
class Redirects:
    """The parts that take messages which do not just go to their queue.

    ``retries`` takes sends to retry topics, ``transactions`` half messages, ``timers`` messages for later.
    """

    retries: Retries
    transactions: Transactions
    timers: TimerPuts


class SendHandlers:
    """Takes messages and stages them in the writer."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        topics: TopicManager,
        writer: Writer,
        redirects: Redirects,
        stats: StatsManager,
        resends: Resends,
        lites: LiteTopics,
        ids: UniqueIdMaker,
        when_registered: WhenRegistered,
    ) -> None:
        self._config = runtime.config
        self._topics = topics
        self._writer = writer
        self._retries = redirects.retries
        self._transactions = redirects.transactions
        self._timers = redirects.timers
        self._stats = stats
        self._resends = resends
        self._lites = lites
        self._ids = ids
        self._when_registered = when_registered
        self._store_host = runtime.store_host
        self._schedule_turn_end = runtime.schedule_turn_end

    def send(self, request: Command, header: SendHeader, peer: Peer) -> Reply | None:
        """Take one message, or a batch that came with the code of a single message and the batch flag."""
        if header.batch:
            return self.send_batch(request, header, peer)
        topic = self.topic_for(header)
        if topic is None:
            self.make_topic_first(self.send, request, header, peer)
            return None
        queue_id = self.queue_for(header, topic)
        self.check_body(request.body)
        check_flags(header.sys_flag)
        properties, unique_key = self._enriched(header.properties, topic)
        properties, queue_id = routed(properties, queue_id, topic.write_queue_nums)
        self._check_room(len(request.body) + len(properties))
        reconsume_times = header.reconsume_times or 0
        name = topic.topic_name
        self._check_type(topic, properties)
        self._lites.check(topic, properties)
        if _HALF in properties and is_half(properties):
            is_retry = reconsume_times > 0 and self._writer.delay_level(properties) > 0
            if not is_retry:  # else it is a copy of a message that was committed
                if timers.is_delayed(properties):
                    raise Refusal(
                        ResponseCode.MESSAGE_ILLEGAL,
                        "a half message can't be a timer message: send it without TIMER_ properties",
                    )
                self._send_half(request, header, peer, name, queue_id, properties, unique_key)
                return None
        first = self._resends.first_of(name, properties, unique_key)
        if first is not None:
            self._hold_answer(request, peer, [first], first.queue_id, unique_key, properties)
            return None
        if name.startswith(RETRY_PREFIX):
            _check_origin(request, properties)
            name, queue_id, properties = self._retries.redirect_direct_send(
                name, queue_id, properties, reconsume_times, header.max_reconsume_times
            )
        target = TimerTarget(name, queue_id, properties)
        if _TIMER in properties:
            target = self._timers.redirect(*target[:3], self._writer.delay_level(properties), unique_key)
        placed = self._writer.put(target.topic, target.queue_id, sent_draft(request, header, peer, target.properties))
        if target.deliver_ms:
            self._timers.staged(target, name, placed.queue_offset, placed.physical_offset, placed.size_bytes)
        self._stats.message_put(topic.topic_name, 1, placed.size_bytes)
        self._hold_answer(request, peer, [placed], queue_id, unique_key, properties, target.recall_handle)
        return None

    def _send_half(
        self,
        request: Command,
        header: SendHeader,
        peer: Peer,
        topic: str,
        queue_id: int,
        properties: bytes,
        unique_key: str,
    ) -> None:
        """Take a half message. Its answer has the requested queue, and the offset in the half topic's queue."""
        draft = sent_draft(request, header, peer, properties)
        placed = self._transactions.put_half(topic, queue_id, draft, group=header.producer_group, unique_key=unique_key)
        self._hold_answer(request, peer, [placed], queue_id, unique_key, properties)

    def send_batch(self, request: Command, header: SendHeader, peer: Peer) -> Reply | None:
        """Take a batch. It is stored as single messages with consecutive offsets; each has its own properties, then the
        header's. A topic with batch queues gets one record instead, unless the header's have no unique key."""
        topic = self.topic_for(header)
        if topic is None:
            self.make_topic_first(self.send_batch, request, header, peer)
            return None
        queue_id = self.queue_for(header, topic)
        self.check_body(request.body)
        check_flags(header.sys_flag)
        raw = (header.properties or "").encode()
        unique = find_property(raw, b"UNIQ_KEY")
        shared = self._with_own(raw, topic)
        if b"DELAY\x01" in shared or timers.is_delayed(shared) or topic.topic_name.startswith(RETRY_PREFIX):
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                "a batch can't be delayed or go to a retry topic: send its messages one by one",
            )
        try:
            entries = decode_batch(request.body, self._config.batch_count_max)
        except MalformedRecordError as error:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"{error}; nothing of the batch was stored") from error
        for _, _, own in entries:
            self._check_unserved(own)
        flags = header.sys_flag & ~sysflag.TRANSACTION_MASK
        drafts = [
            Draft(
                body, append_properties(sent_properties(own), shared), header.born_timestamp, peer.host_bytes,
                flag=flag, sys_flag=flags,
            )
            for flag, body, own in entries
        ]  # fmt: skip
        self._check_entries(drafts, topic)
        unique_key = None if unique is None else unique.decode("utf-8", "replace")
        if unique_key is not None and has_batch_queues(topic.attributes):
            self._send_inner(request, header, peer, topic.topic_name, queue_id, shared, len(entries), unique_key)
            return None
        placed = self._writer.put_batch(topic.topic_name, queue_id, drafts)
        self._stats.message_put(topic.topic_name, len(placed), sum(each.size_bytes for each in placed))
        self._hold_answer(request, peer, placed, queue_id, unique_key, shared)
        return None

    def _send_inner(
        self,
        request: Command,
        header: SendHeader,
        peer: Peer,
        topic: str,
        queue_id: int,
        properties: bytes,
        count: int,
        unique_key: str,
    ) -> None:
        """Take a batch as one record, an inner batch."""
        if len(properties) + INNER_PROPERTIES_SIZE_MAX_BYTES > SENT_PROPERTIES_MAX_BYTES or count > INNER_COUNT_MAX:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"an inner batch may have {INNER_COUNT_MAX} messages and {SENT_PROPERTIES_MAX_BYTES} bytes of "
                f"properties, this one has {count} and {len(properties)}: send smaller batches with shorter properties",
            )
        draft = sent_draft(request, header, peer, properties)
        draft.reconsume_times = 0  # no batch is a retry
        placed = self._writer.put_inner(topic, queue_id, draft, count)
        self._stats.message_put(topic, count, placed.size_bytes)
        self._hold_answer(request, peer, [placed], queue_id, unique_key, properties, is_inner_batch=True)

    # -- checks --------------------------------------------------------------------------------------------------

    def topic_for(self, header: SendHeader) -> TopicConfig | None:
        """Return the topic that a send goes to; None when there is none of that name. Raises Refusal."""
        name = header.topic
        if not self._config.broker_permission & PERM_WRITE:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker {self._config.broker_name} takes no writes (brokerPermission "
                f"{self._config.broker_permission}): send to another broker or set it to 6",
            )
        if is_send_forbidden(name):
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the topic {name} is the system's own: clients may not send to it; send to a topic of your own",
            )
        topic = self._topics.get(name)
        if topic is not None and not topic.perm & PERM_WRITE:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"topic {name} has permission {topic.perm} without write (2): change it with updateTopicPerm or `pymq "
                f"topic update {name} --perm 6`",
            )
        return topic

    def make_topic_first(self, handler: Handler, request: Command, header: SendHeader, peer: Peer) -> None:
        """Create the topic; ``handler`` takes the send again once it is saved and name servers know it. Raises Refusal.

        So a consumer that learns of the message from its sender finds the topic's route.
        """
        self._retries.check_first_send(header.topic)

        def again() -> Reply | None:
            try:
                return handler(request, header, peer)
            finally:
                self._schedule_turn_end()  # a send that waited for a save is in no turn that commits

        saved = answer_when_registered(request, peer, self._when_registered, again)
        self._topics.make_for_send(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            saved,
            is_unit=bool(header.unit_mode),
        )

    def queue_for(self, header: SendHeader, topic: TopicConfig) -> int:
        """Return the queue asked for, or a random one when the client leaves the choice. Raises Refusal."""
        queue_id = header.queue_id
        if queue_id < 0:
            return self._writer.pick_queue(topic.write_queue_nums)
        if queue_id >= topic.queue_count:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queue {queue_id} of topic {topic.topic_name} does not exist: it has queues 0 to "
                f"{topic.queue_count - 1}",
            )
        return queue_id

    def check_body(self, body: bytes) -> None:
        if not body:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the message body is empty: give it at least one byte")
        limit = self._config.max_message_size_bytes
        if len(body) > limit:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message body has {len(body)} bytes, the limit is {limit}: send less or raise maxMessageSize",
            )

    def _check_entries(self, drafts: list[Draft], topic: TopicConfig) -> None:
        if not drafts:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the batch holds no message")
        limit = sent_properties_max_bytes(len(topic.topic_name))
        for i, draft in enumerate(drafts):
            properties = draft.properties
            if len(properties) > limit:
                raise Refusal(
                    ResponseCode.MESSAGE_ILLEGAL,
                    f"message {i} of the batch has {len(properties)} bytes of properties with the broker's own, the "
                    f"limit is {limit} for a topic name of {len(topic.topic_name)}: shorten keys, tags or properties",
                )
            self._check_room(len(draft.body) + len(properties))
            is_delayed = b"DELAY\x01" in properties and self._writer.delay_level(properties) > 0
            if is_delayed or timers.is_delayed(properties):
                raise Refusal(
                    ResponseCode.MESSAGE_ILLEGAL,
                    f"message {i} of the batch is delayed: send delayed messages one by one",
                )
            if is_half(properties):
                raise _half_in_batch(i)
            self._check_type(topic, properties)
            self._lites.check_batch(topic, properties)

    def _check_type(self, topic: TopicConfig, properties: bytes) -> None:
        """Check the message against the type that its topic takes. Raises Refusal(MESSAGE_ILLEGAL)."""
        if not self._config.topic_message_type_check:
            return
        wanted = wanted_type(topic.attributes)
        if wanted is not None and (problem := type_problem(topic.topic_name, wanted, properties)):
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, problem)

    def _enriched(self, text: str | None, topic: TopicConfig) -> tuple[bytes, str]:
        """Return the raw properties with what the broker adds, and the message's unique key. Raises Refusal."""
        raw = (text or "").encode()
        unique = find_property(raw, b"UNIQ_KEY")
        if unique is None:
            unique_key = self._ids.next_id()
            raw = append_properties(raw, encode_properties({"UNIQ_KEY": unique_key}))
        else:
            unique_key = unique.decode("utf-8", "replace")
        return self._with_own(raw, topic), unique_key

    def _with_own(self, raw: bytes, topic: TopicConfig) -> bytes:
        """Return raw properties with what the broker adds, without what only a broker may set. Raises Refusal."""
        self._check_unserved(raw)
        raw = sent_properties(raw, to_retry_topic=topic.topic_name.startswith(RETRY_PREFIX))
        raw = append_properties(raw, self._writer.enrichment)
        limit = sent_properties_max_bytes(len(topic.topic_name))
        if len(raw) > limit:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties take {len(raw)} bytes with the broker's own, the limit is {limit} for a topic name of "
                f"{len(topic.topic_name)}: shorten keys, tags or properties",
            )
        return raw

    def _check_room(self, size_bytes: int) -> None:
        """Refuse what could not be stored again elsewhere, with more properties. ``size_bytes``: body and properties.

        Only brokers with tiny segments have messages of that size.
        """
        limit = self._config.mapped_file_size_commit_log_bytes - STORED_AGAIN_MAX_BYTES
        if size_bytes > limit:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"body and properties take {size_bytes} bytes, the limit is {limit}, so that the broker can store the "
                "message again: send less, or set mappedFileSizeCommitLog for a new data directory",
            )

    def _check_unserved(self, properties: bytes) -> None:
        """Refuse levels that are no number, which would be delivered at once, and recalls without their request."""
        if b"DELAY\x01" in properties:
            _check_delay(properties)
        if timers.DELETE_KEY in properties and find_property(properties, timers.DELETE_KEY) is not None:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the property {timers.DELETE_KEY.decode()} takes a message back, and only the broker may write it: "
                "send the recall of its handle (RECALL_MESSAGE)",
            )

    # -- the answer ----------------------------------------------------------------------------------------------

    def _hold_answer(
        self,
        request: Command,
        peer: Peer,
        placed: Sequence[Placed | StoredMessage],
        queue_id: int,
        unique_key: str | None,
        properties: bytes,
        recall_handle: str = "",
        *,
        is_inner_batch: bool = False,
    ) -> None:
        if request.is_oneway:
            return
        host = self._store_host
        answer = SendMessageAnswer(
            message_id=",".join([encode_offset_id(host, each.physical_offset) for each in placed]),
            queue_id=queue_id,
            queue_offset=placed[0].queue_offset,
            transaction_id=unique_key,
            recall_handle=recall_handle or None,
            batch_unique_id=unique_key if is_inner_batch else None,
        )
        frame = encode_command(Reply(ext=answer).to_command(request))
        self._writer.hold(peer, frame, properties)  # type: ignore[arg-type]


def check_flags(sys_flag: int) -> None:
    reason = sysflag.contradiction(sys_flag)
    if reason:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the sysFlag {sys_flag} contradicts itself: {reason}")


def _check_origin(request: Command, properties: bytes) -> None:
    """Refuse a retry of a topic that its sender may not read: who resends a dead letter believes that name."""
    origin = find_property(properties, RETRY_TOPIC.encode())
    if origin is None or request.sender is None or request.sender.may_read(name := origin.decode("utf-8", "replace")):
        return
    raise Refusal(
        ResponseCode.NO_PERMISSION,
        f"the property {RETRY_TOPIC} names topic {name[:TOPIC_LENGTH_MAX]}, which {request.sender.name} may not read: "
        "send the copy without it, or get the permission SUB",
    )


def _half_in_batch(number: int) -> Refusal:
    text = f"message {number} of the batch is transactional (TRAN_MSG=true): send its half message alone"
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, text)


def _check_delay(properties: bytes) -> None:
    level = find_property(properties, b"DELAY")
    if level is not None and not _DELAY_LEVEL.fullmatch(level):
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the delay level {level[:20].decode('utf-8', 'replace')!r} (property DELAY) is not a number: write 0 for "
            "no delay, or 1 to 18 by default",
        )
