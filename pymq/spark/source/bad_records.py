"""Bad records of a stream into files of their own, each once, through Spark's ``foreachBatch``.

A source can't write them itself: Spark runs its tasks again, reads a DataFrame twice, or only a part of it. As rows of
the column ``badRecord`` they are in the same batch as the others, and the query's checkpoint says which batch that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.errors import UsageError
from pymq.spark.records.schema import BAD_RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What Spark tells the tasks of a stream (Scala: StreamExecution.QUERY_ID_KEY).
QUERY_ID_PROPERTY = "sql.streaming.queryId"

Write = Callable[["DataFrame", int], None]


class BadRecordsAside:
    """A function for ``foreachBatch`` that parts a batch: bad records go to a directory, the others to ``write``."""

    def __init__(self, write: Write, directory: str, query: str) -> None:
        self._write = write
        self._directory = directory.rstrip("/")
        self._query = query

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write a batch. Raises UsageError for rows without the column badRecord, and what Spark and ``write`` raise.

        A batch that is repeated finds its files under the same name and replaces them.
        """
        if BAD_RECORD not in rows.columns:
            raise UsageError(f"the rows have no column {BAD_RECORD}: give the source onBadRecord table, and keep it")
        query = self._query or _query_id(rows)
        kept = rows.persist()
        try:
            bad = kept.where(f"{BAD_RECORD} IS NOT NULL").select(f"{BAD_RECORD}.*")
            if not bad.isEmpty():
                place = f"{self._directory}/query={query}/batch={batch_id}"
                bad.write.mode("overwrite").parquet(place)
            self._write(kept.where(f"{BAD_RECORD} IS NULL").drop(BAD_RECORD), batch_id)
        finally:
            kept.unpersist()


def bad_records_aside(write: Write, directory: str, query: str = "") -> BadRecordsAside:
    """Return a function for ``foreachBatch`` that writes bad records to Parquet files below ``directory``.

    ``write(rows, batch_id)`` gets the others, without the column ``badRecord``. ``query`` names the query where Spark
    doesn't: with Spark Connect.
    """
    return BadRecordsAside(write, directory, query)


def _query_id(rows: DataFrame) -> str:
    from pyspark.errors import PySparkException

    try:
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    except PySparkException:  # a session of Spark Connect has no context
        query = None
    if not query:
        raise UsageError(
            "Spark doesn't say which query this batch is of: give bad_records_aside the argument query, a name of it"
        )
    return str(query)
