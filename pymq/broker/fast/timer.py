"""FastTimerPuts: the fast path of a plain timer message, as :mod:`pymq.broker.fast.send` has it for plain messages.

The plain path is :class:`~pymq.broker.timers.timer_puts.TimerPuts` within
:class:`~pymq.broker.handlers.send.SendHandlers`; a property test compares records and answers of the two.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from typing import TYPE_CHECKING

from pymq.broker.fast.tags import take_tags
from pymq.broker.timers.timer_puts import UNLIMITED_COUNT
from pymq.model.layout import SENT_PROPERTIES_MAX_BYTES
from pymq.model.names import TIMER_TOPIC
from pymq.model.timers import ADDED_BYTES_MAX

if TYPE_CHECKING:
    from pymq.broker.fast.header import SendExt
    from pymq.broker.fast.targets import SendTargets, Target
    from pymq.broker.messages.writer import Writer
    from pymq.broker.timers.timer_service import TimerService
    from pymq.clock import Clock
    from pymq.config import BrokerConfig
    from pymq.model.draft import Draft
    from pymq.store.store import PlainStager

_SIZE_MAX_BYTES = SENT_PROPERTIES_MAX_BYTES - ADDED_BYTES_MAX
_SEPARATOR = 2  # closes a property
_DELAY = re.compile(rb"TIMER_DEL(AY_SEC|AY_MS|IVER_MS)\x01([0-9]{1,15})\x02")
_SECONDS, _TIME = b"AY_SEC", b"IVER_MS"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_KNOWN_COUNT_MAX = 1024  # many messages wait for one slot: those of a common delay


class FastTimerPuts:
    """Stages plain timer messages: those with one delay, that wait and are due within the limit."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        service: TimerService,
        writer: Writer,
        stager: PlainStager,
        targets: SendTargets,
    ) -> None:
        self._config = config
        self._clock = clock
        self._service = service
        self._writer = writer
        self._stage = stager.stage
        self._targets = targets
        self._enrichment = writer.enrichment
        self._known: dict[tuple[Target, int], tuple[bytes, bytes]] = {}
        self._delays: dict[bytes, tuple[bool, int]] = {}  # durations by their property

    def put(self, ext: SendExt, draft: Draft, unique_key: bytes) -> tuple[int, int, bytes] | None:
        """Stage the message; return its physical offset, its offset in the wheel's topic, and its recall handle.

        FastSends makes the draft; its properties become those of the waiting message. The handle is empty for a message
        that can't be recalled. None when the plain path must decide, and nothing is staged. Raises StoreError.
        """
        raw, topic, config = draft.keyed, ext.topic, self._config
        target = self._targets.get((topic, ext.queue_id)) or self._targets.find(topic, ext.queue_id)
        wheel = self._targets.waiting_queue(TIMER_TOPIC)
        at = raw.find(b"TIMER_")
        end = raw.find(b"\x02", at) + 1
        delay = self._delays.get(raw[at:end]) or self._read_delay(raw[at:end])
        if (
            target is None
            or wheel is None
            or delay is None
            or (at and raw[at - 1] != _SEPARATOR)
            or raw.find(b"TIMER_", end) >= 0
            or not config.timer_wheel_enable
            or config.timer_congest_num_each_slot < UNLIMITED_COUNT
        ):
            return None
        is_time, deliver_ms = delay
        now_ms = self._clock.now_ms()
        if not is_time:
            deliver_ms += now_ms
        precision_ms = config.timer_precision_ms
        slot_ms = (deliver_ms - 1) // precision_ms * precision_ms  # out_ms, written out
        known = self._known.get((target, slot_ms))
        added, handle = known if known is not None else self._learn(target, slot_ms)
        properties = raw + added
        if not 0 < deliver_ms - now_ms <= config.timer_max_delay_s * 1000 or len(properties) > _SIZE_MAX_BYTES:
            return None
        if not take_tags(draft, raw):
            return None
        queue_offset = wheel.next_offset
        draft.properties = properties
        physical_offset, size = self._stage(wheel, draft)
        self._service.note_put(queue_offset, physical_offset, size, topic, deliver_ms, now_ms)
        target.meter.add(1, size)
        self._writer.staged_count += 1
        if not config.recall_message_enable:
            return physical_offset, queue_offset, b""
        # As RecallHandle.encode.
        return physical_offset, queue_offset, b2a_base64(handle + unique_key, newline=False).translate(_URL_SAFE)

    def _read_delay(self, text: bytes) -> tuple[bool, int] | None:
        """Return whether a property of a delay has a time and not a duration, and its ms; None for another one."""
        found = _DELAY.fullmatch(text)
        if found is None:
            return None
        kind, number = found.groups()
        if kind == _TIME:
            return True, int(number)
        if len(self._delays) >= _KNOWN_COUNT_MAX:
            self._delays.clear()
        self._delays[text] = delay = False, int(number) * (1000 if kind == _SECONDS else 1)
        return delay

    def _learn(self, target: Target, slot_ms: int) -> tuple[bytes, bytes]:
        """Return what messages of a target and a slot share: properties behind theirs, the begin of the handle."""
        added = b"%bTIMER_OUT_MS\x01%d\x02%b" % (self._enrichment, slot_ms, target.real)
        handle = f"v1 {target.queue.topic} {self._config.broker_name} {slot_ms + 1} ".encode()
        if len(self._known) >= _KNOWN_COUNT_MAX:
            self._known.clear()
        self._known[target, slot_ms] = added, handle
        return added, handle
