"""FastTimerPuts: the fast path of a plain timer message, as :mod:`pymq.broker.fast.send` has it for plain messages.

The plain path is :class:`~pymq.broker.timers.timer_puts.TimerPuts` within
:class:`~pymq.broker.handlers.send.SendHandlers`; a property test compares records and answers of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.errors import Refusal
from pymq.model import sysflag
from pymq.model.names import TIMER_TOPIC
from pymq.model.properties import tags_code_of

if TYPE_CHECKING:
    from pymq.broker.fast.header import SendExt
    from pymq.broker.fast.targets import SendTargets
    from pymq.broker.messages.writer import Writer
    from pymq.broker.timers.timer_puts import TimerPuts
    from pymq.net.server import Connection
    from pymq.store.store import PlainStager

_NO_TRANSACTION = ~sysflag.TRANSACTION_MASK


class FastTimerPuts:
    """Stages plain timer messages."""

    def __init__(self, timers: TimerPuts, writer: Writer, stager: PlainStager, targets: SendTargets) -> None:
        self._timers = timers
        self._writer = writer
        self._stager = stager
        self._targets = targets
        self._enrichment = writer.enrichment

    def put(
        self, connection: Connection, body: bytes, ext: SendExt, raw: bytes, unique_key: bytes
    ) -> tuple[int, int, bytes] | None:
        """Stage the message; return its physical offset, its offset in the wheel's topic, and its recall handle.

        The handle is empty for a message that can't be recalled. None when the plain path must decide, and nothing is
        staged. Raises StoreError.
        """
        target = self._targets.get((ext.b, ext.e)) or self._targets.find(ext.b, ext.e)
        if target is None:
            return None
        try:
            goes = self._timers.redirect(ext.b, ext.e, raw + self._enrichment, 0, unique_key.decode())
        except Refusal:
            return None  # the plain path refuses it as well, and answers
        wheel = self._stager.queue(TIMER_TOPIC, 0)
        if goes.topic != TIMER_TOPIC or wheel is None:
            return None
        queue_offset = wheel.next_offset
        physical_offset, size = self._stager.stage(
            wheel,
            body,
            goes.properties,
            raw,
            tags_code_of(goes.properties),
            ext.h,
            ext.f & _NO_TRANSACTION,
            ext.g,
            connection.host_bytes,
        )
        self._timers.staged(goes, ext.b, queue_offset, physical_offset, size)
        meter = target.meter
        meter.count += 1
        meter.calls += 1
        meter.size_bytes += size
        self._writer.staged_count += 1
        return physical_offset, queue_offset, goes.recall_handle.encode()
