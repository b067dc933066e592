"""Epoch history: which master wrote which part of a log, so that two logs can tell how far they are the same.

An epoch begins whenever a broker becomes master, or is one again after an unclean stop, which may have taken bytes from
its log's end. It is named by the number of masters so far and by a random id: two brokers that were made masters at
the same time, out of sight of each other, get the same number, never the same id. RocketMQ's auto-switch mode keeps the
numbers alone (``epochFileCheckpoint``, Java: EpochFileCache).

An epoch history has ``ENTRIES_MAX`` epochs at most. With more, some older ones become a *stretch*: one entry for epochs that
followed each other, which keeps their bytes from being taken for the epoch's before. A log that ends among them is the
same as ours up to the stretch; what lies in it there is copied once more.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_hexdigest

# Some 16 KB in each joining and status. A log with more than half as many newer ones may lie in a stretch.
ENTRIES_MAX = 256
_MERGED = "+"  # before a stretch's id


class EpochEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One master's time, or a stretch of several. ``epoch``: of the last one; ``start``: the log offset at which the
    first one began; ``epoch_id``: 16 hex digits, of a stretch a digest of what it stands for."""

    epoch: int
    start: int
    epoch_id: str

    @property
    def is_merged(self) -> bool:
        return self.epoch_id.startswith(_MERGED)


class CommonPoint(NamedTuple):
    """Up to ``offset`` two logs are the same. ``is_known``: False when no epoch is in both, and none can be."""

    offset: int
    is_known: bool


class EpochHistory(msgspec.Struct, frozen=True):
    """Epochs in the order of epochs and starts; empty for a log that never had a PyMQ master."""

    entries: tuple[EpochEntry, ...] = ()

    @property
    def epoch(self) -> int:
        """Of the newest epoch, 0 without any."""
        return self.entries[-1].epoch if self.entries else 0

    @property
    def newest_start(self) -> int:
        """Where the newest epoch began, 0 without any."""
        return self.entries[-1].start if self.entries else 0

    def begin(self, start: int, epoch_id: str) -> EpochHistory:
        """With the epoch of a broker that became master, from ``start`` on.

        Those that wrote nothing of what is left are forgotten.
        """
        return self._with(EpochEntry(self.epoch + 1, start, epoch_id))

    def renew(self, start: int, epoch_id: str) -> EpochHistory:
        """With another epoch of the same master, after a stop that may have taken bytes from its log's end.

        Its epoch stays: one that dies often must not look newer than the one that was made master in its place.
        """
        return self._with(EpochEntry(max(self.epoch, 1), start, epoch_id))

    def _with(self, entry: EpochEntry) -> EpochHistory:
        entries = (*(other for other in self.entries if other.start < entry.start), entry)
        while len(entries) > ENTRIES_MAX:
            entries = _shortened(entries)
        return EpochHistory(entries)

    def truncate(self, end: int) -> EpochHistory:
        """What is left of it in a log that was cut to end at ``end``."""
        return EpochHistory(tuple(entry for entry in self.entries if entry.start <= end))

    def end_of(self, place: int, log_end: int) -> int:
        """Where the epoch at ``place`` ends: at the next one's start, or with the log."""
        return self.entries[place + 1].start if place + 1 < len(self.entries) else log_end


def _shortened(entries: tuple[EpochEntry, ...]) -> tuple[EpochEntry, ...]:
    """Makes a stretch of the least that will do, in the older half. The first epoch stays: everybody has it."""
    choices = [_around(entries, place) for place in range(1, len(entries) // 2) if not entries[place].is_merged]
    first, behind = min(choices, key=lambda choice: entries[choice[1]].start - entries[choice[0]].start)
    return (*entries[:first], _merged(entries[first:behind]), *entries[behind:])


def _around(entries: tuple[EpochEntry, ...], place: int) -> tuple[int, int]:
    """First and one behind the last of those that become one with the epoch at ``place``: stretches beside it, or else
    the next epoch and what is beside that."""
    first = place - entries[place - 1].is_merged
    behind = place + 1 + entries[place + 1].is_merged
    if behind - first == 1:
        behind += 1 + entries[place + 2].is_merged
    return first, behind


def _merged(entries: tuple[EpochEntry, ...]) -> EpochEntry:
    """The same for everybody who makes it of the same ones: then it is shared like an epoch."""
    told = msgspec.json.encode(entries)
    return EpochEntry(entries[-1].epoch, entries[0].start, _MERGED + xxh3_64_hexdigest(told))


def common_point(ours: EpochHistory, our_end: int, theirs: EpochHistory, their_end: int) -> CommonPoint:
    """How far two logs with these epoch histories and ends are the same.

    Both lists are walked to the newest epoch they share; the logs are the same up to the lesser of its two ends.
    A log without an epoch history came from a RocketMQ master or from a time before replication: nothing is known of it.
    """
    if not ours.entries or not theirs.entries:
        return CommonPoint(min(our_end, their_end), is_known=False)
    places = {entry: place for place, entry in enumerate(theirs.entries)}
    for place in range(len(ours.entries) - 1, -1, -1):
        at = places.get(ours.entries[place])
        if at is not None:
            return CommonPoint(min(ours.end_of(place, our_end), theirs.end_of(at, their_end)), is_known=True)
    return CommonPoint(min(ours.entries[0].start, theirs.entries[0].start), is_known=False)
