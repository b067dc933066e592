"""AvroBounds: how deep and how large the value in an Avro body is, before a library makes objects of it.

A few bytes of Avro may hold any number of empty items, or records in each other until the C stack ends. A schema says
whether that is possible, and if it is, a walk over the body counts. fastavro has parsed the schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

AVRO_DEPTH_MAX: Final = 100  # records in each other in one body
RECORD_WEIGHT: Final = 4  # what an object of its own costs, in plain values
_VARINT_BYTES_MAX = 10
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_RECORDS = ("record", "error", "request")
_COLLECTIONS = ("array", "map")

_Skip = Callable[[bytes, int, int], int]


class AvroBoundsError(Exception):
    """A body ends early, has records in each other too deeply, or has too many values."""


def resolved(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return a list for a union, a dict for what is defined with fields, items or a size, else a primitive's name."""
    while True:
        if isinstance(schema, str) and schema in named:
            schema = named[schema]
        elif isinstance(schema, dict) and (isinstance(schema["type"], dict | list) or schema["type"] in named):
            schema = schema["type"]
        else:
            return schema


def kind_of(schema: Any) -> str:
    """Return the type's word for what :func:`resolved` has returned, which is no union."""
    return str(schema["type"] if isinstance(schema, dict) else schema)


class AvroBounds:
    """What bodies of one schema may become. ``named``: its named types, by their full names."""

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._named = named
        self._least: dict[str, int] = {}
        self._weights: dict[str, int] = {}
        self._skips: dict[str, _Skip] = {}
        self.is_recursive = False
        """Whether a type contains itself, so that a body may nest deeply."""
        self.is_bounded = True
        """Whether each item of an array takes at least a byte."""
        self.values_per_byte = 0.0
        """The most values that a byte of a body may add to the ones that each body has."""
        self._look(schema, (), set())
        self.weight = self.weight_of(schema)
        """The values that each body has."""
        self._skip = self._skipper(schema)
        self._left = 0

    def values(self, body: bytes, values_max: int) -> int:
        """Return a number that the values in ``body`` don't exceed; count them only where that may matter.

        Raises AvroBoundsError for more than ``values_max``, and for records in each other beyond AVRO_DEPTH_MAX.
        """
        most = self.weight + int(len(body) * self.values_per_byte)
        if most <= values_max and not (self.is_recursive and len(body) > AVRO_DEPTH_MAX):
            return most
        return self.counted(body, values_max)

    def check_depth(self, body: bytes) -> None:
        """Raise AvroBoundsError for a body with records in each other beyond AVRO_DEPTH_MAX."""
        if self.is_recursive and len(body) > AVRO_DEPTH_MAX:
            self.counted(body, 1 << 62)

    def counted(self, body: bytes, values_max: int) -> int:
        """Return the number of values in ``body``. Raises AvroBoundsError, as :meth:`values`."""
        self._left = values_max - self.weight
        try:
            end = self._skip(body, 0, 0) if self._left >= 0 else 0
        except IndexError:
            end = len(body) + 1
        if self._left < 0:
            raise AvroBoundsError(f"it has more than {values_max} values, the limit of its size")
        if end > len(body):
            raise AvroBoundsError("it ends early")
        return values_max - self._left

    def weight_of(self, schema: Any, inside: tuple[str, ...] = ()) -> int:
        """Return how many values a value is, without the items of its arrays and maps."""
        schema = resolved(schema, self._named)
        if isinstance(schema, list):
            return sum(self.weight_of(branch, inside) for branch in schema)
        kind = kind_of(schema)
        if kind not in _RECORDS:
            return RECORD_WEIGHT if kind in _COLLECTIONS else 1
        name = schema["name"]
        if name in inside:
            return 1
        if name not in self._weights:
            within = (*inside, name)
            inner = sum(self.weight_of(field["type"], within) for field in schema["fields"])
            self._weights[name] = RECORD_WEIGHT + inner
        return self._weights[name]

    def _look(self, schema: Any, inside: tuple[str, ...], seen: set[str]) -> None:
        """Find types that contain themselves, and what items of arrays and maps may cost."""
        schema = resolved(schema, self._named)
        if isinstance(schema, list):
            for branch in schema:
                self._look(branch, inside, seen)
            return
        kind = kind_of(schema)
        if kind in _COLLECTIONS:
            item = schema["items" if kind == "array" else "values"]
            least = self._least_bytes(item) + (kind == "map")
            self.is_bounded = self.is_bounded and least > 0
            self.values_per_byte = max(self.values_per_byte, (self.weight_of(item) + 1) / max(1, least))
            self._look(item, inside, seen)
        elif kind in _RECORDS:
            name = schema["name"]
            self.is_recursive = self.is_recursive or name in inside
            if name not in seen:
                seen.add(name)
                for field in schema["fields"]:
                    self._look(field["type"], (*inside, name), seen)

    def _least_bytes(self, schema: Any, inside: tuple[str, ...] = ()) -> int:
        """Return a number of bytes that each value takes; 0 when a value may take none."""
        schema = resolved(schema, self._named)
        if isinstance(schema, list):
            return 1  # a union begins with the number of its branch
        kind = kind_of(schema)
        if kind == "fixed":
            return int(schema["size"])
        if kind not in _RECORDS:
            return _FIXED_BYTES.get(kind, 1)
        name = schema["name"]
        if name in inside:
            return 1  # a record in itself without a union has no value at all
        if name not in self._least:
            within = (*inside, name)
            self._least[name] = sum(self._least_bytes(field["type"], within) for field in schema["fields"])
        return self._least[name]

    def _skipper(self, schema: Any) -> _Skip:
        """Return what takes (body, place, depth) of a value, and returns the place behind it."""
        schema = resolved(schema, self._named)
        if isinstance(schema, list):
            return _union([self._skipper(branch) for branch in schema])
        kind = kind_of(schema)
        if kind in _COLLECTIONS:
            return self._collection(schema["items" if kind == "array" else "values"], has_keys=kind == "map")
        if kind in _RECORDS:
            name, skips = schema["name"], self._skips
            if name not in skips:
                skips[name] = _bytes  # until the fields are known, which may name it
                skips[name] = _record([self._skipper(field["type"]) for field in schema["fields"]])
            return _late(skips, name)
        if kind == "fixed":
            return _fixed(int(schema["size"]))
        if kind in _FIXED_BYTES:
            return _fixed(_FIXED_BYTES[kind])
        return _bytes if kind in ("bytes", "string") else _number

    def _collection(self, item: Any, *, has_keys: bool) -> _Skip:
        weight = self.weight_of(item) + 1
        skip_item = self._skipper(item)

        def skip(body: bytes, at: int, depth: int) -> int:
            while True:
                count, at = _long(body, at)
                if not count:
                    return at
                if count < 0:
                    count, (_, at) = -count, _long(body, at)
                self._left -= count * weight
                if self._left < 0:
                    return at
                for _ in range(count):
                    at = skip_item(body, _bytes(body, at, depth) if has_keys else at, depth)
                    if self._left < 0:
                        return at

        return skip


def _long(body: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place behind it. Raises IndexError at the end of the body, AvroBoundsError."""
    byte = body[at]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    for place in range(at + 1, at + _VARINT_BYTES_MAX):
        byte = body[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), place + 1
        shift += 7
    raise AvroBoundsError(f"a number has more than {_VARINT_BYTES_MAX} bytes")


def _number(body: bytes, at: int, _depth: int) -> int:
    while body[at] >= 0x80:
        at += 1
    return at + 1


def _bytes(body: bytes, at: int, _depth: int) -> int:
    size, at = _long(body, at)
    if size < 0 or size > len(body) - at:
        raise AvroBoundsError(f"a text or bytes of the size {size} are in it")
    return at + size


def _late(skips: Mapping[str, _Skip], name: str) -> _Skip:
    def skip(body: bytes, at: int, depth: int) -> int:
        return skips[name](body, at, depth)

    return skip


def _fixed(size: int) -> _Skip:
    return lambda body, at, _: at + size


def _union(branches: list[_Skip]) -> _Skip:
    def skip(body: bytes, at: int, depth: int) -> int:
        index, at = _long(body, at)
        if not 0 <= index < len(branches):
            raise AvroBoundsError(f"a union of {len(branches)} types has the number {index} in it")
        return branches[index](body, at, depth)

    return skip


def _record(fields: list[_Skip]) -> _Skip:
    def skip(body: bytes, at: int, depth: int) -> int:
        if depth >= AVRO_DEPTH_MAX:
            raise AvroBoundsError(f"it has more than {AVRO_DEPTH_MAX} records in each other, the limit")
        for skip_field in fields:
            at = skip_field(body, at, depth + 1)
        return at

    return skip
