"""TypedBodies: a batch's bodies as columns of types, in parts of bounded size. A bad one takes no others with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from pymq.spark.bodies.body_format import BATCH_VALUES_MAX, BODY_BYTES_MAX, BadBodyError, BodyFormat
from pymq.spark.bodies.readers import reader_of


class Part(NamedTuple):
    """Rows of a batch from ``first`` on. ``wrong``: why a body is null, by its row in the whole batch."""

    first: int
    column: pa.Array
    wrong: dict[int, str]


class TypedBodies:
    """Decodes bodies of one schema."""

    def __init__(self, body_format: BodyFormat) -> None:
        """Raise UsageError for a schema that columns can't have, or without a library."""
        self._reader = reader_of(body_format)
        self.arrow_type: pa.DataType = self._reader.arrow_type

    def parts(self, topics: Sequence[str], bodies: Sequence[bytes], unread: Sequence[int] = ()) -> Iterator[Part]:
        """Yield the bodies in order. ``unread``: rows whose bodies could not be inflated.

        Raises RegistryError when a registry does not answer: what it would say is not known.
        """
        values: list[Any] = []
        wrong = dict.fromkeys(unread, "it can't be decompressed")
        first, left = 0, BATCH_VALUES_MAX
        for row, (topic, body) in enumerate(zip(topics, bodies, strict=True)):
            value, count = None, 1
            if row not in wrong:
                try:
                    value, count = self._read(topic, body)
                except BadBodyError as error:
                    wrong[row] = str(error)
            left -= count
            if left < 0 and values:
                yield self._part(first, values, wrong)
                first, left, values = row, BATCH_VALUES_MAX - count, []
            values.append(value)
        yield self._part(first, values, wrong)

    def _read(self, topic: str, body: bytes) -> tuple[Any, int]:
        if len(body) > BODY_BYTES_MAX:
            raise BadBodyError(f"it has {len(body)} bytes, the limit is {BODY_BYTES_MAX}")
        return self._reader.read(topic, body)

    def _part(self, first: int, values: list[Any], wrong: dict[int, str]) -> Part:
        column = self._array(first, values, wrong)
        end = first + len(values)
        return Part(first, column, {row: why for row, why in wrong.items() if first <= row < end})

    def _array(self, first: int, values: list[Any], wrong: dict[int, str]) -> pa.Array:
        """Return the column of values. One that has no place in it is null, and is added to ``wrong``."""
        try:
            return self._reader.array(values)
        except Exception as error:  # Arrow's, Python's and the library's own
            if len(values) == 1:
                wrong[first] = str(BadBodyError(str(error) or type(error).__name__))
                return self._reader.array([None])
        half = len(values) // 2
        parts = [self._array(first, values[:half], wrong), self._array(first + half, values[half:], wrong)]
        return pa.concat_arrays(parts)
