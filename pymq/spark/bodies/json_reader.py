"""JsonReader: JSON bodies as columns, checked against their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from pymq.client.codecs import CodecError
from pymq.client.schema_registry import unframed
from pymq.spark.bodies.body_format import BadBodyError, BodyFormat, values_max
from pymq.spark.bodies.ddl import ddl_column
from pymq.spark.bodies.json_columns import Column
from pymq.spark.bodies.json_schema import json_schema_column

_ITEM_BYTES_MIN = 2  # a digit and a comma


class JsonReader:
    """Reads bodies that hold one value. A field that one lacks is null; fields that the schema lacks are left out."""

    def __init__(self, body_format: BodyFormat) -> None:
        """Raise UsageError for a schema that columns can't have."""
        text = body_format.definition
        column = (json_schema_column if text.lstrip().startswith("{") else ddl_column)(text, body_format.name)
        self._column: Column = column
        self.arrow_type: pa.DataType = column.arrow
        self._decoder = msgspec.json.Decoder(column.python)
        self._values_per_byte = column.item_weight_max / _ITEM_BYTES_MIN
        self._is_framed = bool(body_format.registry)

    def read(self, topic: str, body: bytes) -> tuple[Any, int]:
        """Return the value. Raises BadBodyError."""
        column = self._column
        try:
            payload = unframed(body).payload if self._is_framed else body
            value = self._decoder.decode(payload.decode())
        except (msgspec.MsgspecError, UnicodeDecodeError, CodecError) as error:
            raise BadBodyError(str(error)) from None
        except RecursionError:
            raise BadBodyError("its values are too deep in each other") from None
        most = column.weight + int(len(payload) * self._values_per_byte)
        limit = values_max(len(payload), column.weight)
        if most > limit and column.count is not None:
            most = column.weight + column.count(value)
            if most > limit:
                raise BadBodyError(f"it has more than {limit} values, the limit of its size")
        return value if column.convert is None else column.convert(value), most

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values as a column."""
        return pa.array(values, self.arrow_type)
