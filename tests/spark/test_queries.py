"""SQL over topics, store directories and lakes: what is read, what comes back, and errors in one line."""

from __future__ import annotations

import csv
import io
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pymq.cli.spark.spark_sql import QueryOutput, show_plan, show_rows
from pymq.errors import NotFoundError, UsageError
from pymq.spark import queries
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.queries import Query, Tables, TableUse
from tests.offline.support import small_store
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record


def lake(directory: Path) -> Path:
    """Make a lake with the topic ``old`` of three rows."""
    columns = {"columns": [], "partition_by": ["topic"], "tag": "*"}
    with ExportDirectory(directory, columns) as log:
        log.commit([])
    (directory / "topic=old").mkdir()
    rows = pa.table({"keys": ["a", "b", "c"], "queueOffset": [0, 1, 2]})
    parquet.write_table(rows, directory / "topic=old" / "x.parquet")
    return directory


@pytest.mark.slow
@pytest.mark.spark
def test_queries(spark: Any, cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = small_store(tmp_path / "broker-a")
    place = StorePlace(str(root))
    tables = Tables("", place=place, lakes=(lake(tmp_path / "lake"),))

    def rows(sql: str, tables: Tables = tables) -> tuple[list[tuple], list[TableUse]]:
        with Query(spark, tables, sql) as query:
            found = query.run()
            return [tuple(row.values()) for row in found.to_pylist()], query.uses

    found, (use,) = rows("select count(*) as n from orders")
    assert (found, use.columns) == ([(66,)], ("queueOffset",))
    sql = "select o.queueOffset, property_TAGS from orders o where tags = 'T1' and KEYS = 'key-1' and rowid is not null"
    found, (use,) = rows(sql)
    assert (found, set(use.columns)) == ([(0, "T1")], {"queueOffset", "tags", "keys", "property_TAGS", "rowId"})
    assert any("tags = T1" in term for term in use.conditions)
    both = "select keys, queueOffset from old union all select keys, queueOffset from payments"
    sql = f"select max(keys), count(*) from ({both})"
    found, uses = rows(sql)
    assert found == [("key-99", 37)] and {use.source.split()[0] for use in uses} == {"store", "lake"}
    found, _ = rows("select count(*) from orders where queueOffset = (select max(queueOffset) from payments)")
    assert found == [(2,)]
    cluster.add("live-1", 0, [record(n, topic="live-1") for n in range(5)])
    cluster.pulls.clear()
    found, _ = rows("select bodyText from `live-1` where tags = 'A'", Tables(cluster.address))
    assert found == [("body",), ("body",)]
    assert {pull["subscription"] for pull in cluster.pulls} == {"A"}
    for sql, kind, text in (
        ("select * from order", NotFoundError, "there is no table order: did you mean orders"),
        ("select keyz from orders", UsageError, "there is no column keyz: did you mean keys"),
        ("select zz from old", UsageError, "there is no column zz: there are keys, queueOffset"),
        ("selec 1", UsageError, "the query is not SQL: Syntax error at or near 'selec'"),
        ("select sum(body, 1) from orders", UsageError, "the query is refused: "),
    ):
        with pytest.raises(kind, match=text) as raised, Query(spark, tables, sql):
            pass
        assert "\n" not in str(raised.value)
    found, _ = rows("select count(*) from old", Tables("127.0.0.1:1", lakes=tables.lakes))
    assert found == [(3,)]
    with pytest.raises(NotFoundError, match="there is no table ord: did you mean old"):
        rows("select 1 from ord", Tables("127.0.0.1:1", lakes=tables.lakes))
    with pytest.raises(UsageError, match="is no lake"):
        rows("select 1 from orders", Tables("", place=place, lakes=(root,)))
    capsys.readouterr()
    with Query(spark, tables, "select keys from orders where tags = 'T1'") as query:
        show_plan(query)
    shown = capsys.readouterr().out
    assert "columns  tags, keys" in shown and "BatchScan pymq" in shown


ROWS = pa.table(
    {
        "n": [1, 2],
        "body": pa.array([b"text", b"\xff\x00"]),
        "time": pa.array([datetime(2026, 1, 31, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
        "properties": pa.array([[("a", "b")], []], pa.map_(pa.string(), pa.string())),
        "half": [0.5, None],
    }
)


def test_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = pa.Table.from_arrays([*ROWS.columns, ROWS.column("n")], names=[*ROWS.column_names, "n"])
    show_rows(twice, QueryOutput.json, None)
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "n": 1, "body": "text", "time": "2026-01-31T00:00:00+00:00", "properties": {"a": "b"}, "half": 0.5, "n_2": 1
    }  # fmt: skip
    assert (second["body"], second["properties"], second["half"]) == ("/wA=", {}, None)
    show_rows(ROWS, QueryOutput.csv, None)
    lines = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert lines == [ROWS.column_names, ["1", "text", "2026-01-31T00:00:00+00:00", '{"a": "b"}', "0.5"],
                     ["2", "/wA=", "", "{}", ""]]  # fmt: skip
    show_rows(ROWS, QueryOutput.table, None)
    assert capsys.readouterr().out.split()[:2] == ["n", "body"]
    show_rows(ROWS, QueryOutput.parquet, str(tmp_path / "rows.parquet"))
    assert parquet.read_table(tmp_path / "rows.parquet").equals(ROWS)
    with pytest.raises(UsageError, match="can't be written"):
        show_rows(ROWS, QueryOutput.csv, str(tmp_path / "none" / "rows.csv"))


def test_pyspark_can_log_errors_of_other_queries() -> None:
    with queries._quiet():
        assert not logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.CRITICAL)
    logger: Any = logging.getLogger("SQLQueryContextLogger")
    logger.exception("as PySpark logs", errorClass="X", exc_info=False)
