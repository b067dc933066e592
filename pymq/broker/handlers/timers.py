"""RECALL_MESSAGE (370): takes back a timer message that is not due yet. The progress of timers: 60 and 61.

Java: RecallMessageProcessor. A recall is itself a timer message for the same slot, which names the one to leave out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model import timers
from pymq.model.draft import Draft
from pymq.model.properties import PRODUCER_GROUP, TAGS, TIMER_DELIVER_MS, UNIQ_KEY, encode_properties
from pymq.model.timers import RecallHandle
from pymq.store.disk.timer_checkpoint import encode_timer_check
from pymq.wire.bodies_client import encode_body
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, encode_command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.send import RecallMessageAnswer, RecallMessageHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.timers.timer_puts import TimerPuts
    from pymq.broker.timers.timer_service import TimerService
    from pymq.store.store import MessageStore

_BODY = b"0"


class TimerHandlers:
    """Stages recalls; the answer waits in the writer for the turn's commit."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        store: MessageStore,
        topics: TopicManager,
        writer: Writer,
        timer_puts: TimerPuts,
        timer_service: TimerService,
    ) -> None:
        self._config = runtime.config
        self._clock = runtime.clock
        self._store = store
        self._topics = topics
        self._writer = writer
        self._timer_puts = timer_puts
        self._timer_service = timer_service

    def recall(self, request: Command, header: RecallMessageHeader, peer: Peer) -> Reply | None:
        """Store that the message is not to be delivered.

        Raises Refusal: NO_PERMISSION while recalls are switched off, TOPIC_NOT_EXIST, ILLEGAL_OPERATION for a handle
        that is unreadable, of another topic or broker, or of a time that is over or too far. A handle of a message that
        was never stored is taken too, as RocketMQ's brokers take it: what it takes back never comes.
        """
        if not self._config.recall_message_enable:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                "recall failed, operation is forbidden: set recallMessageEnable=true on the broker",
            )
        if self._topics.get(header.topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
        handle = self._checked(header)
        properties = {
            TAGS: timers.RECALL_TAG,
            timers.DELETE_KEY.decode(): timers.delete_key(handle.topic, handle.unique_key),
            UNIQ_KEY: handle.unique_key,
            TIMER_DELIVER_MS: str(handle.deliver_ms),
            "BORN_TIMESTAMP": str(self._clock.now_ms()),
            PRODUCER_GROUP: header.producer_group or "",
        }
        target = self._timer_puts.redirect(handle.topic, 0, encode_properties(properties), 0, handle.unique_key)
        draft = Draft(_BODY, target.properties, self._clock.now_ms(), peer.host_bytes)
        self._writer.put(target.topic, target.queue_id, draft)
        if not request.is_oneway:
            answer = Reply(ext=RecallMessageAnswer(message_id=handle.unique_key))
            self._writer.hold(peer, encode_command(answer.to_command(request)), target.properties)  # type: ignore[arg-type]
        return None

    def check_point(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return how far timers are delivered, as the bytes of RocketMQ's checkpoint."""
        return Reply(body=encode_timer_check(self._timer_service.checkpoint_fields()))

    def metrics(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return how many timer messages wait for each topic."""
        return Reply(body=encode_body(self._timer_service.counts.as_table()))

    def _checked(self, header: RecallMessageHeader) -> RecallHandle:
        try:
            handle = timers.decode_handle(header.recall_handle)
        except ValueError as error:
            raise _illegal(f"recall handle is invalid: {error}") from error
        if handle.topic != header.topic:
            raise _illegal(
                f"recall failed, topic not match: the handle is of {handle.topic!r}, not of {header.topic!r}"
            )
        if handle.broker_name != self._config.broker_name:
            raise _illegal(
                f"recall failed, broker service not available: the handle is of {handle.broker_name!r}, this is "
                f"{self._config.broker_name!r}: ask that broker"
            )
        left_ms = handle.deliver_ms - self._clock.now_ms()
        if left_ms <= 0:
            raise _illegal("recall failed, timestamp invalid: the message is due or delivered, it can't be recalled")
        if left_ms >= self._config.timer_max_delay_s * 1000:
            raise _illegal(
                f"recall failed, timestamp invalid: it is {left_ms} ms ahead, the limit is timerMaxDelaySec "
                f"({self._config.timer_max_delay_s} s)"
            )
        return handle


def _illegal(text: str) -> Refusal:
    return Refusal(ResponseCode.ILLEGAL_OPERATION, text)
