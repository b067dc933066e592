"""An archive as a sink: the example's hand-over over restarts and retention, and what such a sink refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import pyspark_pymq
from pymq.errors import PymqError
from pymq.pipeline.archive_options import INTERVAL_MIN_S, export_options, interval_s
from pymq.pipeline.job import Job
from pymq.pipeline.load import PipelineFile, PipelineFileError
from pymq.pipeline.report import Batch
from pymq.spark.planning.remote import Remote
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from tests.cli.test_send_tail import wait_until

EXAMPLE = Path(__file__).resolve().parents[2] / "conf" / "pipelines" / "archive.toml"


TOPIC = "History-orders"


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


def send(remote: Remote, first: int, last: int) -> None:
    for number in range(first, last):
        header = {"a": "G", "b": TOPIC, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1767225600000", "h": "0"}
        remote.ask_ok(request(310, header | {"i": f"KEYS\x01k{number}\x02", "j": "0"}, b"%04d" % number * 512))


def delete_first_segments(remote: Remote, data: Path) -> None:
    """Have the broker delete the two oldest segments of its log."""
    segments = sorted(data.rglob("commitlog/0*"))[:2]
    for segment in segments:
        os.utime(segment, (0, 0))
    remote.ask_ok(request(RequestCode.DELETE_EXPIRED_COMMITLOG, {}))
    wait_until(lambda: not any(segment.exists() for segment in segments), "both segments are deleted")


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_hands_over_to_the_broker(spark: Any, tmp_path: Path) -> None:
    archive, file = tmp_path / "archive", pipeline(tmp_path)
    with StandaloneProcess(tmp_path / "data", settings={"mappedFileSizeCommitLog": "65536"}) as server:
        with Remote(server.broker) as remote:
            send(remote, 0, 60)
            assert run(spark, file, server, "available-now", 60)[0].batch_id == 0
            send(remote, 60, 100)
            batches = run(spark, file, server, "100 milliseconds", 40)
            assert sum(batch.input_rows for batch in batches) == 40
            delete_first_segments(remote, tmp_path / "data")
            send(remote, 100, 130)
        reader = spark.read.format("pymq").option("namesrv", server.namesrv).option("columns", "bodyText")
        assert reader.load(TOPIC).count() < 130
        ends = pyspark_pymq.table_ends(TOPIC, "delta", str(archive))
        newer = [row[0] for row in reader.option("startingOffsets", ends).load(TOPIC).collect()]
        older = [body.decode() for body in DeltaTable(str(archive)).to_pyarrow_table().column("body").to_pylist()]
        assert sorted(older + newer) == [f"{n:04d}" * 512 for n in range(130)]
        assert (len(older), len(newer)) == (100, 30)
        other = pipeline(tmp_path, ('format = "archive"\n', 'format = "archive"\npartition_by = ["topic"]\n'))
        with pytest.raises(PymqError, match="partition_by"):
            run(spark, other, server, "available-now", 0)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            'start = "earliest"',
            'body = "text"',
            r"21: sink archive archives topics whole: .*only name, topic and start",
        ),
        ('topic = "*"', 'path = "x"', "21: sink archive archives topics whole: write the name of a source with topics"),
        ('"archive"\noptions', '"archive"\npartition_by = ["day"]\noptions', "25: an archive has no level day: .*hour"),
        ('"archive"\noptions', '"archive"\npartition_by = ["dt"]\noptions', "25: .*add topic to partition_by"),
        ("compact", "compct", "25: an archive has no option compct: the options are format, catalog, table, mode"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match=f"archive.toml:{reason}"):
        pipeline(tmp_path, (old, new))


def test_an_archive_may_be_in_an_object_store(tmp_path: Path) -> None:
    url = "s3a://bucket/archive"
    read = pipeline(tmp_path, (f'"{tmp_path}/archive"', f'"{url}"'), ("compact = true", 'keep = "2d"')).pipeline
    options = export_options(read, read.source[0], read.sink[0])
    options.check()
    assert (str(options.output), options.format, options.keep_days) == (url, "delta", 2.0)
    with pytest.raises(PipelineFileError, match=r"archive\.toml:23: s3a:/b is no path of an object store"):
        pipeline(tmp_path, (f'"{tmp_path}/archive"', '"s3a:/b"'))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ('format = "parquet", compact = true', "--compact and --keep are for tables, not parquet"),
        ('format = "delta", table = "a.b"', "a catalog and a table's name are for --format iceberg, not delta"),
        ('format = "iceberg", table = "a"', "table 'a' has no namespace"),
        ('format = "delta", keep = "x"', "'x' is not a duration"),
        ('format = "delta", keep = "36501d"', "--keep is 36501 days: write at most 36500d"),
        ('format = "hudi"', "format 'hudi' is unknown"),
    ],
)
def test_wrong_options_are_named_with_their_line(options: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match=f"archive.toml:25: {reason}"):
        pipeline(tmp_path, ('format = "delta", compact = true', options))


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [("10 seconds", 10.0), ("1 minute", 60.0), ("2 weeks", 1_209_600.0), ("99 milliseconds", INTERVAL_MIN_S)],
)
def test_the_trigger_is_the_time_between_looks(trigger: str, seconds: float) -> None:
    assert interval_s(trigger) == seconds
