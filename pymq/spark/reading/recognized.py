"""Reads a range of a queue that is still the planned one, at brokers that don't say whether its topic was made again.

A broker of PyMQ refuses the pulls of such a range by itself. At others one known record is looked at before the range
is read and after that.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import pyarrow as pa

from pymq.errors import ProtocolViolation, UnreachableError
from pymq.spark.planning.ranges import DataLossError
from pymq.spark.planning.single_records import digest_at, pull_of_one
from pymq.spark.reading.reader import BACKOFF_FIRST_S, BACKOFF_MAX_S, RangeReader
from pymq.units import format_count
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.pull import PullMessageAnswer


class RecognizedReader(RangeReader):
    """A :class:`RangeReader` that looks at the record of the range's identity first and last."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order of their offsets; none where the queue is another one by now, which is a loss.

        Raises what :meth:`RangeReader.batches` does, and DataLossError when that happened while it was read.
        """
        if not self._is_same():
            self.lost += self._part.count
            if self._settings.on_data_loss == "fail":
                count = format_count(self._part.count, "message")
                raise DataLossError(
                    f"{self._part}: {count} are gone: the topic was deleted and made again after the read was planned"
                )
            return
        yield from super().batches()
        if not self._is_same():
            raise DataLossError(
                f"{self._part}: the topic was deleted and made again while this was read, and rows of both came: read "
                "it again"
            )

    def _is_same(self) -> bool:
        """Return False where another record has the known one's offset, or a master's queue ends before that.

        A record that was deleted by its age says nothing.
        """
        identity = self._part.identity
        assert identity is not None
        begun_s = self._monotonic()
        for turn in itertools.count():
            address = self._part.addresses[turn % len(self._part.addresses)]
            try:
                with self._open_remote(address, self._settings.timeout_s) as remote:
                    answer = remote.ask(pull_of_one(self._part.topic, self._part.queue_id, identity.offset))
            except UnreachableError:
                if self._monotonic() - begun_s >= self._settings.retry_budget_s:
                    raise
                self._sleep(min(BACKOFF_FIRST_S * 2 ** min(turn, 10), BACKOFF_MAX_S))
                continue
            if (digest := digest_at(answer, identity.offset)) is not None:
                return digest == identity.digest
            is_masters = self._part.has_master and address == self._part.addresses[0]
            return not is_masters or _end_in(answer) > identity.offset
        raise AssertionError


def _end_in(answer: Command) -> int:
    """Return the queue's end as a pull's answer says it; of another answer, a number that no queue reaches."""
    try:
        return decode_header(PullMessageAnswer, answer.ext).max_offset
    except ProtocolViolation:
        return sys.maxsize
