"""The source ``spark.read.format("pymq")``: topics as DataFrames, with one partition per range of a queue.

:mod:`pymq.spark.source.options` has its options; :mod:`pymq.spark.sink.sink` writes. Nothing else is imported before it
is used: each of Spark's Python processes imports this module, and most of them need one half of it, or its name alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

NAME = "pymq"


class PymqDataSource(DataSource):  # type: ignore[misc]
    """Topics of a PyMQ or RocketMQ cluster as a source and a sink, of batches and streams."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> str:
        """Return the requested columns, or the usual ones."""
        from pymq.spark.records.schema import spark_ddl
        from pymq.spark.source.option_names import ColumnOptions

        return spark_ddl(ColumnOptions(self.options).columns())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the schema's columns for a stream."""
        from pymq.spark.source.options import SourceOptions
        from pymq.spark.source.stream import PymqStreamReader

        return PymqStreamReader(SourceOptions(self.options), tuple(schema.fieldNames()))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with this schema."""
        from pymq.spark.sink.options import WriteOptions
        from pymq.spark.sink.sink import PymqWriter

        return PymqWriter(WriteOptions(self.options), schema, overwrites=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of a stream's rows with this schema."""
        from pymq.spark.sink.options import WriteOptions
        from pymq.spark.sink.sink import PymqStreamWriter

        return PymqStreamWriter(WriteOptions(self.options), schema, overwrites=overwrite)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the schema's columns; with option pushFilters, one that uses the query's WHERE.

        Spark refuses readers with filter pushdown while its setting for that is off, which is the default.
        """
        from pymq.spark.source.batch import FilteringReader, PymqReader
        from pymq.spark.source.options import SourceOptions

        options = SourceOptions(self.options)
        kind = FilteringReader if options.pushes_filters else PymqReader
        return kind(options, tuple(schema.fieldNames()))
