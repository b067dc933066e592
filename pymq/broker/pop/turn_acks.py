"""TurnAcks: the acknowledgements of one turn. All those of a check point become one record with the turn's commit.

RocketMQ writes a record for each acknowledgement, and reads a record of many as well as of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.messages.held_answers import AnswerTo, HeldAnswers, hold, refuse
from pymq.broker.pop.check_points import CheckPoint
from pymq.broker.pop.revive_log import ReviveLog
from pymq.errors import StoreError
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.store.store import PlainStager


class TurnAcks:
    """Gathers acknowledgements, and their answers in ``held``, which leave once the commit has the records."""

    def __init__(self, *, stager: PlainStager, writer: Writer, revive_log: ReviveLog) -> None:
        self._stager = stager
        self._writer = writer
        self._log = revive_log
        self._points: list[CheckPoint] = []
        self.held: HeldAnswers = {}

    def add(self, point: CheckPoint, bits: int) -> None:
        """Acknowledge messages of a check point by their bits. Raises StoreUnavailableError; then it has no effect."""
        if not point.turn_acks:
            self._stager.check_writable()
            if not self._points:
                self._writer.before_commit(self._stage)
            self._points.append(point)
        point.turn_acks |= bits

    def hold(self, peer: AnswerTo, frame: bytes) -> None:
        """Keep the ready answer to an acknowledgement of this turn."""
        hold(self.held, peer, frame)

    def _stage(self) -> None:
        """Stage the records. When the store takes none any more, refuse the acknowledgements."""
        points, self._points = self._points, []
        held, self.held = self.held, {}
        try:
            for point in points:
                self._log.put_ack(point, point.turn_acks)
        except (StoreError, OSError) as error:
            refuse(held, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        else:
            self._writer.hold_all(held)
        finally:
            for point in points:
                point.turn_acks = 0
