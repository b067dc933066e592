"""The partition that both readers of ``format("pymq")`` plan: Spark pickles it from the driver to a task."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from pymq.spark.planning.ranges import QueueRange


class RangePartition(InputPartition):  # type: ignore[misc]
    """Ranges that one task reads, one after the other."""

    def __init__(self, parts: Sequence[QueueRange]) -> None:
        self.parts = tuple(parts)
