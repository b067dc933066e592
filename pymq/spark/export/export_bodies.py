"""What becomes of the bodies of an export: their form, the column's type, and what a later run must know of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pymq.spark.export.options import SCHEMA_FORMS, ExportOptions
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.records import bodies

if TYPE_CHECKING:
    import pyarrow as pa

    from pymq.spark.bodies.body_format import BodyFormat


def body_format_of(options: ExportOptions) -> BodyFormat | None:
    """Return the schema of Avro or Protobuf bodies, which this process alone reads; None for other forms."""
    if options.body not in SCHEMA_FORMS:
        return None
    from pymq.spark.source.body_schemas import body_format

    kind: Any = options.body
    schema = options.body_schema or ""
    return body_format(kind, schema, options.topics, options.registry, options.body_message, options.bad_records)


def body_setting(
    options: ExportOptions, read: ReadSettings, first_bodies: Callable[[], Iterable[bytes]]
) -> dict[str, str]:
    """Return the form of bodies as a setting; fields of JSON that are not given are the earlier run's, or inferred."""
    if read.body_schema is not None:
        return {"body": f"{options.body}:{body_type(read, {})}"}
    if options.body != bodies.JSON:
        return {} if options.body == "bytes" else {"body": options.body}
    if options.body_schema is not None:
        return {"body": bodies.json_form(bodies.parse_schema(options.body_schema))}
    from pymq.spark.export.logs import earlier_settings

    earlier = earlier_settings(options).get("body", "")
    if earlier.startswith(bodies.JSON):
        return {"body": earlier}
    return {"body": bodies.json_form(bodies.inferred(first_bodies()))}


def body_type(read: ReadSettings, setting: dict[str, str]) -> pa.DataType:
    """Return the type of the column ``body``."""
    if read.body_schema is None:
        return bodies.arrow_type(setting.get("body", ""))
    from pymq.spark.bodies.readers import reader_of

    return reader_of(read.body_schema).arrow_type
