"""The source ``spark.read.format("pymq")``: topics as DataFrames, with one partition per range of a queue.

:mod:`pymq.spark.source.options` has its options; :mod:`pymq.spark.sink.sink` writes. Nothing else is imported before it
is used: each of Spark's Python processes imports this module, and most of them need one half of it, or its name alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pymq.spark.spark_versions import check_stream_sink, check_streams

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from pymq.spark.sink.options import WriteOptions
    from pymq.spark.source.option_names import ColumnOptions
    from pymq.spark.source.options import SourceOptions

NAME = "pymq"


class PymqDataSource(DataSource):  # type: ignore[misc]
    """Topics of a PyMQ or RocketMQ cluster as a source and a sink, of batches and streams."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> str | StructType:
        """Return the requested columns, or the usual ones; those of a table in Spark's catalog carry its options."""
        from pymq.spark.records.schema import spark_ddl
        from pymq.spark.source import catalog_tables
        from pymq.spark.source.option_names import ColumnOptions

        if catalog_tables.is_of_catalog(self.options):
            given = catalog_tables.given_in_table(self.options)
            options = ColumnOptions(given)
            return catalog_tables.columns_with_options(options.columns(), given, _typed(options))
        options = ColumnOptions(self.options)
        return _typed(options) or spark_ddl(options.columns())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the schema's columns for a stream. Raises UsageError for a Spark that can't have one."""
        check_streams()
        from pymq.spark.source.stream import PymqStreamReader

        return PymqStreamReader(self._source_options(schema), tuple(schema.fieldNames()))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with this schema."""
        from pymq.spark.sink.sink import PymqWriter

        return PymqWriter(self._write_options(schema), schema, overwrites=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of a stream's rows with this schema. Raises UsageError for a Spark that can't have one."""
        check_stream_sink()
        from pymq.spark.sink.stream_sink import PymqStreamWriter

        return PymqStreamWriter(self._write_options(schema), schema, overwrites=overwrite)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the schema's columns; with option pushFilters, one that uses the query's WHERE.

        Spark refuses readers with filter pushdown while its setting for that is off, which is the default.
        """
        from pymq.spark.source.batch import FilteringReader, PymqReader

        options = self._source_options(schema)
        kind = FilteringReader if options.pushes_filters else PymqReader
        return kind(options, tuple(schema.fieldNames()))

    def _source_options(self, schema: StructType) -> SourceOptions:
        from pymq.spark.source.catalog_tables import read_options
        from pymq.spark.source.options import SourceOptions

        options = SourceOptions(read_options(schema, self.options))
        if options.body_schema is not None:
            from pymq.spark.source.body_schemas import check_declared

            check_declared(schema, options.body_schema)
        return options

    def _write_options(self, schema: StructType) -> WriteOptions:
        from pymq.spark.sink.options import WriteOptions, known_names
        from pymq.spark.source.catalog_tables import write_options

        return WriteOptions(write_options(schema, self.options, {name.lower() for name in known_names()}))


def _typed(options: ColumnOptions) -> StructType | None:
    """Return the columns where bodies have a schema; None elsewhere."""
    if options.body_schema is None:
        return None
    from pymq.spark.source.body_schemas import spark_columns

    return spark_columns(options.columns(), options.body_schema)
