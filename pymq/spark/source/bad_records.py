"""Bad records of a stream into files of their own, each once, through Spark's ``foreachBatch``.

A source can't write them itself: Spark runs its tasks again, reads a DataFrame twice, or only a part of it. As rows of
the column ``badRecord`` they are in the same batch as the others, and the query's checkpoint says which batch that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from pymq.errors import UsageError
from pymq.spark.records.schema import BAD_RECORD
from pymq.spark.tasks.query_ids import query_id_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_NEXT_STEP = "give bad_records_aside the argument query, a name of it"
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
        query = self._query or query_id_of(rows, _NEXT_STEP)
        kept = rows.persist()
        try:
            bad = kept.where(f"{BAD_RECORD} IS NOT NULL").select(f"{BAD_RECORD}.*")
            if not bad.isEmpty():
                place = f"{self._directory}/query={quote(query, safe='')}/batch={batch_id}"
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
