"""Parameters: the fields of a query or a form, each with a type and bounds. A wrong one is an error with its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pymq.printable import printable

TEXT_LENGTH_MAX: Final = 4096
_SHOWN_CHARACTERS: Final = 60
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class BadRequest(Exception):
    """A request that names something wrong. ``name``: of the parameter; ``status``: of the answer."""

    status = 400

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class Parameters:
    """Fields by name. Each is read with its type: a field of another type, or given twice, raises BadRequest."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in fields:
            self._fields.setdefault(name, []).append(value)

    def has(self, name: str) -> bool:
        """Return whether a field is there, be it empty."""
        return name in self._fields

    def text(self, name: str, default: str | None = None, *, length_max: int = TEXT_LENGTH_MAX) -> str:
        """Return a text without NUL. A field without a default must be there."""
        values = self._fields.get(name, [])
        if not values:
            if default is None:
                raise BadRequest(name, "it is missing")
            return default
        if len(values) > 1:
            raise BadRequest(name, f"given {len(values)} times: give it once")
        value = values[0]
        if len(value) > length_max:
            raise BadRequest(name, f"{len(value):,} characters: at most {length_max:,}")
        if "\0" in value:
            raise BadRequest(name, "it has a NUL")
        return value

    def number(self, name: str, default: int | None = None, *, minimum: int, maximum: int) -> int:
        """Return a whole number between the bounds, both included."""
        value = self.text(name, None if default is None else str(default))
        if not _WHOLE_NUMBER.fullmatch(value):
            raise BadRequest(name, f"{_shown(value)} is not a whole number")
        number = int(value)
        if not minimum <= number <= maximum:
            raise BadRequest(name, f"{number} is not between {minimum} and {maximum}")
        return number

    def choice(self, name: str, default: str | None, choices: Collection[str]) -> str:
        """Return one of the ``choices``."""
        value = self.text(name, default)
        if value not in choices:
            raise BadRequest(name, f"{_shown(value)} is not one of {', '.join(choices)}")
        return value

    def flag(self, name: str) -> bool:
        """Return whether a box is checked: ``on`` or ``1``; a form leaves out a box that isn't."""
        return self.choice(name, "", ("", "0", "1", "on")) in ("1", "on")

    def with_changes(self, changes: Mapping[str, object]) -> list[tuple[str, str]]:
        """Return the fields for an address, with other values for those in ``changes``."""
        kept = [(name, value) for name, values in self._fields.items() if name not in changes for value in values]
        return kept + [(name, str(value)) for name, value in changes.items()]

    def without_list(self, name: str) -> list[tuple[str, str]]:
        """Return the fields that a search in one list of the page keeps: all but its own. ``name``: of the list."""
        own = [f"{name}-{field}" if name else field for field in ("q", "sort", "order", "page")]
        return [pair for pair in self.with_changes({}) if pair[0] not in own]

    def all(self, name: str, *, count_max: int) -> list[str]:
        """Return the values of a field that may be given several times."""
        values = self._fields.get(name, [])
        if len(values) > count_max:
            raise BadRequest(name, f"given {len(values):,} times: at most {count_max:,}")
        return [Parameters([(name, value)]).text(name) for value in values]


def _shown(value: str) -> str:
    return repr(printable(value[:_SHOWN_CHARACTERS]))
