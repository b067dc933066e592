"""Decodes strict JSON into a type, with one kind of error."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pymq.model.fastjson import JsonError

T = TypeVar("T")


def decode_json(raw: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
    """Return the value of type ``kind`` in ``raw``. Raises JsonError.

    msgspec's own errors cover only wrong syntax and types. Text that is not UTF-8, or that nests deeper than the stack,
    raises other errors there.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise JsonError(f"not a {kind.__name__}: {error}") from error
