"""Reads a pipeline's file and checks all that can be checked without Spark; each error names the file's line."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from pymq.errors import NotFoundError, UsageError
from pymq.pipeline.archive_options import export_options
from pymq.pipeline.model import ARCHIVE_OPTIONS, AVAILABLE_NOW, Pipeline, Sink, Source, Step
from pymq.pipeline.sql_names import tables_of
from pymq.pipeline.toml_lines import KeyPath, line_of, lines_of
from pymq.spark.export.options import PARTITION_LEVELS
from pymq.spark.places.places import expanded

FILE_BYTES_MAX = 1 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_INTERVAL = re.compile(r"\d+ (milli|micro)?(second|minute|hour|day|week)s?")
_WATERMARK = re.compile(r"(?P<column>\w+) +(?P<delay>\d+ (second|minute|hour|day|week)s?)")
_SYNTAX = re.compile(r"(?P<text>.+) \(at line (?P<line>\d+), column \d+\)")
_AT = re.compile(r" - at `\$(?P<path>.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")
_STEP_OF_PATH = re.compile(r"\[(\d+|\.\.\.)\]|\.?([^.\[]+)")
_TABLES: dict[str, type[msgspec.Struct]] = {"source": Source, "step": Step, "sink": Sink}


class PipelineFileError(UsageError):
    """A pipeline's file is wrong; the text begins with its name and the line."""


class PipelineFile:
    """A file that was read: the pipeline, and where in the file its parts are."""

    def __init__(self, path: Path, text: str) -> None:
        """Raise PipelineFileError with the first thing that is wrong."""
        self.path = path
        self._lines: dict[KeyPath, int] = {}
        self.pipeline = self._parse(text)
        for at, reason in _wrong(self.pipeline):
            raise self.error(at, reason)

    def changed(self, values: dict[str, Any]) -> PipelineFile:
        """Return this file with other values of some keys. They are the operator's, so nothing is checked."""
        other = copy.copy(self)
        other.pipeline = msgspec.structs.replace(self.pipeline, **values)
        return other

    def error(self, at: KeyPath, reason: str) -> PipelineFileError:
        """Return an error about the value at this path of the file."""
        return PipelineFileError(f"{self.path}:{line_of(self._lines, at)}: {reason}")

    def _parse(self, text: str) -> Pipeline:
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = _SYNTAX.match(str(error))
            line = found["line"] if found else str(text.count("\n") + 1)
            raise PipelineFileError(f"{self.path}:{line}: not TOML: {found['text'] if found else error}") from None
        self._lines = lines_of(text)
        try:
            return msgspec.convert(tables, Pipeline)
        except msgspec.ValidationError as error:
            raise self._from_conversion(str(error), tables) from None

    def _from_conversion(self, text: str, tables: dict[str, Any]) -> PipelineFileError:
        at = _AT.search(text)
        path = _path_of(at["path"]) if at else ()
        reason = text[: at.start()] if at else text
        kind = _TABLES.get(str(path[0]), Pipeline) if path else Pipeline
        if unknown := _UNKNOWN.match(reason):
            near = get_close_matches(unknown["name"], _keys_of(kind), n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(_keys_of(kind))}"
            return self.error((*path, unknown["name"]), f"unknown key {unknown['name']}: {hint}")
        if missing := _MISSING.match(reason):
            name = missing["name"]
            what = f"[[{name}]]" if name in _TABLES else f"the key {name}"
            return self.error(path, f"{what} is missing" + (f" in [[{path[0]}]]" if path else ""))
        return self.error(path, f"{'.'.join(map(str, path))}: {reason[:1].lower()}{reason[1:]}")


def read_pipeline(path: Path) -> PipelineFile:
    """Read a file. Raises PipelineFileError, or NotFoundError when it can't be read."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise NotFoundError(f"{path} can't be read: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise PipelineFileError(f"{path}:1: the file has more than {FILE_BYTES_MAX} bytes: is it a pipeline's?")
    try:
        return PipelineFile(path, content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PipelineFileError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from error


def parse_watermark(text: str) -> tuple[str, str]:
    """Return column and delay of ``"at 10 minutes"``. Raises ValueError."""
    found = _WATERMARK.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found["column"], found["delay"]


def _path_of(text: str) -> KeyPath:
    """Turn msgspec's ``.source[0].topic`` into a path."""
    return tuple(int(index) if index.isdigit() else name for index, name in _STEP_OF_PATH.findall(text))


def _keys_of(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def _wrong(pipeline: Pipeline) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is wrong, with its place, beyond names and types of keys."""
    if not _NAME.fullmatch(pipeline.name):
        yield ("name",), _bad_name(pipeline.name)
    if pipeline.trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(pipeline.trigger):
        yield ("trigger",), f'trigger is {pipeline.trigger!r}: write "10 seconds" or "{AVAILABLE_NOW}"'
    if "://" in pipeline.checkpoint:
        yield ("checkpoint",), "checkpoint is a URL: name a directory that the driver and the executors share"
    for key in ("source", "sink"):
        if not getattr(pipeline, key):
            yield (key,), f"[[{key}]] is missing: a pipeline has at least one"
    yield from _wrong_names(pipeline)
    for number, source in enumerate(pipeline.source):
        yield from (((("source", number, key)), text) for key, text in _wrong_source(source))
    yield from _wrong_steps(pipeline)
    for number, sink in enumerate(pipeline.sink):
        yield from (((("sink", number, key)), text) for key, text in _wrong_sink(sink, pipeline))


def _wrong_names(pipeline: Pipeline) -> Iterator[tuple[KeyPath, str]]:
    tables: set[str] = set()
    labels: set[str] = set()
    parts: Iterable[tuple[KeyPath, str, set[str]]] = [
        *((("source", at, "name"), source.name, tables) for at, source in enumerate(pipeline.source)),
        *((("step", at, "name"), step.name, tables) for at, step in enumerate(pipeline.step)),
        *((("sink", at, "name"), sink.label, labels) for at, sink in enumerate(pipeline.sink)),
    ]
    for path, name, taken in parts:
        if not _NAME.fullmatch(name):
            yield path, _bad_name(name)
        if name.lower() in taken:
            yield path, f"the name {name} is used twice: give each source and step, and each sink, a name of its own"
        taken.add(name.lower())


def _bad_name(name: str) -> str:
    return f"name is {name!r}: write 1 to 64 letters, digits and underscores, no digit first"


def _wrong_source(source: Source) -> Iterator[tuple[str, str]]:
    if bool(source.topics) == (source.path is not None):
        yield "topic", f"source {source.name} needs either topic or path"
    if source.body == "json" and not source.fields:
        yield (
            "fields",
            f'source {source.name} has body = "json": name the fields, as in fields = "user string, at timestamp"',
        )
    if source.body != "json" and source.fields and source.path is None:
        yield "fields", f'source {source.name} has fields: they need body = "json"'
    yield from _wrong_watermark(source.watermark)


def _wrong_watermark(watermark: str | None) -> Iterator[tuple[str, str]]:
    if watermark is not None and not _WATERMARK.fullmatch(watermark):
        yield "watermark", f'watermark is {watermark!r}: write a column and a time, as in "at 10 minutes"'


def _wrong_steps(pipeline: Pipeline) -> Iterator[tuple[KeyPath, str]]:
    later = {step.name for step in pipeline.step}
    for number, step in enumerate(pipeline.step):
        place: KeyPath = ("step", number)
        if not step.sql.strip():
            yield (*place, "sql"), f"step {step.name} has no query"
        named = tables_of(step.sql)
        if step.name in named:
            yield (*place, "sql"), f"step {step.name} reads itself, which would be a cycle"
        later.discard(step.name)
        if ahead := sorted(named & later):
            yield (
                (*place, "sql"),
                f"step {step.name} reads {ahead[0]}, which comes after it: steps read what is above them",
            )
        yield from (((*place, key), text) for key, text in _wrong_watermark(step.watermark))


def _wrong_sink(sink: Sink, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    tables = [*(source.name for source in pipeline.source), *(step.name for step in pipeline.step)]
    if sink.table not in tables:
        near = get_close_matches(sink.table, tables, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(tables)}"
        yield "from", f"no source or step is named {sink.table}: {hint}"
    if (sink.topic is None) == (sink.path is None):
        yield "topic", f"sink {sink.label} needs either topic or path"
    if sink.topic is not None and sink.mode == "complete":
        yield "mode", f'sink {sink.label} writes to a topic: mode is "append" or "update"'
    if sink.path is not None and sink.mode != "append":
        yield "mode", f'sink {sink.label} writes files: mode is "append", as a file that is written stays'
    for key in ("key", "tags"):
        if sink.path is not None and getattr(sink, key) is not None:
            yield key, f"sink {sink.label} writes files, which have no {key}"
    if sink.topic is not None and sink.partition_by:
        yield "partition_by", f"sink {sink.label} writes to a topic: partition_by is for files"
    if sink.is_archive:
        yield from _wrong_archive(sink, pipeline)


def _wrong_archive(sink: Sink, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    label = sink.label
    source = next((source for source in pipeline.source if source.name == sink.table), None)
    if source is None or source.path is not None:
        yield "from", f"sink {label} archives topics whole: write the name of a source with topics in from"
    elif source.body != "binary" or source.watermark is not None or source.options:
        yield (
            "from",
            f"sink {label} archives topics whole: give it a source that has only name, topic and start",
        )
    try:
        expanded(sink.path or "")
    except UsageError as error:
        yield "path", str(error)
        return
    if sink.partition_by and (wrong := sorted({*sink.partition_by} - {*PARTITION_LEVELS})):
        yield "partition_by", f"an archive has no level {wrong[0]}: the levels are {', '.join(PARTITION_LEVELS)}"
    if sink.partition_by and "topic" not in sink.partition_by:
        yield "partition_by", "an archive is read by topic: add topic to partition_by"
    if unknown := sorted({*sink.options} - {*ARCHIVE_OPTIONS}):
        yield "options", f"an archive has no option {unknown[0]}: the options are {', '.join(ARCHIVE_OPTIONS)}"
    elif source is not None:
        try:
            export_options(pipeline, source, sink).check()
        except UsageError as error:
            yield "options", str(error)
