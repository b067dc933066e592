"""The partition that both readers of ``format("pymq")`` plan: Spark pickles it from the driver to a task."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from pymq.spark.ranges import QueueRange


class RangePartition(InputPartition):  # type: ignore[misc]
    """One range of one queue."""

    def __init__(self, part: QueueRange) -> None:
        self.part = part
