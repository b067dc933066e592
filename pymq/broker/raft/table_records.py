"""Records of changed tables: what a group's leader writes to the log for each change of its metadata.

A table is a JSON file in ``config/``. Its members are objects with an entry for each topic, group or the like
(``entries``), or values of their own (``values``). A change names only what became different, each with the value that
it has afterwards. So it does not matter how often a change is made, if it is followed by all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec

from pymq.broker.metadata.offset_table import group_topics
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json

VERSION = 1
PART_BYTES_MAX = 1 << 20  # where the next part of a change begins; an entry alone may be longer
ENTRY_BYTES_MAX = 3 << 20  # an entry with its name, as JSON
PART_COUNT_MAX = 256
BODY_BYTES_MAX = 4 << 20
_ENTRY_FRAME_BYTES = 64  # around each entry: its member, quotes and separators


class TableKind(NamedTuple):
    """Which members of a table's file its changes have. ``derived`` makes members that follow from the others."""

    entries: tuple[str, ...]
    values: tuple[str, ...] = ("dataVersion",)
    derived: Callable[[dict[str, Any]], dict[str, Any]] = lambda table: {}


# Of which topics a leader has deleted the records below which physical offsets.
DELETIONS_TABLE, DELETIONS = "topicDeletions.json", "deletedTopics"

# By the name of the file in config/. What is missing here is in the log in another way, or is a node's own.
TABLE_KINDS = {
    "topics.json": TableKind(("topicConfigTable",)),
    "subscriptionGroup.json": TableKind(("subscriptionGroupTable", "forbiddenTable")),
    "consumerOffset.json": TableKind(("offsetTable",), derived=lambda table: group_topics(table["offsetTable"])),
    "consumerOrderInfo.json": TableKind(("table",), values=()),
    "messageRequestMode.json": TableKind(("messageRequestModeMap",), values=()),
    "madeByUsers.json": TableKind(("made",), values=()),
    "delayOffset.json": TableKind(("offsetTable",)),
    DELETIONS_TABLE: TableKind((DELETIONS,), values=()),
    "auth.json": TableKind((), values=("dataVersion", "users", "policies")),
}


class TableRecordError(ValueError):
    """A record that is no change of a table, or a change that is too large for records; the text says why."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What became different in one table. Values are JSON text, by member and, for entries, by name."""

    table: str
    entries: dict[str, dict[str, bytes]] = field(default_factory=dict)
    removed: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, bytes] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True when nothing became different."""
        return not (self.entries or self.removed or self.values)


class TablePart(NamedTuple):
    """A record: one part of a change. Its parts follow each other, numbered from 0."""

    number: int
    is_last: bool
    change: TableChange


_Name = Annotated[str, msgspec.Meta(min_length=1)]


class _Body(msgspec.Struct, rename="camel", frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    table: _Name
    part: Annotated[int, msgspec.Meta(ge=0, lt=PART_COUNT_MAX)]
    is_last: bool
    entries: dict[_Name, dict[_Name, msgspec.Raw]] = {}
    removed: dict[_Name, list[_Name]] = {}
    values: dict[_Name, msgspec.Raw] = {}


def encode_change(change: TableChange) -> list[bytes]:
    """Return the bodies of the records with a change, in their order. Raises TableRecordError for one too large."""
    parts = list(_parts(change))
    if len(parts) > PART_COUNT_MAX:
        raise TableRecordError(
            f"a change of {change.table} needs {len(parts)} records, the limit is {PART_COUNT_MAX}: make it in steps"
        )
    return [_encode(part, number, is_last=number == len(parts) - 1) for number, part in enumerate(parts)]


def decode_part(body: bytes | memoryview) -> TablePart:
    """Return the part in the body of a record. Raises TableRecordError."""
    if len(body) > BODY_BYTES_MAX:
        raise TableRecordError(f"a body of {len(body)} bytes, the limit is {BODY_BYTES_MAX}")
    try:
        found = decode_json(body, _Body)
    except JsonError as error:
        raise TableRecordError(str(error)) from error
    if found.version != VERSION:
        raise TableRecordError(
            f"version {found.version}, this broker reads {VERSION}: run the same PyMQ on all members"
        )
    change = TableChange(
        found.table,
        {member: {key: bytes(value) for key, value in each.items()} for member, each in found.entries.items()},
        found.removed,
        {member: bytes(value) for member, value in found.values.items()},
    )
    _check(change)
    return TablePart(found.part, found.is_last, change)


def _encode(change: TableChange, number: int, *, is_last: bool) -> bytes:
    body = _Body(
        version=VERSION,
        table=change.table,
        part=number,
        is_last=is_last,
        entries={m: {k: msgspec.Raw(v) for k, v in each.items()} for m, each in change.entries.items()},
        removed=change.removed,
        values={member: msgspec.Raw(value) for member, value in change.values.items()},
    )
    return msgspec.json.encode(body)


def _parts(change: TableChange) -> Iterator[TableChange]:
    """Yield changes that together are ``change``, each small enough for a record."""
    part, size_bytes = TableChange(change.table), 0
    for member, key, value in _items(change):
        item_bytes = _ENTRY_FRAME_BYTES + len(member) + len(key.encode()) + len(value or b"")
        if item_bytes > ENTRY_BYTES_MAX:
            raise TableRecordError(
                f"{change.table}: the entry {key[:60]!r} needs {item_bytes} bytes, the limit is {ENTRY_BYTES_MAX}"
            )
        if size_bytes and size_bytes + item_bytes > PART_BYTES_MAX:
            yield part
            part, size_bytes = TableChange(change.table), 0
        size_bytes += item_bytes
        if value is None:
            part.removed.setdefault(member, []).append(key)
        elif key:
            part.entries.setdefault(member, {})[key] = value
        else:
            part.values[member] = value
    yield part


def _items(change: TableChange) -> Iterator[tuple[str, str, bytes | None]]:
    """Yield member, name and value of all that a change has: no value for a removal, no name for a member's own."""
    for member, keys in change.removed.items():
        for key in keys:
            yield member, key, None
    for member, entries in change.entries.items():
        for key, value in entries.items():
            yield member, key, value
    for member, value in change.values.items():
        yield member, "", value


def _check(change: TableChange) -> None:
    """Raise TableRecordError for a change of what is no table or member here, or that contradicts itself."""
    kind = TABLE_KINDS.get(change.table)
    if kind is None:
        raise TableRecordError(f"{change.table[:60]!r} is no table")
    for member in (*change.entries, *change.removed):
        if member not in kind.entries:
            raise TableRecordError(f"{change.table} has no entries {member[:60]!r}")
    for member in change.values:
        if member not in kind.values:
            raise TableRecordError(f"{change.table} has no value {member[:60]!r}")
    for member, keys in change.removed.items():
        if len(set(keys)) < len(keys) or not change.entries.get(member, {}).keys().isdisjoint(keys):
            raise TableRecordError(f"{change.table}: an entry of {member} is named twice")
