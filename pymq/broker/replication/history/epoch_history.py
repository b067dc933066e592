"""Epoch history: which master wrote which part of a log. Two histories show up to where two logs are equal.

A broker begins a new entry when it becomes the master, and when it restarts as the master after an unclean stop, which
may have taken bytes from its log's end. An entry has an epoch, the number of masters so far, and a random id. Two
brokers that become masters at the same time, without seeing each other, get the same epoch but different ids.
RocketMQ's auto-switch mode keeps the numbers alone (``epochFileCheckpoint``, Java: EpochFileCache).

A history has at most ``ENTRIES_MAX`` entries. With more, neighbors in the older half are merged, those with the fewest
bytes first. A merged entry has an id of its own, so the bytes of its epochs are never taken for those of another epoch.
A log that ends within a merged entry counts as equal up to the start of that entry, and the rest is copied again.

Merging all the oldest entries into one would be simpler and safe, too. But then a slave that was away during more than
``ENTRIES_MAX`` unclean restarts of its master would copy nearly the whole log again. Once the master had deleted the
start of that entry, it would refuse the slave. With the rule here such a slave copies a small part.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_hexdigest

from pymq.model.epochs import why_jumping

# About 16 KB in each JoinRequest and status. A log that ends in the older half may end in a merged entry.
ENTRIES_MAX = 256
_MERGED = "+"  # the first character of a merged entry's id


class EpochEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a log that one master wrote from one start to the next, or several merged ones.

    ``start`` is the log offset at which it (the first one) begins, ``epoch`` the number (of the last one). ``epoch_id``
    has 16 hex digits; a merged entry has a digest of the entries that it replaces.
    """

    epoch: int
    start: int
    epoch_id: str

    @property
    def is_merged(self) -> bool:
        return self.epoch_id.startswith(_MERGED)


class CommonPoint(NamedTuple):
    """The offset up to which two logs are equal; ``is_known`` is False when their histories share no entry."""

    offset: int
    is_known: bool


class EpochHistory(msgspec.Struct, frozen=True):
    """Entries in the order of epochs and starts; empty for a log that never had a PyMQ master."""

    entries: tuple[EpochEntry, ...] = ()

    @property
    def epoch(self) -> int:
        """The number of the newest epoch; 0 without entries."""
        return self.entries[-1].epoch if self.entries else 0

    @property
    def newest_start(self) -> int:
        """The offset where the newest entry begins; 0 without entries."""
        return self.entries[-1].start if self.entries else 0

    def begin(self, start: int, epoch_id: str) -> EpochHistory:
        """Return this history with the next epoch, for a new master whose log ends at ``start``.

        Entries that would be left without bytes are dropped, except the first one, by which members of one group are
        distinguished from another group's.
        """
        return self._with(EpochEntry(self.epoch + 1, start, epoch_id))

    def renew(self, start: int, epoch_id: str) -> EpochHistory:
        """Return this history with another entry of the same epoch, after a stop that may have taken bytes.

        The number stays: a master that dies often must not look newer than the broker that was promoted in its place.
        """
        return self._with(EpochEntry(max(self.epoch, 1), start, epoch_id))

    def _with(self, entry: EpochEntry) -> EpochHistory:
        first = tuple(other for other in self.entries[:1] if other.start == entry.start)
        entries = (*first, *(other for other in self.entries if other.start < entry.start), entry)
        while len(entries) > ENTRIES_MAX:
            entries = _shorten(entries)
        return EpochHistory(entries)

    def truncate(self, end: int) -> EpochHistory:
        """Return the history of the same log when it is truncated to end at ``end``."""
        return EpochHistory(tuple(entry for entry in self.entries if entry.start <= end))

    def end_of(self, place: int, log_end: int) -> int:
        """Return where the entry at ``place`` ends: at the start of the next one, or at ``log_end``."""
        return self.entries[place + 1].start if place + 1 < len(self.entries) else log_end


def shares_entry(ours: EpochHistory, theirs: EpochHistory) -> bool:
    """Return True when both histories have an entry in common: the logs have one origin, and differ at most later.

    Brokers of another group, even of the same name, have other random ids.
    """
    return not set(ours.entries).isdisjoint(theirs.entries)


def why_implausible(theirs: EpochHistory, our_epoch: int = 0) -> str:
    """Return why no history of our group looks like this one; empty when it may be one.

    ``our_epoch`` is the newest epoch of our own history, 0 without one. Each promotion begins the next epoch, so a step
    of more than EPOCH_JUMP_MAX is no promotion that we missed.
    """
    for before, after in pairwise(theirs.entries):
        if after.start < before.start:
            return f"its epoch {after.epoch} from offset {after.start} comes after one from offset {before.start}"
    return why_jumping((entry.epoch for entry in theirs.entries), our_epoch)


def _shorten(entries: tuple[EpochEntry, ...]) -> tuple[EpochEntry, ...]:
    """Merge the smallest neighbors in the older half. The first entry stays, because every log of the group has it."""
    choices = [_around(entries, place) for place in range(1, len(entries) // 2) if not entries[place].is_merged]
    first, behind = min(choices, key=lambda choice: entries[choice[1]].start - entries[choice[0]].start)
    return (*entries[:first], _merged(entries[first:behind]), *entries[behind:])


def _around(entries: tuple[EpochEntry, ...], place: int) -> tuple[int, int]:
    """Return the range of entries to merge with the one at ``place``.

    These are the merged entries beside it; without one, the next entry and a merged one after that.
    """
    first = place - entries[place - 1].is_merged
    behind = place + 1 + entries[place + 1].is_merged
    if behind - first == 1:
        behind += 1 + entries[place + 2].is_merged
    return first, behind


def _merged(entries: tuple[EpochEntry, ...]) -> EpochEntry:
    """Return one entry for ``entries``. Brokers that merge the same ones get the same id."""
    return EpochEntry(entries[-1].epoch, entries[0].start, _MERGED + xxh3_64_hexdigest(msgspec.json.encode(entries)))


def common_point(ours: EpochHistory, our_end: int, theirs: EpochHistory, their_end: int) -> CommonPoint:
    """Return the offset up to which two logs with these histories and ends are equal.

    The logs are equal up to the end of the newest entry that both have; the smaller of its two ends counts. Nothing is
    known about a log without a history: it came from a RocketMQ master, or from a time before replication.
    """
    if not ours.entries or not theirs.entries:
        return CommonPoint(min(our_end, their_end), is_known=False)
    places = {entry: place for place, entry in enumerate(theirs.entries)}
    for place in range(len(ours.entries) - 1, -1, -1):
        at = places.get(ours.entries[place])
        if at is not None:
            return CommonPoint(min(ours.end_of(place, our_end), theirs.end_of(at, their_end)), is_known=True)
    return CommonPoint(min(ours.entries[0].start, theirs.entries[0].start), is_known=False)
