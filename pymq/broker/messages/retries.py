"""Retries: sends a message that a consumer gave back to its retry topic, or to the dead letters.

It waits in ``%RETRY%group`` with growing delays. After the group's last try it goes to ``%DLQ%group``.
Java: AbstractSendMessageProcessor.consumerSendMsgBack and SendMessageProcessor.handleRetryAndDLQ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.errors import CorruptRecordError, NotFoundError, Refusal
from pymq.model import names
from pymq.model import properties as props
from pymq.model.access import owning_group
from pymq.model.inner_batch import is_inner_batch
from pymq.model.properties import decode_properties, encode_properties
from pymq.model.record import StoredMessage, decode_record
from pymq.model.tables import PERM_WRITE, SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.store.store import MessageStore
    from pymq.wire.headers.send import ConsumerSendMsgBackHeader

FIRST_RETRY_LEVEL = 3
DLQ_QUEUE_COUNT = 1
# MQVersion V3_4_9: older clients sent a wrong limit of their own.
VERSION_WITH_LIMIT = 121
# Left by an earlier delayed delivery. They would send the message back to where it was.
_STALE = (props.DELAY, props.REAL_TOPIC, props.REAL_QUEUE_ID)


class Retries:
    """Stages messages in retry and dead-letter topics; the turn's commit stores them."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        writer: Writer,
        store: MessageStore,
        stats: StatsManager,
    ) -> None:
        self._config = runtime.config
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._leaser = metadata.leaser
        self._writer = writer
        self._store = store
        self._stats = stats

    def send_back(
        self,
        header: ConsumerSendMsgBackHeader,
        version: int,
        check_topic: Callable[[str], None] = lambda topic: None,
    ) -> bool:
        """Stage the message at ``header.offset`` for another try, or as a dead letter after the last one.

        Return False when nothing is stored, because the group has no retry queues or the message's topic was deleted
        since. ``version`` is the client's.
        ``check_topic`` raises Refusal when the sender may not have a record of that topic.

        Raises Refusal: SUBSCRIPTION_GROUP_NOT_EXIST, NO_PERMISSION, SYSTEM_ERROR when no message is there.
        """
        group = self._groups.ensure(header.group)
        if not self._config.broker_permission & PERM_WRITE:
            raise Refusal(
                ResponseCode.NO_PERMISSION, f"{self._config.broker_name} takes no writes: set brokerPermission=6"
            )
        if group.retry_queue_nums <= 0:
            return False
        message = self._message_at(header.offset)
        check_topic(message.topic)
        properties = self._retry_properties(message)
        if self._store.deletions.covers(properties.get(props.RETRY_TOPIC, message.topic), message.physical_offset):
            return False
        limit = _limit(group, header.max_reconsume_times if version >= VERSION_WITH_LIMIT else None)
        if message.reconsume_times >= limit or header.delay_level < 0:
            target = self._dead_letter_topic(header.group)
            _mark_dead(properties, message)
        else:
            target = self._topics.ensure_internal(names.retry_topic(header.group), group.retry_queue_nums)
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
            properties[props.DELAY] = str(min(level, len(self._config.delay_level_ms)))
        self._put(target, message, properties, redirect_delay=True)
        origin = properties.get(props.RETRY_TOPIC, message.topic)
        self._stats.message_sent_back(origin, header.group)
        if target.topic_name == names.dlq_topic(header.group):
            self._stats.message_dead(origin, header.group)
        return True

    def bury(self, message: StoredMessage, group: str, topic: str) -> None:
        """Stage a dead letter for a popped message of ``topic`` after the group's last try. Raises PymqError."""
        properties = self._retry_properties(message)
        properties.pop(props.POP_CK, None)
        properties[props.RETRY_TOPIC] = topic
        _mark_dead(properties, message)
        target = self._dead_letter_topic(group)
        self._put(target, message, properties, redirect_delay=False)
        self._stats.message_dead(topic, group)

    def redirect_direct_send(
        self, topic: str, queue_id: int, properties: bytes, reconsume_times: int, max_reconsume_times: int | None
    ) -> tuple[str, int, bytes]:
        """Return topic, queue and properties for a client's own send to ``%RETRY%group``, or ``%RETRY%group+topic``.

        They are unchanged, or the group's dead letters when its tries are used up or it consumes in order: an ordered
        group retries in place, and sends away only what it gives up. Raises Refusal(SUBSCRIPTION_GROUP_NOT_EXIST).
        """
        name = owning_group(topic) or ""
        group = self._groups.ensure(name)
        if reconsume_times <= _limit(group, max_reconsume_times) and not self._leaser.is_ordered(name):
            return topic, queue_id, properties
        target = self._dead_letter_topic(name)
        _refuse_unwritable(target)
        kept = decode_properties(properties)
        for stale in _STALE:
            kept.pop(stale, None)
        self._stats.message_dead(kept.get(props.RETRY_TOPIC, topic), name)
        return target.topic_name, self._writer.pick_queue(target.write_queue_nums), encode_properties(kept)

    def check_first_send(self, topic: str) -> None:
        """Check that a first send may make a retry or dead-letter topic; every other topic passes.

        Its group must exist. RocketMQ makes the topic for any name, so a stranger could make them without end. A real
        consumer's heartbeat has made the group and its retry topic before.

        Raises Refusal(SUBSCRIPTION_GROUP_NOT_EXIST).
        """
        group = owning_group(topic)
        if group is not None:
            self._groups.require(group)

    def _message_at(self, offset: int) -> StoredMessage:
        try:
            message = decode_record(self._store.record_at(offset))
        except (NotFoundError, CorruptRecordError) as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}: {error}") from error
        if is_inner_batch(message):
            text = f"MESSAGE_ILLEGAL: {offset} is an inner batch, and retry topics hold single messages: send those"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        if message.topic in names.WAITING_TOPICS:
            raise Refusal(ResponseCode.SYSTEM_ERROR, names.hidden_text(message.topic))
        return message

    def _retry_properties(self, message: StoredMessage) -> dict[str, str]:
        properties = dict(message.properties)
        for stale in _STALE:
            properties.pop(stale, None)
        if message.topic.startswith(names.RETRY_PREFIX):
            properties.setdefault(props.RETRY_TOPIC, message.topic)
            properties.setdefault(props.ORIGIN_MESSAGE_ID, message.offset_message_id)
        else:  # whatever its producer wrote there
            properties[props.RETRY_TOPIC] = message.topic
            properties[props.ORIGIN_MESSAGE_ID] = message.offset_message_id
        properties[props.WAIT] = "false"
        return properties

    def _put(
        self, target: TopicConfig, message: StoredMessage, properties: dict[str, str], *, redirect_delay: bool
    ) -> None:
        _refuse_unwritable(target)
        self._writer.put_again(
            message,
            target.topic_name,
            self._writer.pick_queue(target.write_queue_nums),
            encode_properties(properties),
            reconsume_times=message.reconsume_times + 1,
            redirect_delay=redirect_delay,
        )

    def _dead_letter_topic(self, group: str) -> TopicConfig:
        return self._topics.ensure_internal(names.dlq_topic(group), DLQ_QUEUE_COUNT)


def _limit(group: SubscriptionGroupConfig, wanted: int | None) -> int:
    return group.retry_max_times if wanted is None else wanted


def _mark_dead(properties: dict[str, str], message: StoredMessage) -> None:
    properties[props.DLQ_ORIGIN_TOPIC] = properties.get(props.RETRY_TOPIC, message.topic)
    properties[props.DLQ_ORIGIN_MESSAGE_ID] = properties[props.ORIGIN_MESSAGE_ID]


def _refuse_unwritable(topic: TopicConfig) -> None:
    if not topic.writable:
        text = f"topic {topic.topic_name} has permission {topic.perm} without write (2): change it with updateTopicPerm"
        raise Refusal(ResponseCode.NO_PERMISSION, text)
