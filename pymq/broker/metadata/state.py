"""What the managers need of the outside: a JSON table to persist in, and little helpers to read one back."""

from __future__ import annotations

import logging
from typing import Any, Protocol, TypeVar

import msgspec

from pymq.model.tables import DataVersion

log = logging.getLogger(__name__)

ConfigT = TypeVar("ConfigT")


class Table(Protocol):
    """A JSON object kept in one file; :class:`pymq.store.disk.json_table.JsonTable` is the real one."""

    def load(self) -> dict[str, Any]:
        """The object as last saved, ``{}`` when there is none."""
        ...

    def save(self, value: dict[str, Any]) -> None:
        """Replaces the object durably: old or new after a crash, never half."""
        ...


def read_version(loaded: dict[str, Any]) -> DataVersion:
    """The table's version, a fresh one when the file has none."""
    try:
        return msgspec.convert(loaded.get("dataVersion") or {}, DataVersion, strict=False)
    except msgspec.ValidationError:
        return DataVersion()


def read_configs(loaded: dict[str, Any], member: str, kind: type[ConfigT]) -> dict[str, ConfigT]:
    """Name -> configuration of one member of a table; an entry that makes no sense is left out and logged."""
    result: dict[str, ConfigT] = {}
    for name, value in (loaded.get(member) or {}).items():
        try:
            # Java writes null where nobody set a value; the default stands for it.
            given = {key: item for key, item in value.items() if item is not None}
            result[name] = msgspec.convert(given, kind, strict=False)
        except (msgspec.ValidationError, AttributeError) as error:
            log.warning("%s: the entry %r is not usable and was left out: %s", member, name, error)
    return result


def read_numbers(value: Any) -> dict[int, int]:
    """A map of whole numbers, whose keys JSON holds as text; entries that are no numbers are left out."""
    result: dict[int, int] = {}
    if not isinstance(value or {}, dict):
        log.warning("%.100r is not a map of numbers and was left out", value)
        return result
    for key, number in (value or {}).items():
        try:
            result[int(key)] = int(number)
        except (TypeError, ValueError):
            log.warning("the entry %r: %r is not a pair of numbers and was left out", key, number)
    return result
