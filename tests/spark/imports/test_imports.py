"""``pymq spark-import``: what a topic had before an export it has after the import, and an import can be continued."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pymq.cli.main import run as run_command
from pymq.errors import NotFoundError, UsageError
from pymq.model.properties import CLUSTER, MSG_REGION, TRACE_ON, WAIT
from pymq.spark.export import export
from pymq.spark.export.options import ExportOptions
from pymq.spark.imports import imports
from pymq.spark.imports.imports import ImportOptions
from pymq.spark.imports.plan import FilePart, ImportLog, InputFile, Step, find_files, plan_of, steps_of
from pymq.spark.imports.rows import message_columns
from pymq.spark.places.places import OutputBusyError
from pymq.spark.planning.ranges import ResumeError
from pymq.testing.standalone import StandaloneProcess
from tests.spark.sink.test_sink import stored, write

COUNT = 400


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as process:
        yield process


@pytest.mark.slow
@pytest.mark.spark
def test_a_topic_is_the_same_after_an_export_and_an_import(
    spark: Any, server: StandaloneProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [[("n", str(at)), ("größe", "ü" * (at % 3))] for at in range(COUNT)]
    rows = {
        "body": pa.array([b"\x00\xff%d" % at * (1 + at % 7) for at in range(COUNT)]),
        "orderingKey": pa.array([f"key-{at % 9}" if at % 4 else None for at in range(COUNT)]),
        "keys": pa.array([f"order-{at} x" if at % 5 else None for at in range(COUNT)]),
        "tags": pa.array(["paid" if at % 3 else None for at in range(COUNT)]),
        "properties": pa.array(pairs, pa.map_(pa.string(), pa.string())),
    }
    write(server, rows, topic="import-from")
    lake, state = tmp_path / "lake", tmp_path / "state"
    export.run(ExportOptions(namesrv=server.namesrv, topics=("import-from",), output=lake, master="local[2]"))

    options = ["spark-import", str(lake), "--namesrv", server.namesrv, "--topic", "import-to", "--state", str(state)]
    options += ["--rows-per-step", "250", "--master", "local[2]", "-o", "json"]
    assert run_command([*options, "--dry-run"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["planned_rows"] == COUNT and plan["steps"] == 2 and not state.exists()
    assert run_command(options) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["topics"] == [{"topic": "import-to", "rows": COUNT, "stored": COUNT}]
    assert messages(server, "import-to") == messages(server, "import-from")
    assert by_key(server, "import-to") == by_key(server, "import-from")

    (state / "steps" / "1.json").unlink()  # as if the run had been killed after the last row
    assert run_command(options) == 0
    again = json.loads(capsys.readouterr().out)
    repeated = COUNT - 250
    assert again["resumed"] and again["topics"] == [{"topic": "import-to", "rows": COUNT, "stored": COUNT + repeated}]
    assert messages(server, "import-to", window=COUNT) == messages(server, "import-from")


def messages(server: StandaloneProcess, topic: str, window: int = 0) -> Counter[Any]:
    """Return all messages; without the properties that each broker sets."""
    own = {WAIT, MSG_REGION, TRACE_ON, CLUSTER}
    return Counter(
        (body, tags, keys, message_id, tuple(pair for pair in properties if pair[0] not in own))
        for body, tags, keys, message_id, properties in stored(
            server, topic, "body", "tags", "keys", "msgId", "properties", window=window
        )
    )


def by_key(server: StandaloneProcess, topic: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, number in stored(server, topic, "property___SHARDINGKEY", "property_n"):
        if key is not None:
            found.setdefault(key, []).append(number)
    return found


@pytest.mark.spark
def test_json_and_csv_become_messages(spark: Any, server: StandaloneProcess, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,customer\n" + "".join(f"{at},c{at % 3}\n" for at in range(30)))
    columns = {"body": "to_json(struct(*))", "key": "customer"}
    options = ImportOptions(
        (str(tmp_path / "in.csv"),), server.namesrv, topic="import-csv", format="csv", state=tmp_path / "s",
        columns=columns,
        reader_options={"header": "true"}, schema="id int, customer string", master="local[2]", rate_per_s=1000,
    )  # fmt: skip
    assert imports.run(options).rows == 30
    found: dict[str, list[int]] = {}
    for key, body in stored(server, "import-csv", "keys", "body"):
        found.setdefault(key, []).append(json.loads(body)["id"])
    assert found == {f"c{rest}": list(range(rest, 30, 3)) for rest in range(3)}
    with pytest.raises(ResumeError, match="topic was 'import-csv', is 'other'"):
        options.topic = "other"
        imports.run(options)


def test_steps_have_about_so_many_rows_and_split_large_files() -> None:
    files = [InputFile("a", 10, 30), InputFile("b", 10, 250), InputFile("c", 10, 0), InputFile("d", 10, 20)]
    steps = steps_of(files, rows_max=100)
    assert [(step.number, step.rows) for step in steps] == [(0, 100), (1, 100), (2, 100)]
    assert steps[0].parts == (FilePart("a"), FilePart("b", 0, 70)) and steps[1].parts == (FilePart("b", 70, 170),)
    assert steps[2].parts == (FilePart("b", 170, 250), FilePart("d"))
    unknown = [InputFile(name, 60, None) for name in "abc"]
    assert [len(step.parts) for step in steps_of(unknown, size_max_bytes=120)] == [2, 1]


def test_files_are_found_in_order_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("topic=b/1.parquet", "topic=a/2.parquet", "_pymq/commits/0.json", "topic=a/.x.crc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"body": [b"x"]}), tmp_path / name)
    found = find_files([str(tmp_path)], "parquet")
    assert [Path(file.path).name for file in found] == ["2.parquet", "1.parquet"] and found[0].rows == 1
    with pytest.raises(NotFoundError, match="nowhere"):
        find_files([str(tmp_path / "nowhere")], "parquet")
    (tmp_path / "topic=a/bad.parquet").write_text("no Parquet")
    with pytest.raises(UsageError, match=r"bad.parquet can't be read as Parquet"):
        find_files([str(tmp_path)], "parquet")


def test_an_import_is_continued_only_with_the_same_files_and_by_one_at_a_time(tmp_path: Path) -> None:
    plan = plan_of([InputFile("a", 10, 30)], 2, {"T": 5})
    with ImportLog(tmp_path / "s", {"topic": "T"}, plan) as log:
        step = Step(0, (FilePart("a"),), 30, 10)
        assert not log.resumed and not log.is_done(step)
        for rows, is_done in ((29, False), (30, True)):
            log.receipt_path(0).write_text(json.dumps({"rows": {"T": rows - 1}, "dead_letters": 1}))
            assert log.is_done(step) is is_done
        with pytest.raises(OutputBusyError, match="another import"):
            ImportLog(tmp_path / "s", {"topic": "T"}, plan)
        first = log.import_id
    with ImportLog(tmp_path / "s", {"topic": "T"}, {**plan, "ends": {"T": 9}}) as log:
        assert log.resumed and log.import_id == first and log.plan["ends"] == {"T": 5}
    with pytest.raises(ResumeError, match="the file a is another, new or gone"):
        ImportLog(tmp_path / "s", {"topic": "T"}, plan_of([InputFile("a", 11, 30)], 2, {}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(UsageError, match="holds no earlier import"):
        ImportLog(tmp_path / "other", {}, plan)


def test_columns_of_files_become_those_of_messages() -> None:
    exported = {"topic": "string", "queueOffset": "bigint", "body": "binary", "tags": "string", "dt": "string"}
    whole = {**exported, "properties": "map<string,string>", "queueId": "int", "brokerName": "string"}
    columns, is_copy = message_columns(whole, {}, topic="", keeps_queues=False)
    assert is_copy and sorted(columns) == ["body", "properties", "queueKey", "topic"]
    columns, _ = message_columns(whole, {}, topic="T", keeps_queues=True)
    assert sorted(columns) == ["body", "brokerName", "properties", "queueId", "queueKey"]
    columns, is_copy = message_columns({**exported, "keys": "string"}, {}, topic="", keeps_queues=False)
    assert not is_copy and sorted(columns) == ["body", "keys", "queueKey", "tags", "topic"]
    text = {**exported, "properties": "string"}
    assert "from_json" in message_columns(text, {}, topic="", keeps_queues=False)[0]["properties"]
    with pytest.raises(UsageError, match="amount, id are no columns of a message"):
        message_columns({"id": "int", "amount": "double"}, {}, topic="T", keeps_queues=False)
    with pytest.raises(UsageError, match="no column bodi"):
        message_columns({"id": "int"}, {"bodi": "id"}, topic="T", keeps_queues=False)
