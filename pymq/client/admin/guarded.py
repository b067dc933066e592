"""Changes of one table entry on one broker that don't undo another administrator's change.

A change is read, merged and written. In between another administrator may change the same entry. PyMQ's brokers refuse
a write that was made from an older version of their table. Other brokers know no such condition: there the entry is
read again right before the write and after it, which finds a change that comes meanwhile, except in the last moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from pymq.errors import ConflictError, RefusedError
from pymq.wire.codes import ResponseCode
from pymq.wire.headers.admin import VERSION_FIELD

WRITES_MAX = 20  # tries, while changes of other entries keep coming
RETRY_AFTER_S = 0.05

EntryT = TypeVar("EntryT", bound=msgspec.Struct)


class Seen(NamedTuple, Generic[EntryT]):
    """An entry as a broker has it, None when it lacks it, and the version of its table.

    The version is None for brokers that take no condition with a write.
    """

    entry: EntryT | None
    version: int | None


class Changed(NamedTuple, Generic[EntryT]):
    """An entry before and after a change."""

    before: EntryT | None
    after: EntryT


async def change_entry(
    what: str,
    read: Callable[[], Awaitable[Seen[EntryT]]],
    merge: Callable[[EntryT | None], EntryT],
    write: Callable[[EntryT, int | None], Awaitable[dict[str, str]]],
) -> Changed[EntryT]:
    """Merge a change into the entry ``what`` (for texts) and write it.

    ``write`` gets the entry and the version it was made from, and returns the fields of the answer. Raises
    ConflictError when the entry was changed meanwhile, and what the three functions raise.
    """
    seen = await read()
    after = merge(seen.entry)
    for _ in range(WRITES_MAX):
        if seen.version is None:
            _check_unchanged(what, seen, await read())
        try:
            fields = await write(after, seen.version)
        except RefusedError as error:
            if error.code != ResponseCode.SUBSCRIPTION_NOT_LATEST:
                raise
            await asyncio.sleep(RETRY_AFTER_S)
            now = await read()
            _check_unchanged(what, seen, now)
            seen = now
            continue
        if VERSION_FIELD not in fields:
            _check_written(what, after, changed_members(seen.entry, after), await read())
        return Changed(seen.entry, after)
    raise ConflictError(f"{what} can't be changed while other changes come all the time: {WRITES_MAX} tries failed")


def _check_unchanged(what: str, seen: Seen[EntryT], now: Seen[EntryT]) -> None:
    if now.entry != seen.entry:
        raise ConflictError(
            f"{what} was changed by someone else meanwhile ({_difference(seen.entry, now.entry)}): nothing was "
            "changed here, look at it and repeat the command"
        )


def _check_written(what: str, after: EntryT, members: list[str], now: Seen[EntryT]) -> None:
    lost = [name for name in members if now.entry is None or getattr(now.entry, name) != getattr(after, name)]
    if lost:
        raise ConflictError(
            f"{what} was changed by someone else at the same time ({_difference(after, now.entry)}): look at it and "
            "repeat the command"
        )


def changed_members(before: msgspec.Struct | None, after: msgspec.Struct) -> list[str]:
    """Return the names of the members that differ; all when there was no entry."""
    names = type(after).__struct_fields__
    return [name for name in names if before is None or getattr(before, name) != getattr(after, name)]


def _difference(before: msgspec.Struct | None, after: msgspec.Struct | None) -> str:
    if after is None:
        return "it was deleted"
    if before is None:
        return "it was created"
    return ", ".join(
        f"{name} {getattr(before, name)} -> {getattr(after, name)}" for name in changed_members(before, after)
    )
