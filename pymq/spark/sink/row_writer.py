"""Writes the rows of one task to topics: encodes a batch while the client sends the batches before it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pymq.client.loop_thread import LoopThread, shared
from pymq.client.queue_sends import QueueSends
from pymq.errors import UsageError
from pymq.model.message import MessageQueue
from pymq.security.credentials import Credentials
from pymq.spark.sink.message_properties import RowError
from pymq.spark.sink.message_rows import Requests, RowEncoder
from pymq.spark.sink.options import WriteSettings
from pymq.spark.tasks.progress import RowSender

SLICES_PER_S = 5  # with a limit on rows a second


class RowWriter:
    """One task of a write. ``counts`` has the rows of each topic that brokers have stored, once :meth:`write` is done.

    ``dead_letters`` counts the rows in the dead-letter file.
    """

    def __init__(
        self,
        settings: WriteSettings,
        write_id: str,
        partition: int,
        *,
        loop: LoopThread = shared,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.dead_letters = 0
        self._settings = settings
        self._partition = partition
        self._loop = loop
        self._monotonic, self._sleep = monotonic, sleep
        self._rows = 0
        self._queues: dict[str, list[MessageQueue]] = {}
        self._sends: QueueSends | None = None
        self._encoder = RowEncoder(
            write_id,
            partition,
            self._queues_of,
            topic=settings.topic,
            copies_properties=settings.copies_properties,
            body_size_max_bytes=settings.body_size_max_bytes,
        )
        self._dead = DeadLetters(settings.dead_letters, f"{write_id}\n{partition}")

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Return when brokers have stored all rows.

        Raises UsageError that names the first row that can't be sent; of its batch nothing is sent then. Also raises
        what a topic's look-up raises, RefusedError, and UnreachableError after the retry budget.
        """
        settings = self._settings
        progress = RowSender(settings.progress, str(self._partition))
        try:
            begun_s = self._monotonic()
            for batch in self._slices(batches):
                self._write(batch)
                progress.add(batch.num_rows)
                if settings.rows_per_s_max:
                    self._sleep(max(begun_s + self._rows / settings.rows_per_s_max - self._monotonic(), 0))
            if self._sends is not None:
                self._loop.call(self._sends.flush())
            self._dead.commit()
        finally:
            progress.close()
            self._dead.discard()
            if self._sends is not None:
                self._loop.call(self._sends.stop())

    def _slices(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, in short pieces if rows are to leave slowly."""
        rows_per_s = self._settings.rows_per_s_max
        if not rows_per_s:
            yield from batches
            return
        size = max(1, rows_per_s // SLICES_PER_S)
        for batch in batches:
            for first in range(0, batch.num_rows, size):
                yield batch.slice(first, size)

    def _write(self, batch: pa.RecordBatch) -> None:
        try:
            found = self._encoder.encode(batch)
            self._keep_unsendable(batch, found)
        except RowError as error:
            raise UsageError(
                f"row {self._rows + error.row} of task {self._partition}: {error}; the {self._rows} rows of this task "
                "before its batch may have been sent"
            ) from None
        self._loop.call(self._opened().put(found.requests))
        self.counts.update(found.counts)
        self._rows += batch.num_rows

    def _keep_unsendable(self, batch: pa.RecordBatch, found: Requests) -> None:
        if not found.unsendable:
            return
        if not self._settings.dead_letters:
            first = min(found.unsendable)
            raise RowError(first.row, f"{first.reason}: {first.next_step}, or set deadLetterPath for such rows")
        self._dead.add(batch, {one.row: one.reason for one in found.unsendable})
        self.dead_letters += len(found.unsendable)

    def _queues_of(self, topic: str) -> list[MessageQueue]:
        if topic not in self._queues:
            self._queues[topic] = self._loop.call(self._opened().queues(topic))
        return self._queues[topic]

    def _opened(self) -> QueueSends:
        if self._sends is None:
            self._sends = open_sends(self._settings)
            self._loop.call(self._sends.start())
        return self._sends


def open_sends(settings: WriteSettings) -> QueueSends:
    """Return the client of a write."""
    return QueueSends(
        settings.group,
        settings.namesrv,
        retry_budget_s=settings.retry_budget_s,
        credentials=Credentials.find(settings.credentials),
    )


class DeadLetters:
    """A Parquet file of the rows that no broker takes, with the column ``reason``.

    A task that is repeated replaces it.
    """

    def __init__(self, directory: str, task: str) -> None:
        """``task`` names the task of a write; the file's name is made of it."""
        self._path = Path(directory) / f"{blake2b(task.encode(), digest_size=12).hexdigest()}.parquet"
        self._temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> None:
        """Add rows, by their place in the batch."""
        rows = sorted(reasons)
        chosen = batch.take(pa.array(rows)).append_column("reason", pa.array([reasons[row] for row in rows]))
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._temporary, chosen.schema, compression="zstd")
        self._writer.write_batch(chosen)

    def commit(self) -> None:
        """Make the file visible."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            descriptor = os.open(self._temporary, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            self._temporary.replace(self._path)

    def discard(self) -> None:
        """Remove what is not committed."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._temporary.unlink(missing_ok=True)
