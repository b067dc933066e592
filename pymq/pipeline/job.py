"""Turns a pipeline into streaming queries of one Spark session, and runs them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pymq.errors import UsageError
from pymq.pipeline.archive import Archive
from pymq.pipeline.archive_options import export_options
from pymq.pipeline.checkpoints import claim, directory_of
from pymq.pipeline.load import PipelineFile, parse_watermark
from pymq.pipeline.model import AVAILABLE_NOW, Options, Pipeline, Sink, Source
from pymq.pipeline.report import Batch
from pymq.pipeline.toml_lines import KeyPath
from pymq.pipeline.works import QueryWork, Watcher, Work, stop_all, wait
from pymq.spark.export.patience import Patience
from pymq.spark.session import gateway
from pymq.spark.session.error_texts import LAST_LINE
from pymq.spark.session.failures import WorkerLostError, translated
from pymq.spark.session.interruptible import run_interruptibly
from pymq.spark.session.masters import check_master
from pymq.spark.session.shipping import prepare_executors
from pymq.spark.settings import RETRY_BUDGET_S
from pymq.spark.sink.batch_writer import batch_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BODY_COLUMNS = {"body", "value"}
RESTART_PAUSE_S = 1.0
_QUOTED_CLASS = re.compile(r"^\[(?P<kind>[A-Z_.]+)\] ")


class Table(NamedTuple):
    """A source or step that Spark has analyzed."""

    name: str
    columns: list[tuple[str, str]]
    """Names and Spark's types."""
    is_stream: bool


@contextmanager
def opened(file: PipelineFile) -> Iterator[Job]:
    """Start Spark, analyzes the pipeline and yield it.

    Raises PipelineFileError, UnreachableError, SparkStartError.
    """
    pipeline = file.pipeline
    check_master(pipeline.master)
    conf = {name: _option(value) for name, value in pipeline.spark.items()}
    with gateway.running(pipeline.master, {"spark.app.name": pipeline.name, **conf}) as spark:
        prepare_executors(spark)
        yield Job(file, spark)


class Job:
    """A pipeline whose tables Spark knows. :meth:`run` runs its sinks."""

    def __init__(self, file: PipelineFile, spark: SparkSession) -> None:
        """Raise PipelineFileError when Spark refuses a source or a query."""
        self._file = file
        self._spark = spark
        self._frames: dict[str, DataFrame] = {}
        self._written: set[str] = set()  # the sinks of fixed tables that are done
        pipeline = file.pipeline
        for number, source in enumerate(pipeline.source):
            with self._refusals_at(("source", number, "fields" if source.fields else "name")):
                self._register(source.name, _read(spark, source, pipeline), source.watermark)
        for number, step in enumerate(pipeline.step):
            with self._refusals_at(("step", number, "sql")):
                self._register(step.name, spark.sql(step.sql), step.watermark)
        self._writes = []
        for number, sink in enumerate(pipeline.sink):
            with self._refusals_at(("sink", number, "from")):
                self._writes.append(_shaped(sink, self._frames[sink.table]))
        self._check_triggers()

    @property
    def pipeline(self) -> Pipeline:
        return self._file.pipeline

    def tables(self) -> list[Table]:
        """Return the sources and steps with their columns, in the file's order."""
        return [Table(name, list(frame.dtypes), frame.isStreaming) for name, frame in self._frames.items()]

    def run(self, watch: Watcher, trying_again: Callable[[str], object] = lambda why: None) -> None:
        """Run all sinks: until Ctrl-C, or until all that was there at the start is written (``available-now``).

        ``watch`` gets each finished batch once. When one sink fails, the others are stopped and its error is raised.
        When Spark has lost a Python process, all begin again at their checkpoints, until no batch was finished for
        :data:`~pymq.spark.settings.RETRY_BUDGET_S`; ``trying_again`` gets the reason.
        Ctrl-C ends the queries at once; the next run continues at their checkpoints, and writes each row of files once.
        """
        claim(self.pipeline)
        works: list[Work] = []
        stopping = threading.Event()
        patience = [Patience(RETRY_BUDGET_S, trying_again)]

        def seen(batch: Batch) -> None:
            patience[0] = Patience(RETRY_BUDGET_S, trying_again)
            watch(batch)

        def work() -> None:
            gateway.activate(self._spark)
            while not stopping.is_set():
                try:
                    self._run_once(works, seen, stopping)
                    return
                except WorkerLostError as error:
                    if not patience[0].has_some(error):
                        raise
                stopping.wait(RESTART_PAUSE_S)

        def stop() -> None:
            stopping.set()
            stop_all(works)

        run_interruptibly(work, stop)

    def _run_once(self, works: list[Work], watch: Watcher, stopping: threading.Event) -> None:
        """Start all sinks and wait for their end. Raises the error of one that failed, with none left running."""
        works.clear()
        with translated():
            try:
                for sink, frame in zip(self.pipeline.sink, self._writes, strict=True):
                    self._start(sink, frame, works)
                if stopping.is_set():  # since the last look at it
                    stop_all(works)
                wait(works, watch)
            except BaseException:
                stop_all(works)
                raise

    def _register(self, name: str, frame: DataFrame, watermark: str | None) -> None:
        if watermark is not None:
            frame = frame.withWatermark(*parse_watermark(watermark))
            _ = frame.schema  # a wrong column is refused here
        frame.createOrReplaceTempView(name)
        self._frames[name] = frame

    def _check_triggers(self) -> None:
        pipeline = self.pipeline
        for number, sink in enumerate(pipeline.sink):
            if pipeline.trigger != AVAILABLE_NOW and not self._frames[sink.table].isStreaming:
                raise self._file.error(
                    ("sink", number, "from"),
                    f"{sink.table} reads no stream, so it ends: write trigger = {AVAILABLE_NOW!r}, or read a topic",
                )

    def _start(self, sink: Sink, frame: DataFrame, works: list[Work]) -> None:
        pipeline = self.pipeline
        if sink.is_archive:
            source = next(source for source in pipeline.source if source.name == sink.table)
            works.append(Archive(sink.label, export_options(pipeline, source, sink), self._spark))
            return
        kind, options = _target(sink, pipeline)
        if not frame.isStreaming:
            if sink.label in self._written:
                return
            frame.write.format(kind).options(**options).partitionBy(*sink.partition_by).mode("append").save()
            self._written.add(sink.label)
            return
        writer = frame.writeStream.queryName(sink.label).outputMode(sink.mode)
        if sink.mode == "update":
            writer = writer.foreachBatch(batch_writer(**options))
        else:
            writer = writer.format(kind).options(**options)
        writer = writer.option("checkpointLocation", str(directory_of(pipeline) / sink.label))
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        if pipeline.trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=pipeline.trigger)
        works.append(QueryWork(writer.start()))

    @contextmanager
    def _refusals_at(self, path: KeyPath) -> Iterator[None]:
        """Turn what Spark refuses within the block into an error that names the line."""
        from pyspark.errors import AnalysisException, ParseException

        try:
            yield
        except (AnalysisException, ParseException) as error:
            raise self._file.error(path, _reason(str(error))) from None
        except UsageError as error:
            raise self._file.error(path, str(error)) from None


def _reason(text: str) -> str:
    """Return the sentence of Spark's refusal, without its class, position and query."""
    if raised := LAST_LINE.findall(text):
        return str(raised[-1][1])  # of a source in Python
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _QUOTED_CLASS.sub("", lines[0] if lines else "Spark gives no reason").split(" SQLSTATE")[0].rstrip(".")


def _option(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(options: Options) -> dict[str, str]:
    return {name: _option(value) for name, value in options.items()}


def _cluster(pipeline: Pipeline) -> dict[str, str]:
    credentials = {"credentials": pipeline.credentials} if pipeline.credentials else {}
    return {"namesrv": pipeline.namesrv, **credentials}


def _read(spark: SparkSession, source: Source, pipeline: Pipeline) -> DataFrame:
    if source.path is not None:
        reader = spark.read.format(source.format).options(**_options(source.options))
        return (reader.schema(source.fields) if source.fields else reader).load(_place(source.path))
    options = {**_cluster(pipeline), "startingOffsets": source.start, **_options(source.options)}
    frame = spark.readStream.format("pymq").options(**options).load(",".join(source.topics))
    return _with_body(frame, source)


def _with_body(frame: DataFrame, source: Source) -> DataFrame:
    """Give the column ``body`` the form that the source asks for."""
    if source.body == "text":
        return frame.withColumn("body", frame["body"].cast("string"))
    if source.body == "json":
        from pyspark.sql import functions

        assert source.fields is not None  # load.py
        parsed = functions.from_json(frame["body"].cast("string"), source.fields)
        frame = frame.withColumn("_body", parsed)
        fields = {field.name.lower() for field in frame.schema["_body"].dataType.fields}
        kept = [name for name in frame.columns if name.lower() not in {*fields, "body", "_body"}]
        return frame.select(*kept, "_body.*")
    return frame


def _shaped(sink: Sink, frame: DataFrame) -> DataFrame:
    """Return a sink's rows. Rows of a topic have a ``body``, which is JSON of all columns when the table has none."""
    if sink.topic is None:
        return frame
    from pyspark.sql import functions

    names = {name.lower() for name in frame.columns}
    columns: list[Any] = []
    if names & _BODY_COLUMNS:
        columns += [frame[name] for name in frame.columns]
    else:
        columns.append(functions.to_json(functions.struct(*frame.columns)).alias("body"))
    columns += [
        frame[column].cast("string").alias(name)
        for name, column in (("key", sink.key), ("tags", sink.tags))
        if column is not None
    ]
    return frame.select(*columns)


def _target(sink: Sink, pipeline: Pipeline) -> tuple[str, dict[str, str]]:
    if sink.topic is not None:
        return "pymq", {**_cluster(pipeline), "topic": sink.topic, **_options(sink.options)}
    return sink.format, {"path": _place(sink.path or ""), **_options(sink.options)}


def _place(path: str) -> str:
    """Return a path as Spark's JVM, which has another working directory, finds it."""
    return path if "://" in path else str(Path(path).absolute())
