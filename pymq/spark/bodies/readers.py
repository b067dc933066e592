"""What the readers of all formats have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from pymq.spark.bodies.body_format import BodyFormat


class BodyReader(Protocol):
    """Reads bodies of one schema. Values between :meth:`read` and :meth:`array` are the reader's own."""

    arrow_type: pa.DataType

    def read(self, topic: str, body: bytes) -> tuple[Any, int]:
        """Return a body's value, and how many values of columns it has at most.

        Raises BadBodyError; RegistryError when the registry does not answer.
        """
        ...

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values as a column; None is null. Raises any error for a value that has no place there."""
        ...


def reader_of(body_format: BodyFormat) -> BodyReader:
    """Return the reader of a format. Raises UsageError for a schema that columns can't have, or without a library."""
    if body_format.format == "avro":
        from pymq.spark.bodies.avro_reader import AvroReader

        return AvroReader(body_format)
    if body_format.format == "protobuf":
        from pymq.spark.bodies.protobuf_reader import ProtobufReader

        return ProtobufReader(body_format)
    from pymq.spark.bodies.json_reader import JsonReader

    return JsonReader(body_format)
