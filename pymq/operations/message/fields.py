"""Fields of JSON bodies: paths such as ``user.tags[0]``, conditions on them, and bodies cut down to some of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pymq.errors import UsageError

MISSING: Any = object()
Path = tuple[str | int, ...]

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_CONDITION = re.compile(r"([^=!<>~]+?)\s*(!=|<=|>=|=|<|>|~)\s*(.*)\Z", re.DOTALL)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = {"true": True, "false": False, "null": None}


def parse_path(text: str) -> Path:
    """Parse ``user.tags[0]``. Raises UsageError."""
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise UsageError(f"{text!r} is no path at character {at + 1}: write names and numbers as user.tags[0]")
        steps.append(match.group(1) if match.group(2) is None else int(match.group(2)))
        at = match.end()
        if at < len(text) and text[at] == ".":
            at += 1
    if not steps:
        raise UsageError("an empty path names no field: write for example user.name")
    return tuple(steps)


def look_up(value: Any, path: Path) -> Any:
    """Return the value at the path, MISSING if there is none."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value


def body_value(body: bytes) -> Any:
    """Return the value of a JSON body, MISSING if it is no JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return MISSING


class Condition:
    """One ``--where``: ``price >= 5``, ``user.name = Bob``, ``note ~ REGEX``, or ``user`` (the field is there).

    Numbers are compared as numbers, texts as texts, and true, false and null as themselves. A missing field fulfils
    ``!=`` alone.
    """

    def __init__(self, text: str) -> None:
        """Raise UsageError."""
        match = _CONDITION.match(text.strip())
        self._path = parse_path(match.group(1) if match else text.strip())
        self._operator = match.group(2) if match else ""
        self._text = match.group(3) if match else ""
        self._pattern: re.Pattern[str] | None = None
        self._number = _number(self._text)
        if self._operator == "~":
            try:
                self._pattern = re.compile(self._text)
            except re.error as error:
                raise UsageError(f"--where {text!r}: {self._text!r} is no regular expression: {error}") from error

    @property
    def is_pattern(self) -> bool:
        """Whether it has a regular expression, whose time has no bound."""
        return self._pattern is not None

    def holds(self, body: bytes) -> bool:
        """Return whether a body fulfils the condition; one that is no JSON does not."""
        value = body_value(body)
        if value is MISSING:
            return False
        found = look_up(value, self._path)
        if not self._operator:
            return found is not MISSING
        if found is MISSING:
            return self._operator == "!="
        if self._pattern is not None:
            return self._pattern.search(field_text(found)) is not None
        if self._operator in ("=", "!="):
            return self._equals(found) == (self._operator == "=")
        compare = _ORDER[self._operator]
        if isinstance(found, int | float) and not isinstance(found, bool):
            return self._number is not None and compare(found, self._number)
        return isinstance(found, str) and compare(found, self._text)

    def _equals(self, found: Any) -> bool:
        if found is None or isinstance(found, bool):
            return self._text in _WORDS and _WORDS[self._text] is found
        if isinstance(found, int | float):
            return self._number is not None and found == self._number
        return field_text(found) == self._text


class PropertyCondition:
    """A condition on a property: ``color = red``, or ``color`` (the property is there)."""

    def __init__(self, text: str) -> None:
        """Raise UsageError for a text without a name."""
        name, sign, value = text.partition("=")
        self._name = name.strip()
        self._value = value.strip() if sign else None
        if not self._name:
            raise UsageError(f"{text!r} names no property: write NAME or NAME=VALUE")

    @classmethod
    def equals(cls, name: str, value: str) -> PropertyCondition:
        """Return the condition that a property has exactly this value."""
        made = cls(name)
        made._value = value
        return made

    def holds(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with these properties fulfils the condition."""
        found = properties.get(self._name)
        return found is not None and self._value in (None, found)


def field_text(value: Any) -> str:
    """Return a field as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class Projection:
    """Cuts JSON bodies down to some fields: an object with the paths as names. Missing fields are left out."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raise UsageError."""
        self._paths = [(path, parse_path(path)) for path in paths]

    def apply(self, body: bytes) -> bytes:
        """Return the smaller body; one that is no JSON object or array stays as it is."""
        value = body_value(body)
        if not isinstance(value, dict | list):
            return body
        found = ((name, look_up(value, path)) for name, path in self._paths)
        return msgspec.json.encode({name: one for name, one in found if one is not MISSING})


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
