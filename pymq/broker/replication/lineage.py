"""Lineage: which master wrote which part of a log, so that two logs can tell how far they are the same.

A reign begins whenever a broker becomes master, or is one again after an unclean stop, which may have taken bytes from
its log's end. It is named by the number of masters so far and by a random id: two brokers that were made masters at
the same time, out of sight of each other, get the same number, never the same id. RocketMQ's auto-switch mode keeps the
numbers alone (``epochFileCheckpoint``, Java: EpochFileCache).

A lineage has ``REIGNS_KEPT`` reigns at most. With more, some older ones become a *stretch*: one entry for reigns that
followed each other, which keeps their bytes from being taken for the reign's before. A log that ends among them is the
same as ours up to the stretch; what lies in it there is copied once more.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_hexdigest

# Some 16 KB in each joining and status. A log with more than half as many newer ones may lie in a stretch.
REIGNS_KEPT = 256
_STRETCH = "+"  # before a stretch's id


class Reign(msgspec.Struct, frozen=True, rename="camel"):
    """One master's time, or a stretch of several. ``epoch``: of the last one; ``start``: the log offset at which the
    first one began; ``reign_id``: 16 hex digits, of a stretch a digest of what it stands for."""

    epoch: int
    start: int
    reign_id: str

    @property
    def is_stretch(self) -> bool:
        return self.reign_id.startswith(_STRETCH)


class CommonPoint(NamedTuple):
    """Up to ``offset`` two logs are the same. ``is_known``: False when no reign is in both, and none can be."""

    offset: int
    is_known: bool


class Lineage(msgspec.Struct, frozen=True):
    """Reigns in the order of epochs and starts; empty for a log that never had a PyMQ master."""

    reigns: tuple[Reign, ...] = ()

    @property
    def epoch(self) -> int:
        """Of the newest reign, 0 without any."""
        return self.reigns[-1].epoch if self.reigns else 0

    @property
    def newest_start(self) -> int:
        """Where the newest reign began, 0 without any."""
        return self.reigns[-1].start if self.reigns else 0

    def begin(self, start: int, reign_id: str) -> Lineage:
        """With the reign of a broker that became master, from ``start`` on.

        Those that wrote nothing of what is left are forgotten.
        """
        return self._with(Reign(self.epoch + 1, start, reign_id))

    def renew(self, start: int, reign_id: str) -> Lineage:
        """With another reign of the same master, after a stop that may have taken bytes from its log's end.

        Its epoch stays: one that dies often must not look newer than the one that was made master in its place.
        """
        return self._with(Reign(max(self.epoch, 1), start, reign_id))

    def _with(self, reign: Reign) -> Lineage:
        reigns = (*(other for other in self.reigns if other.start < reign.start), reign)
        while len(reigns) > REIGNS_KEPT:
            reigns = _shortened(reigns)
        return Lineage(reigns)

    def cut(self, end: int) -> Lineage:
        """What is left of it in a log that was cut to end at ``end``."""
        return Lineage(tuple(reign for reign in self.reigns if reign.start <= end))

    def end_of(self, place: int, log_end: int) -> int:
        """Where the reign at ``place`` ends: at the next one's start, or with the log."""
        return self.reigns[place + 1].start if place + 1 < len(self.reigns) else log_end


def _shortened(reigns: tuple[Reign, ...]) -> tuple[Reign, ...]:
    """Makes a stretch of the least that will do, in the older half. The first reign stays: everybody has it."""
    choices = [_around(reigns, place) for place in range(1, len(reigns) // 2) if not reigns[place].is_stretch]
    first, behind = min(choices, key=lambda choice: reigns[choice[1]].start - reigns[choice[0]].start)
    return (*reigns[:first], _stretch(reigns[first:behind]), *reigns[behind:])


def _around(reigns: tuple[Reign, ...], place: int) -> tuple[int, int]:
    """First and one behind the last of those that become one with the reign at ``place``: stretches beside it, or else
    the next reign and what is beside that."""
    first = place - reigns[place - 1].is_stretch
    behind = place + 1 + reigns[place + 1].is_stretch
    if behind - first == 1:
        behind += 1 + reigns[place + 2].is_stretch
    return first, behind


def _stretch(reigns: tuple[Reign, ...]) -> Reign:
    """The same for everybody who makes it of the same ones: then it is shared like a reign."""
    told = msgspec.json.encode(reigns)
    return Reign(reigns[-1].epoch, reigns[0].start, _STRETCH + xxh3_64_hexdigest(told))


def common_point(ours: Lineage, our_end: int, theirs: Lineage, their_end: int) -> CommonPoint:
    """How far two logs with these lineages and ends are the same.

    Both lists are walked to the newest reign they share; the logs are the same up to the lesser of its two ends.
    A log without a lineage came from a RocketMQ master or from a time before replication: nothing is known of it.
    """
    if not ours.reigns or not theirs.reigns:
        return CommonPoint(min(our_end, their_end), is_known=False)
    places = {reign: place for place, reign in enumerate(theirs.reigns)}
    for place in range(len(ours.reigns) - 1, -1, -1):
        at = places.get(ours.reigns[place])
        if at is not None:
            return CommonPoint(min(ours.end_of(place, our_end), theirs.end_of(at, their_end)), is_known=True)
    return CommonPoint(min(ours.reigns[0].start, theirs.reigns[0].start), is_known=False)
