"""Makes ``format("pymq")`` known: Spark looks for packages named ``pyspark_*`` and takes their DefaultSource."""

from pymq.spark.data_source import PymqDataSource as DefaultSource

__all__ = ["DefaultSource"]
