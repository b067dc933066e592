"""Typed request headers: a class declares its wire fields once, and encoding and decoding follow from that.

A subclass of :class:`Header` names its fields in Python's style; ``rename="camel"`` or a dict gives the wire names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, TypeVar

import msgspec

from pymq.errors import Refusal
from pymq.wire.codes import ResponseCode

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Header(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """The base of all typed headers. Unknown wire fields are ignored; missing ones get the class's default."""


HeaderT = TypeVar("HeaderT", bound=Header)


def decode_header(cls: type[HeaderT], ext: Mapping[str, str]) -> HeaderT:
    """Decode the named fields of a command. Raises Refusal(SYSTEM_ERROR) naming the missing or ill-typed field."""
    try:
        return msgspec.convert(ext, cls, strict=False)
    except msgspec.ValidationError:
        # C++ and Node clients write empty text where Java writes nothing.
        trimmed = {name: value for name, value in ext.items() if value != ""}
    try:
        return msgspec.convert(trimmed, cls, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the request's header is not usable: {error}; correct that field",
        ) from error


def encode_header(header: Header) -> dict[str, str]:
    """Encode the named fields as text: None is left out, booleans become ``true`` and ``false``."""
    result: dict[str, str] = {}
    for name, wire_name in _wire_names(type(header)):
        value = getattr(header, name)
        if value is None:
            continue
        result[wire_name] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return result


@cache
def _wire_names(cls: type[Header]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(cls))
