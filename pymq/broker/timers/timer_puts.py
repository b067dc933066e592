"""TimerPuts: turns a message with a delay in ms, in seconds or to a time into a record of the wheel's topic.

Java: HookUtils.handleScheduleMessage, SendMessageProcessor.attachRecallHandle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.model import timers
from pymq.model.layout import SENT_PROPERTIES_MAX_BYTES
from pymq.model.names import RETRY_PREFIX, TIMER_TOPIC
from pymq.model.properties import append_properties, find_property, without_properties
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.timers.timer_service import TimerService

UNLIMITED_COUNT = 2**31 - 1  # timerCongestNumEachSlot's default: no limit


class TimerTarget(NamedTuple):
    """Where a message goes now. ``recall_handle`` is empty for one that can't be recalled.

    ``deliver_ms``: when it is due (Unix ms); 0 for one that does not go to the wheel's topic.
    """

    topic: str
    queue_id: int
    properties: bytes
    recall_handle: str = ""
    deliver_ms: int = 0


class TimerPuts:
    """Decides about the delay of one message that is being sent."""

    def __init__(self, config: BrokerConfig, clock: Clock, service: TimerService) -> None:
        self._config = config
        self._clock = clock
        self._service = service

    def redirect(self, topic: str, queue_id: int, properties: bytes, level: int, unique_key: str) -> TimerTarget:
        """Return the place in the wheel's topic, or the given one for a message that is due already.

        A delay ``level`` above 0 counts more than the other delays, which are then removed. Raises Refusal:
        SYSTEM_ERROR while timer messages are switched off or a slot is full, MESSAGE_ILLEGAL for a bad delay.
        """
        if level > 0:
            return TimerTarget(topic, queue_id, without_properties(properties, timers.DELAYS))
        delay = timers.delay_of(properties)
        if delay is None:
            return TimerTarget(topic, queue_id, properties)
        config = self._config
        if not config.timer_wheel_enable:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false: send with a delay level (1 to 18), "
                "or set timerWheelEnable=true",
            )
        now_ms = self._clock.now_ms()
        try:
            deliver_ms = timers.delay_ends_ms(*delay, now_ms)
        except ValueError as error:
            raise self._illegal(str(error)) from error
        if deliver_ms <= now_ms:
            if find_property(properties, timers.DELETE_KEY) is not None:
                raise self._illegal(f"a recall for {deliver_ms} ms, which is past ({now_ms})")
            return TimerTarget(topic, queue_id, properties)
        if deliver_ms - now_ms > config.timer_max_delay_s * 1000:
            raise self._illegal(f"this one is {deliver_ms - now_ms} ms: send it later, or raise the limit")
        slot_ms = timers.out_ms(deliver_ms, config.timer_precision_ms)
        self._check_room(slot_ms)
        added = f"TIMER_OUT_MS\x01{slot_ms}\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02".encode()
        size = len(properties) + len(topic.encode()) + timers.ADDED_BYTES_MAX
        if size > SENT_PROPERTIES_MAX_BYTES:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties take {size} bytes with the timer's own, the limit is {SENT_PROPERTIES_MAX_BYTES}: "
                f"shorten keys, tags or properties",
            )
        handle = ""
        if config.recall_message_enable and not topic.startswith(RETRY_PREFIX):
            handle = timers.RecallHandle(topic, config.broker_name, slot_ms + 1, unique_key).encode()
        return TimerTarget(TIMER_TOPIC, 0, append_properties(properties, added), handle, deliver_ms)

    def staged(self, target: TimerTarget, real_topic: str, queue_offset: int, physical_offset: int, size: int) -> None:
        """Tell the wheel of a message that was staged, so that it need not read it."""
        if b"TIMER_DEL_UNIQKEY" not in target.properties:
            self._service.note_put(
                queue_offset, physical_offset, size, real_topic, target.deliver_ms, self._clock.now_ms()
            )

    def _check_room(self, slot_ms: int) -> None:
        limit = self._config.timer_congest_num_each_slot
        if limit < UNLIMITED_COUNT and self._service.slot_count(slot_ms) >= limit:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"timer message is under flow control, {limit} messages (timerCongestNumEachSlot) wait for {slot_ms}: "
                "choose another time, or raise the limit",
            )

    def _illegal(self, found: str) -> Refusal:
        return Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{self._config.timer_max_delay_s * 1000}ms (timerMaxDelaySec); or if set del msg, the delay time should "
            f"be bigger than the current time: {found}",
        )
