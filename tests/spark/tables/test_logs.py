"""The logs of Delta and Iceberg tables: each row once, one writer at a time, columns that come, files that go."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from pymq.errors import PymqError, UsageError
from pymq.spark.export.logs import earlier_settings, table_ends
from pymq.spark.places.places import OutputBusyError
from pymq.spark.planning.identity import Mark, generation_name
from pymq.spark.planning.ranges import ResumeError
from pymq.spark.records.bodies import json_form
from pymq.spark.tables import delta_log, iceberg_files, iceberg_log
from pymq.spark.tables.iceberg_name import iceberg_name
from pymq.spark.tables.results_folder import LEFT_BEHIND_S, ResultsFolder
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import BORN_MS, record
from tests.spark.tables.exports import (
    COLUMNS,
    FORMATS,
    KEY,
    commit,
    data_files,
    iceberg_table,
    offsets,
    opened,
    options,
    rows,
    written,
)

DAY_MS = 86_400_000


@pytest.fixture
def cluster() -> Any:
    with FakeCluster() as fake:
        fake.add("T", 0, [record(n) for n in range(100)])
        yield fake


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_commit_adds_its_rows_and_a_later_run_knows_it(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    with opened(tmp_path, table) as log:
        assert not log.resumed and log.positions == {}
        part = written(log, cluster, 0, 60)
        assert offsets(tmp_path, table) == []
        assert commit(log, part) == 1
        assert offsets(tmp_path, table) == list(range(60))
    with opened(tmp_path, table) as log:
        assert log.resumed and log.positions == {KEY: 60} and log.marks[KEY].offset == 59
        written(log, cluster, 60, 100)  # killed before the commit: of no table
        assert commit(log, written(log, cluster, 60, 100)) == 2
    assert offsets(tmp_path, table) == list(range(100))
    assert len(data_files(tmp_path)) == 3
    found = rows(tmp_path, table)
    assert set(found.column("topic").to_pylist()) == {"T"}
    assert dict(found.column("properties").to_pylist()[0])["KEYS"].startswith("k")
    assert not list(tmp_path.rglob("staging"))


def test_a_commit_without_files_keeps_its_ends(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    with opened(tmp_path, table) as log:
        log.commit([{**written(log, cluster, 0, 10), "files": []}], [Mark(*KEY, 9, "a")])
        assert log.positions == {KEY: 10}
    with opened(tmp_path, table) as log:
        assert log.positions == {KEY: 10}
        commit(log, written(log, cluster, 10, 20))
    assert offsets(tmp_path, table) == list(range(10, 20))


@pytest.mark.parametrize("has_files", [(True, True), (True, False), (False, True), (False, False)])
def test_of_two_exports_the_second_is_refused(
    tmp_path: Path, table: str, cluster: FakeCluster, has_files: tuple[bool, bool]
) -> None:
    with opened(tmp_path, table) as log:
        commit(log, written(log, cluster, 0, 10))
    with opened(tmp_path, table) as first, opened(tmp_path, table) as second:
        parts = [written(log, cluster, 10, end) for log, end in ((first, 20), (second, 30))]
        given = [part if has else {**part, "files": []} for part, has in zip(parts, has_files, strict=True)]
        commit(first, given[0])
        if table == "iceberg" and not has_files[0]:
            # The first has made no snapshot. Its ends are given up: of the next two with rows one is refused.
            commit(second, given[1])
            if not has_files[1]:
                commit(second, written(second, cluster, 30, 40))
            with pytest.raises(OutputBusyError, match="another export has written to"):
                commit(first, written(first, cluster, 20, 40))
        else:
            with pytest.raises(OutputBusyError, match="another export has written to"):
                commit(second, given[1])
    found = offsets(tmp_path, table)
    assert len(found) == len(set(found)), "a row is there twice"
    with opened(tmp_path, table) as log:
        end = log.positions[KEY]
        commit(log, written(log, cluster, end, 100))
    assert len(offsets(tmp_path, table)) == len(set(offsets(tmp_path, table)))


def test_a_change_by_others_is_no_other_export(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    with opened(tmp_path, table) as log:
        for start in range(0, 30, 10):
            commit(log, written(log, cluster, start, start + 10))
        if table == "delta":
            DeltaTable(str(tmp_path)).optimize.compact()
        else:
            iceberg_table(tmp_path).delete("queueOffset < 5")
        commit(log, written(log, cluster, 30, 40))
    first = 0 if table == "delta" else 5
    assert offsets(tmp_path, table) == list(range(first, 40))
    with opened(tmp_path, table) as log:
        assert log.positions == {KEY: 40}


def test_other_settings_are_refused_and_columns_may_come(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    body = json_form({"amount": "double"})
    with opened(tmp_path, table, body=body) as log:
        commit(log, written(log, cluster, 0, 10) | {"files": []})
    for fields, reason in (
        ({"levels": ("topic",)}, "other settings .*partition_by was"),
        ({"columns": COLUMNS[1:]}, "has the column topic: name it too"),
        ({"body": "utf8"}, "has bodies in the form json, not utf8"),
        ({"body": json_form({"amount": "string"})}, "can't take these columns"),
    ):
        with pytest.raises(ResumeError, match=reason):
            opened(tmp_path, table, **{"body": body, **fields})
    grown = {"columns": (*COLUMNS, "property_KEYS"), "body": json_form({"amount": "double", "country": "string"})}
    with opened(tmp_path, table, **grown) as log:
        assert log.positions == {KEY: 10}
        cluster.add("T", 0, [record(100, b'{"amount": 1.5, "country": "DE"}')])
        commit(log, written(log, cluster, 100, 101))
    (row,) = rows(tmp_path, table).to_pylist()
    assert row["body"] == {"amount": 1.5, "country": "DE"} and row["property_KEYS"] == "k100"
    assert earlier_settings(options(tmp_path, table))["columns"] == list(grown["columns"])


def test_foreign_tables_and_directories_are_refused(tmp_path: Path, table: str) -> None:
    if table == "delta":
        write_deltalake(str(tmp_path / "t"), pa.table({"a": [1]}))
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "x").touch()
        with pytest.raises(UsageError, match="holds other files and no Delta table: name a new directory"):
            opened(tmp_path / "other", table)
    else:
        name = iceberg_name(None, None, tmp_path / "t")
        catalog = iceberg_log.open_catalog(name)
        catalog.create_namespace("pymq")
        catalog.create_table(name.table, pa.schema([("a", pa.int64())]))
    with pytest.raises(UsageError, match="is a table of another program"):
        opened(tmp_path / "t", table)
    assert earlier_settings(options(tmp_path / "t", table)) == {}
    assert earlier_settings(options(tmp_path / "none", table)) == {}
    assert not (tmp_path / "none").exists()


def test_rows_are_divided_by_day_and_topics_that_were_made_again_have_a_name(
    tmp_path: Path, table: str, cluster: FakeCluster
) -> None:
    cluster.add("T", 0, [record(100 + n, store_timestamp_ms=BORN_MS + n * DAY_MS) for n in range(3)])
    with opened(tmp_path, table) as log:
        part = written(log, cluster, 90, 103)
        assert [file["rows"] for file in part["files"]] == [11, 1, 1]
        commit(log, part)
    found = rows(tmp_path, table)
    assert found.num_rows == 13
    with opened(tmp_path, table) as log:
        log.commit([written(log, cluster, 0, 4, generation=2)])
    names = rows(tmp_path, table).column("topic").to_pylist()
    assert (names.count("T"), names.count(generation_name("T", 2))) == (13, 4)
    if table == "delta":
        delta = DeltaTable(str(tmp_path))
        assert len(set(found.column("dt").to_pylist())) == 3
        last_day = max(found.column("dt").to_pylist())
        chosen = [uri for uri in delta.file_uris() if f"dt={last_day}" in uri]
    else:
        last = max(found.column("storeTimestamp").to_pylist())
        tasks = list(iceberg_table(tmp_path).scan(row_filter=f"storeTimestamp >= '{last.isoformat()}'").plan_files())
        chosen = [task.file.file_path for task in tasks]
    assert len(chosen) == 1


def test_readers_skip_files_by_the_bounds_of_offsets(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    with opened(tmp_path, table) as log:
        for start in range(0, 50, 10):
            commit(log, written(log, cluster, start, start + 10))
    if table == "delta":
        actions = DeltaTable(str(tmp_path)).get_add_actions(flatten=True)
        low, high, count = (
            pa.chunked_array(actions.column(name)).to_pylist()
            for name in ("min.queueOffset", "max.queueOffset", "num_records")
        )
        assert sorted(zip(low, high, count, strict=True)) == [(n, n + 9, 10) for n in range(0, 50, 10)]
        assert min(pa.chunked_array(actions.column("min.storeTimestamp")).to_pylist()) is not None
    else:
        tasks = list(iceberg_table(tmp_path).scan(row_filter="queueOffset >= 35").plan_files())
        assert len(tasks) == 2


def test_small_files_are_merged_and_old_files_go_after_a_week(
    tmp_path: Path, table: str, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_files, "FILES_MIN", 5)
    with opened(tmp_path, table) as log:
        for start in range(0, 50, 10):
            commit(log, written(log, cluster, start, start + 10))
        written(log, cluster, 50, 60)  # never committed
        log.tidy(compact=True, keep_days=0)
        assert offsets(tmp_path, table) == list(range(50))
        count = len(data_files(tmp_path))
        assert count == 5 + 1 + 1, "what older states have stays"
        commit(log, written(log, cluster, 50, 60))
        later_s = time.time() + 8 * 86400
        monkeypatch.setattr(time, "time", lambda: later_s)
        monkeypatch.setattr(iceberg_log, "SNAPSHOT_AGE", iceberg_log.SNAPSHOT_AGE * 0)
        for path in tmp_path.rglob("*.parquet"):
            os.utime(path, (path.stat().st_mtime - 8 * 86400,) * 2)
        if table == "iceberg":
            log.tidy(compact=False, keep_days=0)
            assert len(data_files(tmp_path)) == 2
        assert offsets(tmp_path, table) == list(range(60))
    with opened(tmp_path, table) as log:
        assert log.positions == {KEY: 60}


def test_days_that_ended_long_ago_are_taken_out(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    now_ms = int(time.time() * 1000)
    cluster.add("N", 0, [record(n, topic="N", store_timestamp_ms=now_ms - n * DAY_MS) for n in range(5)])
    with opened(tmp_path, table) as log:
        log.commit([written(log, cluster, 0, 5, topic="N")])
        log.tidy(compact=False, keep_days=2)
    kept = rows(tmp_path, table).column("storeTimestamp").to_pylist()
    assert len(kept) == 3 and min(kept).timestamp() * 1000 >= now_ms - 3 * DAY_MS
    with opened(tmp_path, table) as log:
        assert log.positions == {("N", KEY[1], 0): 5}


def test_the_state_outlives_many_commits_and_compactions(
    tmp_path: Path, table: str, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "FULL_EVERY", 4)
    monkeypatch.setattr(delta_log, "HISTORY_STEP", 2)
    ends: dict[str, int] = {}
    for number in range(9):
        with opened(tmp_path, table) as log:
            assert log.positions == {("Q", topic, 0): end for topic, end in ends.items()}
            for broker in (f"b{number}", "b"):
                part = {"topic": "Q", "broker_name": broker, "queue_id": 0, "to_offset": number + 1, "files": []}
                log.commit([part])
                ends[broker] = number + 1


def test_a_lost_state_is_named(tmp_path: Path, cluster: FakeCluster) -> None:
    with opened(tmp_path, "delta") as log:
        commit(log, written(log, cluster, 0, 10))
    log_files = sorted((tmp_path / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in log_files[-1].read_text().splitlines()]
    kept = [line for line in lines if "commitInfo" not in line]
    log_files[-1].write_text("\n".join(json.dumps(line) for line in kept) + "\n")
    with pytest.raises(ResumeError, match="has lost the commits that say how far commit 1 is"):
        opened(tmp_path, "delta")


def test_a_damaged_table_is_one_clear_error(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    with opened(tmp_path, table) as log:
        commit(log, written(log, cluster, 0, 10))
    pattern = "_delta_log/*.json" if table == "delta" else "**/*.metadata.json"
    for path in tmp_path.glob(pattern):
        path.write_text("{no json")
    with pytest.raises(PymqError, match=f"^the {table.capitalize()} table ") as found:
        opened(tmp_path, table)
    assert type(found.value) is PymqError


def test_reports_of_killed_exports_are_removed_after_a_day(tmp_path: Path) -> None:
    now_s = int(time.time())
    for name in (f"{now_s - LEFT_BEHIND_S - 2}-old", f"{now_s - 60}-new", "other"):
        (tmp_path / "staging" / name).mkdir(parents=True)
    folder = ResultsFolder(tmp_path / "staging")
    assert len(list((tmp_path / "staging").iterdir())) == 2
    (folder.new("mine") / "x.json").write_text("{}")
    folder.close()
    assert sorted(path.name.partition("-")[2] for path in (tmp_path / "staging").iterdir()) == ["", "new"]


def test_names_of_tables(tmp_path: Path) -> None:
    name = iceberg_name(None, None, tmp_path)
    assert (name.table, name.location) == ("pymq.messages", f"file://{tmp_path}/pymq/messages")
    assert iceberg_name("prod", "shop.orders", None).properties == {}
    for table in ("orders", "shop.", ".x", "a..b"):
        with pytest.raises(UsageError, match="has no namespace: write"):
            iceberg_name(None, table, tmp_path)
    with pytest.raises(UsageError, match="needs a catalog"):
        iceberg_name(None, "a.b", None)


def test_times_of_bounds_have_milliseconds() -> None:
    assert delta_log._stamp(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


def test_files_hold_no_column_twice(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    with opened(tmp_path, table) as log:
        part = written(log, cluster, 0, 5)
        root = Path(log.layout.root)
        names = pq.read_schema(root / part["files"][0]["path"]).names
    assert ("topic" in names) == (table == "iceberg") and len(names) == len(set(names))


def test_a_table_says_where_a_read_of_its_topic_begins(tmp_path: Path, table: str, cluster: FakeCluster) -> None:
    with opened(tmp_path, table) as log:
        commit(log, written(log, cluster, 0, 60))
        log.commit([{**written(log, cluster, 0, 4, generation=2), "queue_id": 1}])
    assert json.loads(table_ends("T", table, str(tmp_path))) == {"T": {KEY[1]: {"0": 60, "1": 4}}}
    assert json.loads(table_ends("other", table, str(tmp_path))) == {"other": {}}
    for wrong, reason in ((str(tmp_path / "none"), "name the"), ("", "no output|needs a catalog")):
        with pytest.raises(UsageError, match=reason):
            table_ends("T", table, wrong or None)
    with pytest.raises(UsageError, match="is no table: use one of delta, iceberg"):
        table_ends("T", "parquet", str(tmp_path))


@pytest.mark.parametrize("topic", ["%RETRY%g", "a.b", "x|y", "тема", "a b=c", "q'x", "_hidden"])
def test_any_topic_name_is_read_back(tmp_path: Path, table: str, topic: str) -> None:
    with FakeCluster() as cluster:
        cluster.add(topic, 0, [record(n, topic=topic) for n in range(5)])
        with opened(tmp_path, table) as log:
            log.commit([written(log, cluster, 0, 5, topic=topic)])
            log.tidy(compact=True, keep_days=0)
    found = rows(tmp_path, table)
    assert found.num_rows == 5 and set(found.column("topic").to_pylist()) == {topic}


def test_rows_that_inflate_beyond_a_limit_are_not_merged(
    tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_files, "FILES_MIN", 2)
    cluster.add("Z", 0, [record(n, bytes(10_000), topic="Z") for n in range(20)])
    with opened(tmp_path, "iceberg") as log:
        for start in (0, 10):
            log.commit([written(log, cluster, start, start + 10, topic="Z")])
        monkeypatch.setattr(iceberg_files, "PLAIN_BYTES_MAX", 1_000)
        log.tidy(compact=True, keep_days=0)
        assert len(data_files(tmp_path)) == 2
        monkeypatch.setattr(iceberg_files, "PLAIN_BYTES_MAX", 1 << 20)
        log.tidy(compact=True, keep_days=0)
        assert len(data_files(tmp_path)) == 3
