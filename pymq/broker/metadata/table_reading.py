"""Table, the JSON object that a manager is saved in, and functions that read entries of one."""

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
        """Return the object as last saved, ``{}`` when there is none."""
        ...

    def save(self, value: dict[str, Any]) -> None:
        """Replace the object durably. After a crash it is the old or the new one."""
        ...


def read_version(loaded: dict[str, Any]) -> DataVersion:
    """Return the table's version, a new one when the file has none."""
    try:
        return msgspec.convert(loaded.get("dataVersion") or {}, DataVersion, strict=False)
    except msgspec.ValidationError:
        return DataVersion()


def read_configs(loaded: dict[str, Any], member: str, kind: type[ConfigT]) -> dict[str, ConfigT]:
    """Return the configurations by name in one member of a table. An unusable entry is left out and logged."""
    result: dict[str, ConfigT] = {}
    entries = loaded.get(member) or {}
    if not isinstance(entries, dict):
        log.warning("%s: %.100r is not a map of entries and was left out", member, entries)
        return result
    for name, value in entries.items():
        try:
            # Java writes null for a value that is not set; it means the default.
            given = {key: item for key, item in value.items() if item is not None}
            result[name] = msgspec.convert(given, kind, strict=False)
        except (msgspec.ValidationError, AttributeError) as error:
            log.warning("%s: the entry %r is not usable and was left out: %s", member, name, error)
    return result


def read_numbers(value: Any) -> dict[int, int]:
    """Return a map of integers, whose keys JSON holds as text. Entries that are no integers are left out."""
    result: dict[int, int] = {}
    if not isinstance(value or {}, dict):
        log.warning("%.100r is not a map of numbers and was left out", value)
        return result
    for key, number in (value or {}).items():
        try:
            result[int(key)] = int(number)
        except (TypeError, ValueError, OverflowError):  # the last one for an infinite number
            log.warning("the entry %r: %r is not a pair of numbers and was left out", key, number)
    return result
