"""Tables of topics in Spark's catalog: their options, reads, writes and streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from pymq.errors import UsageError
from pymq.spark.data_source import PymqDataSource
from pymq.spark.records.schema import BY_NAME
from pymq.spark.session.failures import translated
from pymq.spark.source.catalog_tables import columns_with_options, given_in_table, is_of_catalog, write_options
from pymq.spark.source.options import SourceOptions
from pymq.testing.standalone import StandaloneProcess
from tests.spark.sink.test_sink import stored

ADDED = {"provider": "pymq", "owner": "root"}
KNOWN = {"namesrv", "topic", "path", "group"}


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as process:
        yield process


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"option.topic": "T", "topic": "T", "Tag": "A", "option.Tag": "A"}, {"topic": "T", "tag": "A"}),
        ({"option.topic": "T", "topic": "T", "location": "file:/w/t", "path": "file:/w/t"}, {"topic": "T"}),
        ({"path": "Orders", "location": "Orders"}, {"path": "Orders"}),
        ({"option.topics": "*", "topics": "*", "a.property": "of the table"}, {"topics": "*"}),
        ({"serialization.format": "1", "topic": "T", "path": "file:/w/t"}, {"topic": "T"}),
    ],
)
def test_what_a_catalog_adds_is_left_out(options: dict[str, str], given: dict[str, str]) -> None:
    options = options if "serialization.format" in options else {**options, **ADDED}
    assert is_of_catalog(options) and given_in_table(options) == given
    assert not is_of_catalog({"topic": "T", "path": "T"})


def test_a_table_without_a_topic_is_refused() -> None:
    for options in (ADDED, {**ADDED, "location": "file:/w/t", "path": "file:/w/t"}, {**ADDED, "option.tag": "A"}):
        with pytest.raises(UsageError, match=r"names its topics: CREATE TABLE t USING pymq OPTIONS \(topic 'Orders'\)"):
            PymqDataSource(options).schema()
    with pytest.raises(UsageError, match="option colums is not known to format pymq: did you mean columns"):
        PymqDataSource({**ADDED, "option.topic": "T", "option.colums": "body"}).schema()


def columns(**options: str) -> StructType:
    """Return a table's columns as Spark keeps them: as JSON."""
    found = PymqDataSource({**ADDED, **{f"option.{name}": value for name, value in options.items()}}).schema()
    return StructType.fromJson(found.jsonValue())


def test_the_columns_carry_the_options() -> None:
    schema = columns(topic="Orders", namesrv="a:1", columns="keys,`property_x-y`,body")
    assert schema.simpleString() == "struct<keys:string,property_x-y:string,body:binary>"
    read: SourceOptions = PymqDataSource({})._source_options(schema)
    assert (read.namesrv, read.topics().names) == ("a:1", ("Orders",))
    assert PymqDataSource({"Namesrv": "b:2"})._source_options(schema).namesrv == "b:2"
    every = columns_with_options(tuple(BY_NAME), {})
    assert {field.name: field.dataType.simpleString() for field in every} == {
        column.name: column.ddl for column in BY_NAME.values()
    }


def test_columns_of_ones_own_have_no_options() -> None:
    schema = StructType().add("body", "binary")
    with pytest.raises(UsageError, match=r"columns are given without an option.*only if PyMQ says its columns"):
        PymqDataSource({})._source_options(schema)
    assert PymqDataSource({"topics": "*"})._source_options(schema).topics().names == ("*",)


@pytest.mark.parametrize(
    ("table", "own", "expected"),
    [
        ({"topic": "T", "tag": "A", "namesrv": "a:1"}, {}, {"topic": "T", "namesrv": "a:1"}),
        ({"subscribe": "T", "columns": "body"}, {}, {"topic": "T"}),
        ({"topics": "a,b"}, {}, {}),
        ({"topics": "a*"}, {}, {}),
        ({"topic": "T", "group": "g"}, {"Topic": "U"}, {"Topic": "U", "group": "g"}),
        ({"topic": "T"}, {"path": "U"}, {"path": "U"}),
    ],
)
def test_a_write_takes_what_writes_know(table: dict[str, str], own: dict[str, str], expected: dict[str, str]) -> None:
    assert write_options(columns_with_options(("body",), table), own, KNOWN) == expected


@pytest.mark.slow
@pytest.mark.spark
def test_a_table_is_read_written_and_streamed(spark: Any, server: StandaloneProcess, tmp_path: Path) -> None:
    where = f"namesrv '{server.namesrv}'"
    spark.sql(f"CREATE TABLE catalog_orders USING pymq OPTIONS ({where}, topic 'catalog-orders', columns 'keys,body')")
    try:
        spark.sql("INSERT INTO catalog_orders SELECT 'k1', binary('one')")
        spark.sql("INSERT INTO catalog_orders (body) SELECT binary('two')")
        assert sorted(stored(server, "catalog-orders", "body", "keys")) == [(b"one", "k1"), (b"two", None)]
        query = "SELECT cast(body AS string) FROM catalog_orders WHERE keys = 'k1'"
        assert [row[0] for row in spark.sql(query).collect()] == ["one"]
        assert "catalog_orders" in {row["tableName"] for row in spark.sql("SHOW TABLES").collect()}
        copy = spark.readStream.option("startingOffsets", "earliest").table("catalog_orders")
        sink = copy.select("body").writeStream.format("pymq").options(namesrv=server.namesrv, topic="catalog-copy")
        sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
        assert sorted(stored(server, "catalog-copy", "body")) == [(b"one",), (b"two",)]
        with pytest.raises(UsageError, match="messages can only be added"), translated():
            spark.sql("INSERT OVERWRITE catalog_orders SELECT 'k1', binary('one')")
        spark.sql(f"CREATE TABLE catalog_own (body binary) USING pymq OPTIONS ({where}, topic 'catalog-orders')")
        with pytest.raises(UsageError, match="columns are given without an option"), translated():
            spark.sql("SELECT * FROM catalog_own").collect()
    finally:
        spark.sql("DROP TABLE IF EXISTS catalog_orders")
        spark.sql("DROP TABLE IF EXISTS catalog_own")
