"""Bodies as columns of text or of JSON: the forms that an export can write instead of bytes.

A form is a text: empty for bytes, ``utf8``, or ``json`` with a schema, ``json:amount double, country string``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa

from pymq.client.codecs import CodecError
from pymq.client.registered_bodies import RegisteredBodies, as_json
from pymq.client.schema_registry import MissingSchemaError, SchemaRegistry
from pymq.errors import UsageError

UTF8 = "utf8"
JSON = "json"
_JSON_PREFIX = f"{JSON}:"
FIELDS_MAX = 500
_NULL = msgspec.Raw(b"null")
_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _FieldType(NamedTuple):
    arrow: pa.DataType
    python: Any


# ``json`` is the text of any value, such as an object or a list.
FIELD_TYPES = {
    "string": _FieldType(pa.string(), str),
    "boolean": _FieldType(pa.bool_(), bool),
    "int": _FieldType(pa.int32(), _INT32),
    "bigint": _FieldType(pa.int64(), _INT64),
    "double": _FieldType(pa.float64(), float),
    "json": _FieldType(pa.string(), msgspec.Raw),
}


def parse_schema(text: str) -> dict[str, str]:
    """Parse ``amount double, country string``: types by name, in order. Raises UsageError."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\S+)\s+([a-z]+)\s*", part)
        if match is None or match[2] not in FIELD_TYPES:
            raise UsageError(
                f"{part.strip()!r} of the body's schema is no field: write a name and one of {', '.join(FIELD_TYPES)}"
            )
        if match[1] in fields:
            raise UsageError(f"the body's schema names {match[1]!r} twice: name each field once")
        fields[match[1]] = match[2]
    return fields


def json_form(fields: dict[str, str]) -> str:
    """Return the form of bodies with these fields."""
    return _JSON_PREFIX + ", ".join(f"{name} {kind}" for name, kind in fields.items())


def arrow_type(form: str) -> pa.DataType:
    """Return the type of the column ``body`` in a form."""
    if form.startswith(_JSON_PREFIX):
        fields = parse_schema(form.removeprefix(_JSON_PREFIX))
        return pa.struct([(name, FIELD_TYPES[kind].arrow) for name, kind in fields.items()])
    return pa.string() if form == UTF8 else pa.binary()


class JsonBodies:
    """Decodes bodies to structs of a form's fields. A field that a body lacks is null; others are left out."""

    def __init__(self, form: str) -> None:
        fields = parse_schema(form.removeprefix(_JSON_PREFIX))
        self._type = arrow_type(form)
        # A struct of msgspec needs identifiers, and a body's names may be any text.
        self._names = [f"field{number}" for number in range(len(fields))]
        self._has_raw = JSON in fields.values()
        struct = msgspec.defstruct(
            "Body",
            [
                (name, msgspec.Raw, _NULL) if kind == JSON else (name, FIELD_TYPES[kind].python | None, None)
                for name, kind in zip(self._names, fields.values(), strict=True)
            ],
            rename=dict(zip(self._names, fields, strict=True)),
        )
        self._decoder = msgspec.json.Decoder(struct)

    def decode(self, bodies: Sequence[bytes]) -> tuple[pa.StructArray, dict[int, str]]:
        """Return the structs, null for bodies that don't fit, and what is wrong with those, by row."""
        found: list[Any] = []
        wrong: dict[int, str] = {}
        for row, body in enumerate(bodies):
            try:
                found.append(self._decoder.decode(body.decode() if self._has_raw else body))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                found.append(None)
                wrong[row] = str(error)
        columns = [
            pa.array([_plain(getattr(struct, name, None)) for struct in found], field.type)
            for name, field in zip(self._names, self._type, strict=True)
        ]
        mask = pa.array([struct is None for struct in found], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(self._type), mask=mask), wrong


class BodyDecoder:
    """Gives bodies a form. One that doesn't fit raises UsageError with ``fails``, else it has U+FFFD or is null.

    ``registry``: the URL of the registry whose schemas bodies have; empty for none.
    """

    def __init__(self, form: str, *, fails: bool, registry: str = "") -> None:
        self._form = form
        self._fails = fails
        self._registered = RegisteredBodies(SchemaRegistry(registry)) if registry else None
        self._json = JsonBodies(form) if form.startswith(_JSON_PREFIX) else None

    def formed(self, bodies: pa.BinaryArray, row_ids: Callable[[], pa.Array]) -> pa.Array:
        """Return bodies in the form. ``row_ids`` names the rows. Raises UsageError for one that doesn't fit."""
        if self._json is None:
            return self.text(bodies, row_ids) if self._form == UTF8 else bodies
        structs, wrong = self._json.decode(bodies.to_pylist())
        if wrong and self._fails:
            row = min(wrong)
            raise UsageError(
                f"the body of {row_ids()[row].as_py()} doesn't fit the schema ({wrong[row]}): give another schema, or "
                "accept null for such bodies with body errors replace"
            )
        return structs

    def by_registry(self, topics: pa.Array, bodies: pa.BinaryArray, row_ids: Callable[[], pa.Array]) -> pa.StringArray:
        """Return bodies as JSON text, by the registry's schemas.

        Raises RegistryError when the registry doesn't answer: what it would say is not known.
        """
        if self._registered is None:
            raise UsageError("the column bodyJson needs the option registry: the URL of a schema registry")
        found: list[str | None] = []
        for row, (topic, body) in enumerate(zip(topics.to_pylist(), bodies.to_pylist(), strict=True)):
            try:
                found.append(as_json(self._registered.decode(topic, body)).decode())
            except (CodecError, MissingSchemaError) as error:
                if self._fails:
                    raise UsageError(
                        f"the body of {row_ids()[row].as_py()} can't be read ({error}): accept null for such bodies "
                        "with "
                        "body errors replace"
                    ) from error
                found.append(None)
        return pa.array(found, pa.string())

    def text(self, bodies: pa.BinaryArray, row_ids: Callable[[], pa.Array]) -> pa.StringArray:
        """Return bodies as text. Bytes that are not UTF-8 become U+FFFD, or raise UsageError."""
        try:
            return bodies.cast(pa.string())
        except pa.ArrowInvalid:
            raw = bodies.to_pylist()
            if self._fails:
                raise _not_text(raw, row_ids()) from None
            return pa.array([body.decode("utf-8", "replace") for body in raw], pa.string())


def _not_text(bodies: Sequence[bytes], row_ids: pa.Array) -> UsageError:
    """Return the error that names the first message whose body is not UTF-8."""
    for row, body in enumerate(bodies):
        try:
            body.decode()
        except UnicodeDecodeError as error:
            return UsageError(
                f"the body of {row_ids[row].as_py()} is not UTF-8 ({error.reason} at byte {error.start}): read the "
                "column body, which text formats write as base64, or accept U+FFFD with body errors replace"
            )
    raise AssertionError("all bodies are UTF-8")


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        text = bytes(value).decode()
        return None if text == "null" else text
    return value


def inferred(bodies: Iterable[bytes]) -> dict[str, str]:
    """Return the fields of the JSON objects among ``bodies``, in order of their first appearance.

    Raises UsageError if there is no object, or none with a field that can be a column, or there are too many fields.
    """
    fields: dict[str, str] = {}
    for body in bodies:
        try:
            found = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        for name, value in found.items() if isinstance(found, dict) else ():
            if re.fullmatch(r"[^\s,]+", name):
                kind = _kind_of(value)
                fields[name] = _common(fields.get(name, ""), kind)
    if not fields:
        raise UsageError("none of the first bodies is a JSON object with fields: check the topic, or give a schema")
    if len(fields) > FIELDS_MAX:
        raise UsageError(f"the first bodies have {len(fields)} fields, the limit is {FIELDS_MAX}: give a schema")
    return {name: kind or "string" for name, kind in fields.items()}


def _kind_of(value: object) -> str:
    """Return the type of a field for a value; empty for null, which fits any."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "json"
    return "double" if isinstance(value, float) else "string" if isinstance(value, str) else "json"


def _common(one: str, other: str) -> str:
    """Return the type that holds the values of both."""
    if not one or not other or one == other:
        return one or other
    return "double" if {one, other} == {"bigint", "double"} else "json"
