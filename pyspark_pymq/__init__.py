"""Makes ``format("pymq")`` known: Spark looks for packages named ``pyspark_*`` and takes their DefaultSource.

Programs call :func:`register`, which works where that search fails, and give :func:`batch_writer` or
:func:`bad_records_aside` to ``foreachBatch``.
:func:`metrics` serves the figures of streaming queries to Prometheus, and :func:`table_ends` says where an export's
table ends.
"""

from typing import TYPE_CHECKING, Any

from pymq.spark.data_source import PymqDataSource as DefaultSource

if TYPE_CHECKING:
    from pymq.spark.export.logs import table_ends
    from pymq.spark.session.query_metrics import metrics
    from pymq.spark.session.registering import register
    from pymq.spark.sink.batch_writer import batch_writer
    from pymq.spark.source.bad_records import bad_records_aside

__all__ = ["DefaultSource", "bad_records_aside", "batch_writer", "metrics", "register", "table_ends"]


def __getattr__(name: str) -> Any:
    """Import a function at its first use: Spark's search takes the DefaultSource alone, in a process of its own."""
    if name == "register":
        from pymq.spark.session.registering import register

        return register
    if name == "batch_writer":
        from pymq.spark.sink.batch_writer import batch_writer

        return batch_writer
    if name == "bad_records_aside":
        from pymq.spark.source.bad_records import bad_records_aside

        return bad_records_aside
    if name == "metrics":
        from pymq.spark.session.query_metrics import metrics

        return metrics
    if name == "table_ends":
        from pymq.spark.export.logs import table_ends

        return table_ends
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
