"""Strict JSON into a type, with one error for whatever is wrong with it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pymq.model.fastjson import JsonError

T = TypeVar("T")


def decode_json(raw: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
    """The value of this type that ``raw`` holds. Raises JsonError.

    msgspec has errors of its own for wrong syntax and types alone: text that is no UTF-8, or nests deeper than the
    stack, leaves it as errors that nobody expects of a peer's answer.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise JsonError(f"no {kind.__name__}: {error}") from error
