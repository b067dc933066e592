"""The sink ``writeStream.format("pymq")``. It stands apart from that of batches: Spark 4.0 lacks its base class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pymq.spark.sink.batch_writer import write_id_of_batch
from pymq.spark.sink.sink import TopicWrite
from pymq.spark.tasks.query_ids import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY


class PymqStreamWriter(TopicWrite, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the batches of a stream. Spark's checkpoint says which batches are done."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task of one batch."""
        context = TaskContext.get()
        assert context is not None
        query = self.write_id or context.getLocalProperty(QUERY_ID_PROPERTY)
        return self.run(write_id_of_batch(query, context.getLocalProperty(BATCH_ID_PROPERTY)), iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Do nothing: brokers have stored all rows."""

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Do nothing: what was sent stays, and has the same message ids when it is sent again."""
