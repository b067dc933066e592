"""An archive as a sink: the example's hand-over over restarts and retention, and what such a sink refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pymq.errors import PymqError
from pymq.pipeline.archive import INTERVAL_MIN_S, export_options, interval_s
from pymq.pipeline.job import Job
from pymq.pipeline.load import PipelineFile, PipelineFileError
from pymq.pipeline.report import Batch
from pymq.spark.planning.remote import Remote
from pymq.spark.queries import Query, Tables
from pymq.testing.standalone import StandaloneProcess
from tests.spark.lake.test_history import TOPIC, delete_first_segments, send, tailed

EXAMPLE = Path(__file__).resolve().parents[2] / "conf" / "pipelines" / "archive.toml"


class EnoughError(Exception):
    """Ends a run that would go on."""


def pipeline(place: Path, *changes: tuple[str, str]) -> PipelineFile:
    """Return the example with its paths below ``place``, and with other changes."""
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in (('"./', f'"{place}/'), *changes):
        assert old in text
        text = text.replace(old, new)
    return PipelineFile(Path("archive.toml"), text)


def run(spark: Any, file: PipelineFile, server: StandaloneProcess, trigger: str, rows: int) -> list[Batch]:
    """Run until so many rows are archived and none is left."""
    batches: list[Batch] = []

    def watch(batch: Batch) -> None:
        batches.append(batch)
        if sum(batch.input_rows for batch in batches) >= rows and batch.behind_rows == 0:
            raise EnoughError

    with pytest.raises(EnoughError):
        Job(file.changed({"namesrv": server.namesrv, "trigger": trigger}), spark).run(watch)
    return batches


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_hands_over_to_the_broker(spark: Any, tmp_path: Path) -> None:
    lake, file = tmp_path / "archive", pipeline(tmp_path)
    with StandaloneProcess(tmp_path / "data", settings={"mappedFileSizeCommitLog": "65536"}) as server:
        with Remote(server.broker) as remote:
            send(remote, 0, 60)
            assert run(spark, file, server, "available-now", 60)[0].batch_id == 0
            send(remote, 60, 100)
            batches = run(spark, file, server, "100 milliseconds", 40)
            assert sum(batch.input_rows for batch in batches) == 40
            delete_first_segments(remote, tmp_path / "data")
            send(remote, 100, 130)
        whole = [f"{n:04d}" * 512 for n in range(130)]
        reader = spark.read.format("pymq").option("namesrv", server.namesrv).option("columns", "bodyText")
        assert reader.load(TOPIC).count() < 130
        assert sorted(row[0] for row in reader.option("archive", str(lake)).load(TOPIC).collect()) == whole
        assert tailed(server, lake, "--from", "start", "--format", "%b") == whole
        tables = Tables(server.namesrv, archive=str(lake))
        with Query(spark, tables, f"select count(*), count(distinct queueOffset) from `{TOPIC}`") as query:
            assert [tuple(row.values()) for row in query.run().to_pylist()] == [(130, 130)]
        other = pipeline(tmp_path, ('format = "archive"\n', 'format = "archive"\npartition_by = ["topic"]\n'))
        with pytest.raises(PymqError, match="partition_by"):
            run(spark, other, server, "available-now", 0)
        assert sorted(row[0] for row in reader.load(TOPIC).collect()) == whole


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            'start = "earliest"',
            'body = "text"',
            r"23: sink archive archives topics whole: .*only name, topic and start",
        ),
        ('topic = "*"', 'path = "x"', "23: sink archive archives topics whole: write the name of a source with topics"),
        ('"archive"\noptions', '"archive"\npartition_by = ["day"]\noptions', "27: an archive has no level day: .*hour"),
        ('"archive"\noptions', '"archive"\npartition_by = ["dt"]\noptions', "27: .*add topic to partition_by"),
        ("compact", "compct", "27: an archive has no option compct: the options are compact, compression"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match=f"archive.toml:{reason}"):
        pipeline(tmp_path, (old, new))


def test_an_archive_may_be_in_an_object_store(tmp_path: Path) -> None:
    url = "s3a://bucket/archive"
    read = pipeline(tmp_path, (f'"{tmp_path}/archive"', f'"{url}"'), ("compact = true", "compact = false")).pipeline
    options = export_options(read, read.source[0], read.sink[0])
    options.check()
    assert str(options.output) == url
    wrong = ((url, 27, ".*leave out compact"), ("s3a:/b", 25, "s3a:/b is no path of an object store"))
    for other, line, reason in wrong:
        with pytest.raises(PipelineFileError, match=f"archive.toml:{line}: {reason}"):
            pipeline(tmp_path, (f'"{tmp_path}/archive"', f'"{other}"'))


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [("10 seconds", 10.0), ("1 minute", 60.0), ("2 weeks", 1_209_600.0), ("99 milliseconds", INTERVAL_MIN_S)],
)
def test_the_trigger_is_the_time_between_looks(trigger: str, seconds: float) -> None:
    assert interval_s(trigger) == seconds
