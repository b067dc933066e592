"""Columns of JSON bodies from JSON Schema: types of values alone, none of its other conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pymq.errors import UsageError
from pymq.spark.bodies.body_format import FieldBudget
from pymq.spark.bodies.json_columns import JSON_TEXT, SCALARS, Column, list_column, map_column, struct_column

_SCALARS = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
_FORMATS = {"date-time": "timestamp", "date": "date"}
_ALTERNATIVES = ("anyOf", "oneOf")


def json_schema_column(text: str, name: str) -> Column:
    """Return the column of bodies with a schema.

    What has several types, any, or contains itself comes as the text of its JSON. Raises UsageError for a text that is
    no schema, for one with references to other files, and for one of more fields than columns may have.
    """
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON Schema: {error}") from None
    if not isinstance(schema, dict):
        raise UsageError(f"{name} is no JSON Schema: write an object with type and properties")
    return _Columns(schema, name).column(schema, (), 0)


class _Columns:
    def __init__(self, root: Mapping[str, Any], name: str) -> None:
        self._root = root
        self._name = name
        self._budget = FieldBudget(name)

    def column(self, schema: Any, inside: tuple[str, ...], depth: int) -> Column:
        """Return the column of one schema; ``inside``: the references that led to it."""
        self._budget.take(0, depth)
        if not isinstance(schema, dict):
            return JSON_TEXT
        if "$ref" in schema:
            reference = schema["$ref"]
            if reference in inside:
                return JSON_TEXT
            self._budget.take(1, depth)
            return self.column(self._referenced(reference), (*inside, reference), depth)
        for word in _ALTERNATIVES:
            if word in schema:
                one = self._only_one(schema[word])
                return JSON_TEXT if one is None else self.column(one, inside, depth + 1)
        return self._typed(schema, inside, depth)

    def _typed(self, schema: Mapping[str, Any], inside: tuple[str, ...], depth: int) -> Column:
        properties, kind = schema.get("properties"), _kind(schema)
        if isinstance(properties, dict) and properties and kind in ("object", None):
            self._budget.take(len(properties), depth)
            fields = [(name, self.column(one, inside, depth + 1)) for name, one in properties.items()]
            return struct_column(fields)
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return map_column(self.column(schema["additionalProperties"], inside, depth + 1))
        if kind == "array" and isinstance(schema.get("items"), dict):
            return list_column(self.column(schema["items"], inside, depth + 1))
        if kind == "string":
            return SCALARS[_FORMATS.get(str(schema.get("format")), "string")]
        return SCALARS[_SCALARS[kind]] if kind in _SCALARS else JSON_TEXT

    def _only_one(self, choices: Any) -> Any:
        """Return the one choice besides null; None if there are more."""
        found = [one for one in choices if not _is_null(one)] if isinstance(choices, list) else []
        return found[0] if len(found) == 1 else None

    def _referenced(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UsageError(
                f"the schema {self._name} refers to {str(reference)[:100]!r}: write what it needs into its own $defs"
            )
        found: Any = self._root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise UsageError(f"the schema {self._name} refers to {reference[:100]!r}, which it lacks")
        return found


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _kind(schema: Mapping[str, Any]) -> str | None:
    """Return the type besides null; None if the schema names none, and an empty text if it names several."""
    kind = schema.get("type")
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        kind = others[0] if len(others) == 1 else ""
    return kind if kind is None or isinstance(kind, str) else ""
