"""Which streaming query a batch of ``foreachBatch`` is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What Spark tells the tasks of a stream (Scala: StreamExecution.QUERY_ID_KEY, MicroBatchExecution.BATCH_ID_KEY).
QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"


def query_id_of(rows: DataFrame, next_step: str) -> str:
    """Return the id of a batch's query. Raises UsageError with ``next_step`` where Spark doesn't say it."""
    from pyspark.errors import PySparkException

    try:
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    except PySparkException:  # a session of Spark Connect has no context
        query = None
    if not query:
        raise UsageError(f"Spark doesn't say which query this batch is of: {next_step}")
    return str(query)
