"""Writes the batches of a stream to topics through Spark's ``foreachBatch``, which takes every output mode.

Spark refuses the mode ``update`` for sinks in Python before it asks them, so ``format("pymq")`` alone can't have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.errors import UsageError
from pymq.spark.sink.options import WriteOptions
from pymq.spark.tasks.query_ids import query_id_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEXT_STEP = "give batch_writer the option writeId, a name of the query"
_OF_THE_QUERY = ("checkpointLocation", "queryName")


class BatchWriter:
    """A function for ``foreachBatch``. What it sends has the message ids that the sink of streams gives."""

    def __init__(self, options: dict[str, str]) -> None:
        """Raise UsageError for an illegal option."""
        given = WriteOptions(options)
        for name in _OF_THE_QUERY:
            if given.text(name):
                raise UsageError(f"option {name} is the query's: write it after writeStream, not here")
        given.settings()
        self._write_id = given.text("writeId")
        self._options = {name: value for name, value in options.items() if name.lower() != "writeid"}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a batch. Raises UsageError outside of a query, and what Spark raises."""
        write_id = write_id_of_batch(self._write_id or query_id_of(rows, _NEXT_STEP), batch_id)
        rows.write.format("pymq").options(**self._options).option("writeId", write_id).mode("append").save()


def batch_writer(**options: str) -> BatchWriter:
    """Return a function for ``foreachBatch`` that writes the rows of each batch to topics.

    ``options`` are those of the sink: ``batch_writer(namesrv="127.0.0.1:9876", topic="counts")``.
    Raises UsageError for an illegal option.
    """
    return BatchWriter(options)


def write_id_of_batch(query: str, batch_id: int | str) -> str:
    """Return what the message ids of a stream's batch begin with."""
    return f"{query}\n{batch_id}"
