"""What a pipeline's file says: names and types of its keys. docs/pipelines.md explains each of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

NAMESRV = "127.0.0.1:9876"
DEFAULT_TRIGGER = "10 seconds"
AVAILABLE_NOW = "available-now"
DEFAULT_MASTER = "local[2]"
# A sink of this format is what spark-export writes.
ARCHIVE = "archive"
ARCHIVE_OPTIONS = ("format", "catalog", "table", "mode", "key", "compact", "keep", "compression")
BODY_FORMS = ("binary", "text", "json")

OutputMode: TypeAlias = Literal["append", "update", "complete"]
Options: TypeAlias = dict[str, str | int | float | bool]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[[source]]``: topics, or files, as a table of this name."""

    name: str
    topic: str | list[str] | None = None
    path: str | None = None
    format: str = "parquet"
    start: str = "earliest"
    body: Literal["binary", "text", "json"] = "binary"
    fields: str | None = None
    watermark: str | None = None
    options: Options = msgspec.field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        return [self.topic] if isinstance(self.topic, str) else list(self.topic or ())


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[[step]]``: a query over sources and earlier steps, as a table of this name."""

    name: str
    sql: str
    watermark: str | None = None


class Sink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[[sink]]``: where the rows of a source or step go: a topic, or files."""

    table: str = msgspec.field(name="from")
    name: str = ""
    topic: str | None = None
    path: str | None = None
    format: str = "parquet"
    partition_by: list[str] = []
    key: str | None = None
    tags: str | None = None
    mode: OutputMode = "append"
    options: Options = msgspec.field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name; without one that of its table. Checkpoint, metrics and messages carry it."""
        return self.name or self.table

    @property
    def is_archive(self) -> bool:
        return self.path is not None and self.format == ARCHIVE


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    name: str
    checkpoint: str
    source: list[Source]
    sink: list[Sink]
    step: list[Step] = []
    namesrv: str = NAMESRV
    credentials: str = ""
    trigger: str = DEFAULT_TRIGGER
    master: str = DEFAULT_MASTER
    spark: Options = msgspec.field(default_factory=dict)
