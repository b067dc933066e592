"""The sink ``df.write.format("pymq")``: rows become messages, in batches of Arrow.

It and the sink of streams (:mod:`pymq.spark.sink.stream_sink`) write at least once: a task that is repeated sends its
rows again, with the same message ids.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pymq.client.loop_thread import shared
from pymq.errors import UsageError
from pymq.spark.places.places import write_durably
from pymq.spark.sink.options import WriteOptions, WriteSettings
from pymq.spark.sink.row_writer import RowWriter, open_sends
from pymq.spark.sink.write_columns import check_write_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass
class Stored(WriterCommitMessage):  # type: ignore[misc]
    """What a task has written: the rows of each topic, and those in its dead-letter file."""

    counts: dict[str, int]
    dead_letters: int


class TopicWrite:
    """What both kinds of writers do."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrites: bool) -> None:
        """Raise UsageError for an illegal option or column, and what the look-up of the option's topic raises."""
        if overwrites:
            raise UsageError(
                'messages can only be added: write with mode("append"), a stream with outputMode "append"; with '
                '"update" it is written by foreachBatch(pyspark_pymq.batch_writer(topic=NAME))'
            )
        self._settings = options.settings()
        check_write_columns(
            {field.name: field.dataType.simpleString() for field in schema.fields},
            topic=self._settings.topic,
            copies_properties=self._settings.copies_properties,
        )
        self.write_id = options.text("writeId")
        self._receipt = options.text("receipt")
        if self._settings.topic:
            shared.call(_check_topic(self._settings))

    def run(self, write_id: str, batches: Iterator[pa.RecordBatch]) -> Stored:
        """Write the rows of a task; ``write_id`` is what their message ids begin with."""
        context = TaskContext.get()
        assert context is not None
        writer = RowWriter(self._settings, write_id, context.partitionId())
        writer.write(batches)
        return Stored(dict(writer.counts), writer.dead_letters)


class PymqWriter(TopicWrite, DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a DataFrame once."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrites: bool) -> None:
        super().__init__(options, schema, overwrites=overwrites)
        self.write_id = self.write_id or secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self.run(self.write_id, iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        """Write the receipt that an import asks for."""
        if self._receipt:
            write_durably(Path(self._receipt), _summed(messages))

    def abort(self, messages: Sequence[Any]) -> None:
        """Do nothing: what was sent stays, and has the same message ids when it is sent again."""


async def _check_topic(settings: WriteSettings) -> None:
    """Raise NotFoundError, NoQueueError or UnreachableError when the topic takes no writes."""
    sends = open_sends(settings)
    await sends.start()
    try:
        await sends.queues(settings.topic)
    finally:
        await sends.stop()


def _summed(messages: Sequence[Stored | None]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    dead_letters = 0
    for message in messages:
        if message is not None:
            counts.update(message.counts)
            dead_letters += message.dead_letters
    return {"rows": dict(counts), "dead_letters": dead_letters}
