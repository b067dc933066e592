"""AvroReader: bodies in Avro as columns, read by fastavro; by the ids of a registry also those of other versions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from pymq.client.avro_bounds import AvroBounds, AvroBoundsError
from pymq.client.codecs import CodecError
from pymq.client.schema_registry import AVRO, MissingSchemaError, SchemaRegistry, unframed
from pymq.errors import UsageError
from pymq.packages import pip_install
from pymq.spark.bodies.avro_columns import AvroColumns
from pymq.spark.bodies.body_format import BODY_VALUES_MAX, BadBodyError, BodyFormat, FieldBudget, no_columns, values_max

WRITERS_MAX = 1000  # schemas of other versions that are kept


class _Schema(NamedTuple):
    """A schema for fastavro, without logical types: their values come as stored."""

    stored: Any
    bounds: AvroBounds


class AvroReader:
    """Reads bodies that hold one value in Avro's binary encoding."""

    def __init__(self, body_format: BodyFormat) -> None:
        """Raise UsageError for a text that is no schema, for one that columns can't have, or without the library."""
        try:
            import fastavro
        except ImportError as error:
            raise UsageError(f"Avro needs the package fastavro: {pip_install('avro')}") from error
        self._fastavro = fastavro
        self._name = body_format.name
        parsed, named = self._parsed(body_format.definition, body_format.references, logical=True)
        columns = AvroColumns(named, FieldBudget(self._name), tagged=False)
        column = columns.column(parsed)
        self._is_tagged = columns.needs_tags
        if self._is_tagged:
            column = AvroColumns(named, FieldBudget(self._name), tagged=True).column(parsed)
        if column is None:
            raise no_columns(self._name)
        self.arrow_type, self._convert = column
        self._schema = self._stored(body_format.definition, body_format.references)
        self._registry = SchemaRegistry(body_format.registry) if body_format.registry else None
        self._writers: dict[int, _Schema] = {}

    def read(self, topic: str, body: bytes) -> tuple[Any, int]:
        """Return the value. Raises BadBodyError, RegistryError."""
        writer, payload = self._schema, body
        if self._registry is not None:
            writer, payload = self._writer(body)
        try:
            most = values_max(len(payload), writer.bounds.weight)
            count = writer.bounds.values(payload, most)
        except AvroBoundsError as error:
            raise BadBodyError(str(error)) from None
        value = self._value(writer, payload)
        if writer is not self._schema:
            count *= max(1, -(-self._schema.bounds.weight // max(1, writer.bounds.weight)))
            if count > BODY_VALUES_MAX:
                raise BadBodyError(f"it has more than {BODY_VALUES_MAX} values, the limit")
        return value if self._convert is None or value is None else self._convert(value), count

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values as a column."""
        return pa.array(values, self.arrow_type)

    def _value(self, writer: _Schema, payload: bytes) -> Any:
        source = io.BytesIO(payload)
        reader = None if writer is self._schema else self._schema.stored
        try:
            value = self._fastavro.schemaless_reader(
                source, writer.stored, reader, return_named_type=self._is_tagged, return_record_name=False
            )
        except EOFError:
            raise BadBodyError("it ends early") from None
        except IndexError:
            raise BadBodyError("the number of a union's type or of an enum's symbol is out of range") from None
        except Exception as error:  # the library has errors of its own for each kind of mistake
            raise BadBodyError(str(error) or type(error).__name__) from None
        if source.tell() != len(payload):
            raise BadBodyError(f"{len(payload) - source.tell()} bytes stand behind the value")
        return value

    def _writer(self, body: bytes) -> tuple[_Schema, bytes]:
        """Return the schema of a body's id, and the payload; a body without an id has the reader's schema."""
        assert self._registry is not None
        try:
            framed = unframed(body)
            if framed.schema_id is None:
                return self._schema, body
            known = self._writers.get(framed.schema_id)
            if known is None:
                found = self._registry.by_id(framed.schema_id)
                if found.kind != AVRO:
                    raise BadBodyError(f"its schema {framed.schema_id} is of the type {found.kind}")
                if len(self._writers) >= WRITERS_MAX:
                    self._writers.clear()
                references = [each.text for each in found.references.values()]
                known = self._writers[framed.schema_id] = self._stored(found.text, references)
        except (CodecError, MissingSchemaError, UsageError) as error:
            raise BadBodyError(str(error)) from None
        return known, framed.payload

    def _stored(self, text: str, references: Sequence[str]) -> _Schema:
        parsed, named = self._parsed(text, references, logical=False)
        bounds = AvroBounds(parsed, named)
        if not bounds.is_bounded:
            raise UsageError(
                f"the schema {self._name} has an array of items without bytes, so a short body may have any number: "
                "give its items a field with a value"
            )
        if references:
            AvroColumns(named, FieldBudget(self._name), tagged=False).column(parsed)  # expanding has a limit then
            parsed, _ = self._parsed(text, references, logical=False, expand=True)
        return _Schema(parsed, bounds)

    def _parsed(
        self, text: str, references: Sequence[str], *, logical: bool, expand: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        named: dict[str, Any] = {}
        try:
            for needed in references:
                self._fastavro.parse_schema(_decoded(needed, logical=logical), named_schemas=named)
            own = _decoded(text, logical=logical)
            return self._fastavro.parse_schema(own, named_schemas=named, expand=expand), named
        except Exception as error:  # as above
            raise UsageError(f"{self._name} is no Avro schema: {error or type(error).__name__}") from None


def _decoded(text: str, *, logical: bool) -> Any:
    value = msgspec.json.decode(text)
    return value if logical else _without_logical(value)


def _without_logical(schema: Any) -> Any:
    """Return a schema in which types are only what they are stored as."""
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name != "logicalType"}
    for name in ("type", "items", "values", "fields"):
        if name in kept:
            kept[name] = _without_logical(kept[name])
    return kept
