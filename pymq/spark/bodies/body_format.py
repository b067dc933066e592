"""BodyFormat: which schema bodies have, as the planner passes it to Spark's tasks; and the limits of such schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pymq.errors import UsageError
from pymq.printable import printable

Format = Literal["avro", "protobuf", "json"]
OnBadRecord = Literal["fail", "null", "table"]
FORMATS: tuple[Format, ...] = ("avro", "protobuf", "json")
ON_BAD_RECORD: tuple[OnBadRecord, ...] = ("fail", "null", "table")

SCHEMA_BYTES_MAX: Final = 4 * 1024 * 1024  # of a schema's file, and of all that it imports
SCHEMA_FIELDS_MAX: Final = 2000  # those of types within types included
SCHEMA_DEPTH_MAX: Final = 32  # types in each other, as columns
BODY_BYTES_MAX: Final = 16 * 1024 * 1024  # inflated
BODY_VALUES_MAX: Final = 1_000_000  # cells of columns that a body fills; each struct, list and map counts as four more
BODY_VALUES_FREE: Final = 10_000  # with these, a body may have so many values for each of its bytes:
BODY_VALUES_PER_BYTE_MAX: Final = 64
BATCH_VALUES_MAX: Final = 4_000_000  # of the bodies in a batch of Arrow, unless one body alone has more
REASON_LENGTH_MAX: Final = 300


class BadBodyError(Exception):
    """A body is not what its schema says. The text is the reason, for people."""

    def __init__(self, reason: str) -> None:
        text = printable(reason)
        super().__init__(text if len(text) <= REASON_LENGTH_MAX else text[:REASON_LENGTH_MAX] + "…")


@dataclass(slots=True, frozen=True)
class BodyFormat:
    """What bodies hold, and what becomes of one that doesn't.

    ``definition``: Avro's schema as JSON, Protobuf's descriptor set in base64, or a schema of JSON bodies: columns as
    in SQL, or JSON Schema. ``references``: Avro schemas that it needs; one that uses another comes behind it.
    """

    format: Format
    definition: str
    name: str
    """What texts for people call the schema: its file's name, or the registry's subject."""
    references: tuple[str, ...] = ()
    message: str = ""
    """The full name of Protobuf's type."""
    registry: str = ""
    """The URL of the registry whose ids bodies begin with; empty: bodies have no ids."""
    on_bad: OnBadRecord = "fail"

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> BodyFormat:
        """Inverse of ``dataclasses.asdict``."""
        return cls(**{**fields, "references": tuple(fields["references"])})


def values_max(size_bytes: int, weight: int) -> int:
    """Return the most values that a body may have, by its size and the values that each body has."""
    return min(BODY_VALUES_MAX, weight + BODY_VALUES_FREE + BODY_VALUES_PER_BYTE_MAX * size_bytes)


class FieldBudget:
    """Counts the fields of a schema while columns are made of it: types that double at each level end here."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = SCHEMA_FIELDS_MAX

    def take(self, count: int, depth: int) -> None:
        """Count fields of a type at a depth. Raises UsageError beyond a limit."""
        self._left -= count
        if self._left < 0:
            raise UsageError(
                f"the schema {self._name} has more than {SCHEMA_FIELDS_MAX} fields, those of its types included, the "
                "limit: give a schema of the fields that you need"
            )
        if depth > SCHEMA_DEPTH_MAX:
            raise UsageError(
                f"the schema {self._name} has more than {SCHEMA_DEPTH_MAX} types in each other, the limit: give a "
                "schema of the fields that you need"
            )


def no_columns(name: str) -> UsageError:
    """Return the error of a schema without a value that a column could hold."""
    return UsageError(f"the schema {name} has no field that can be a column: give one with fields that hold values")
