"""Lineage: which master wrote which part of a log, so that two logs can tell how far they are the same.

A reign begins whenever a broker becomes master, or is one again after an unclean stop, which may have taken bytes from
its log's end. It is named by the number of masters so far and by a random id: two brokers that were made masters at
the same time, out of sight of each other, get the same number, never the same id. RocketMQ's auto-switch mode keeps the
numbers alone (``epochFileCheckpoint``, Java: EpochFileCache).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

# Reigns that began before the log's oldest byte are no use; these many of the newest ones are kept in any case.
REIGNS_KEPT = 64


class Reign(msgspec.Struct, frozen=True, rename="camel"):
    """One master's time. ``start``: the log offset at which it began; ``reign_id``: 16 hex digits."""

    epoch: int
    start: int
    reign_id: str


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
        kept = tuple(other for other in self.reigns if other.start < reign.start)[-(REIGNS_KEPT - 1) :]
        return Lineage((*kept, reign))

    def cut(self, end: int) -> Lineage:
        """What is left of it in a log that was cut to end at ``end``."""
        return Lineage(tuple(reign for reign in self.reigns if reign.start <= end))

    def end_of(self, place: int, log_end: int) -> int:
        """Where the reign at ``place`` ends: at the next one's start, or with the log."""
        return self.reigns[place + 1].start if place + 1 < len(self.reigns) else log_end


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
