"""The columns ``body`` and ``badRecord`` of a batch, where bodies have a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from pymq.errors import UsageError
from pymq.spark.bodies.body_format import BodyFormat
from pymq.spark.bodies.typed_bodies import Part, TypedBodies
from pymq.spark.records.schema import BAD_RECORD, BODY, BY_NAME

_PLACE = ("topic", "brokerName", "queueId", "queueOffset")


class Rows(Protocol):
    """The other columns of a batch, each built when it is asked for."""

    def column(self, name: str) -> pa.Array:
        """Return a column by its name."""
        ...

    def topic(self) -> pa.Array:
        """Return the topics."""
        ...

    def body(self) -> pa.Array:
        """Return the bodies as bytes."""
        ...

    def row_id(self) -> pa.Array:
        """Return ``topic/broker/queue@offset``."""
        ...


class TypedColumns:
    """Reads bodies by their schema; makes batches of it, so that no batch has more values than fit into memory."""

    def __init__(self, body_schema: BodyFormat) -> None:
        """Raise UsageError for a schema that columns can't have, or without a library."""
        self._schema = body_schema
        self._bodies = TypedBodies(body_schema)
        self.arrow_type: pa.DataType = self._bodies.arrow_type

    def batches(self, schema: pa.Schema, rows: Rows, unread: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order. ``unread``: those whose bodies are still compressed.

        Raises UsageError for a bad body, unless bad ones are null or go to a table; RegistryError.
        """
        whole = {name: rows.column(name) for name in schema.names if name not in (BODY, BAD_RECORD)}
        bodies = rows.body().to_pylist()
        for part in self._bodies.parts(rows.topic().to_pylist(), bodies, unread):
            if part.wrong and self._schema.on_bad == "fail":
                raise self._refused(part, rows)
            size = len(part.column)
            columns = {name: column.slice(part.first, size) for name, column in whole.items()}
            columns[BODY] = part.column
            if BAD_RECORD in schema.names:
                columns[BAD_RECORD] = self._bad_records(part, rows, bodies)
            yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _bad_records(self, part: Part, rows: Rows, bodies: Sequence[bytes]) -> pa.Array:
        kind = BY_NAME[BAD_RECORD].arrow
        if not part.wrong:
            return pa.nulls(len(part.column), kind)
        found: list[dict[str, object] | None] = [None] * len(part.column)
        places = {name: rows.column(name) for name in _PLACE}
        for row, reason in part.wrong.items():
            place = {name: column[row].as_py() for name, column in places.items()}
            found[row - part.first] = {**place, "body": bodies[row], "reason": reason}
        return pa.array(found, kind)

    def _refused(self, part: Part, rows: Rows) -> UsageError:
        row = min(part.wrong)
        return UsageError(
            f"the body of {rows.row_id()[row].as_py()} is no {self._schema.format} of {self._schema.name}: "
            f"{part.wrong[row]}; give another schema, or read on with onBadRecord null or table"
        )
