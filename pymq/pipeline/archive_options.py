"""The export that a sink of the format ``archive`` is."""

from __future__ import annotations

import re

from pymq.pipeline.model import AVAILABLE_NOW, Pipeline, Sink, Source
from pymq.spark.export.options import UPSERT, ExportOptions
from pymq.spark.places.places import expanded
from pymq.units import MS_PER_DAY, parse_duration_ms

_UNITS_S = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
_INTERVAL = re.compile(r"(?P<count>\d+) (?P<part>milli|micro)?(?P<unit>second|minute|hour|day|week)s?")
_PARTS = {None: 1.0, "milli": 1e-3, "micro": 1e-6}
INTERVAL_MIN_S = 0.1


def export_options(pipeline: Pipeline, source: Source, sink: Sink) -> ExportOptions:
    """Return the export that a sink of the format ``archive`` is."""
    follow = pipeline.trigger != AVAILABLE_NOW
    options = ExportOptions(
        namesrv=pipeline.namesrv,
        credentials=pipeline.credentials,
        topics=tuple(source.topics),
        start=source.start,
        output=expanded(sink.path or ""),
        master=pipeline.master,
        follow=follow,
        follow_every_s=interval_s(pipeline.trigger) if follow else INTERVAL_MIN_S,
        format=str(sink.options.get("format", "parquet")),
        catalog=_text(sink, "catalog"),
        table=_text(sink, "table"),
        mode=str(sink.options.get("mode", "append")),
        key=str(sink.options.get("key", "keys")),
        compact=bool(sink.options.get("compact", False)),
        keep_days=parse_duration_ms(str(sink.options.get("keep", "0s"))) / MS_PER_DAY,
    )
    if options.mode == UPSERT:
        options.partition_by = ("topic",)
    if sink.partition_by:
        options.partition_by = tuple(sink.partition_by)
    if "compression" in sink.options:
        options.compression = str(sink.options["compression"])
    return options


def _text(sink: Sink, name: str) -> str | None:
    value = sink.options.get(name)
    return None if value is None else str(value)


def interval_s(trigger: str) -> float:
    """Return the seconds of a trigger such as ``10 seconds``, at least :data:`INTERVAL_MIN_S`."""
    found = _INTERVAL.fullmatch(trigger)
    assert found is not None  # load.py
    return max(INTERVAL_MIN_S, int(found["count"]) * _PARTS[found["part"]] * _UNITS_S[found["unit"]])
