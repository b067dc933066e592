"""Streams in the mode ``update``: what changes is sent again, and a batch that is repeated sends the same messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pymq.errors import UsageError
from pymq.spark.session.failures import translated
from pymq.spark.sink.batch_writer import write_id_of_batch
from pymq.spark.tasks.query_ids import QUERY_ID_PROPERTY
from pymq.testing.standalone import StandaloneProcess
from pyspark_pymq import batch_writer
from tests.spark.sink.test_sink import stored


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as process:
        yield process


class Written:
    """A batch that notes with which options it was written. ``query``: what Spark says of the thread's query."""

    def __init__(self, query: str | None) -> None:
        context = SimpleNamespace(getLocalProperty={QUERY_ID_PROPERTY: query}.get)
        self.sparkSession = SimpleNamespace(sparkContext=context)
        self.noted: dict[str, str] = {}
        self.write = self

    def format(self, name: str) -> Written:
        return self.options(format=name)

    def options(self, **options: str) -> Written:
        self.noted |= options
        return self

    def option(self, name: str, value: str) -> Written:
        return self.options(**{name: value})

    def mode(self, name: str) -> Written:
        return self.options(mode=name)

    def save(self) -> None:
        self.noted["saved"] = "yes"


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [("q-1", {}, "q-1\n7"), ("q-1", {"writeid": "mine"}, "mine\n7"), (None, {"writeId": "mine"}, "mine\n7")],
)
def test_ids_are_those_of_the_sink_of_streams(query: str | None, options: dict[str, str], expected: str) -> None:
    rows: Any = Written(query)
    batch_writer(topic="T", **options)(rows, 7)
    assert rows.noted == {"format": "pymq", "mode": "append", "topic": "T", "writeId": expected, "saved": "yes"}
    assert write_id_of_batch("q-1", "7") == "q-1\n7"


def test_what_is_refused() -> None:
    rows: Any = Written(None)
    with pytest.raises(UsageError, match="doesn't say which query this batch is of: give batch_writer the option wri"):
        batch_writer(topic="T")(rows, 0)
    assert not rows.noted
    for options, text in (
        ({"topics": "T"}, "option topics is not known to format pymq: write topic"),
        ({"topic": "T", "checkpointLocation": "c"}, "option checkpointLocation is the query's: write it after writeS"),
        ({"topic": "T", "maxBodyBytes": "0"}, "write a whole number"),
    ):
        with pytest.raises(UsageError, match=text):
            batch_writer(**options)


@pytest.mark.slow
@pytest.mark.spark
def test_counts_are_updated_and_a_repeated_batch_sends_the_same(
    spark: Any, server: StandaloneProcess, tmp_path: Path
) -> None:
    words, checkpoint = tmp_path / "words", tmp_path / "checkpoint"
    where = {"namesrv": server.namesrv, "topic": "sink-update"}

    def add(*found: str) -> None:
        spark.createDataFrame([(word,) for word in found], "word string").coalesce(1).write.mode("append").json(
            str(words)
        )

    def run(body: str = "to_json(struct(word, count))") -> None:
        counts = spark.readStream.schema("word string").json(str(words)).groupBy("word").count()
        rows = counts.selectExpr("word AS key", f"{body} AS body")
        query = rows.writeStream.outputMode("update").foreachBatch(batch_writer(**where))
        query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        with translated():
            query.awaitTermination()

    add("ann", "bob", "ann")
    run()
    add("ann")
    run()
    found = stored(server, "sink-update", "msgId", "body")
    bodies = sorted((row["word"], row["count"]) for row in (json.loads(body) for _, body in found))
    assert bodies == [("ann", 2), ("ann", 3), ("bob", 1)]
    # A process that is killed before Spark notes its batch as done is made again from the checkpoint.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)
    run()
    again = stored(server, "sink-update", "msgId", "body")
    assert len(again) == 4 and set(again) == set(found)
    assert sorted(stored(server, "sink-update", "msgId", "body", window=1000)) == sorted(found)
    add("cid")
    with pytest.raises(UsageError, match=r"row 0 of task [01]: its body is null"):
        run("if(word = 'cid', null, to_json(struct(word, count)))")
