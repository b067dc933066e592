"""Reads a message's fields by the names that all filters share: ``body``, ``key``, ``tag``, or any property."""

from __future__ import annotations

from collections.abc import Callable

from pymq.filter.messages import FilterMessage
from pymq.filter.raw_properties import SEPARATOR, getter
from pymq.model.properties import KEYS, TAGS

BODY = "body"
FIELD_PATTERN = r"[A-Za-z_$][A-Za-z0-9_$.-]*"
_ALIASES = {"key": KEYS, "keys": KEYS, "tag": TAGS, "tags": TAGS}


def field(name: str) -> Callable[[FilterMessage], bytes | None]:
    """Return a function from a message to the field's bytes, or to None for a missing or empty property."""
    if name == BODY:
        return lambda message: message.body
    get = getter(_ALIASES.get(name, name))
    return lambda message: get(SEPARATOR + message.raw_properties)
