"""Retention policy: which of the oldest segments are deleted now, and whether the disk is too full for writes.

Pure: facts in, a decision out. The rules are RocketMQ's (Java: DefaultMessageStore.CleanCommitLogService), and two of
PyMQ: a limit on the log's size and one on the disk's free bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from pymq.units import format_bytes

HOUR_MS = 3_600_000
# Where RocketMQ keeps each level, in per cent, whatever is configured (Java: CleanCommitLogService).
USED_PERCENT_RANGE = (10, 95)
FORCED_PERCENT_RANGE = (30, 85)
REFUSED_PERCENT_RANGE = (35, 90)
FREE_SHARE = 2  # diskFreeBytesMin counts up to this part of the disk, a half: beyond, no log would be left


class Reason(Enum):
    """Why a segment is deleted: the key in broker.conf of the rule."""

    AGE = "fileReservedTime"
    LOG_SIZE = "commitLogBytesMax"
    FREE_BYTES = "diskFreeBytesMin"
    DISK_USED = "diskSpaceCleanForciblyRatio"


class SegmentFacts(NamedTuple):
    """One segment. ``size_bytes``: the bytes of the disk that deleting it frees. ``modified_ms``: wall clock."""

    start: int
    size_bytes: int
    modified_ms: int


class DiskFacts(NamedTuple):
    """The disk that holds ``path``. ``total_bytes`` excludes what is reserved for the system's administrator."""

    path: str
    total_bytes: int
    free_bytes: int

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes

    def is_over(self, percent: int) -> bool:
        """True when more than ``percent`` of the disk is in use. 0 means no limit: always False."""
        return percent > 0 and self.used_bytes * 100 > percent * self.total_bytes


class Doomed(NamedTuple):
    """A segment that is to be deleted, by its start."""

    start: int
    reason: Reason


class Decision(NamedTuple):
    """``doomed``: the segments to delete, oldest first. ``refusal``: why writes are refused; None takes them."""

    doomed: tuple[Doomed, ...]
    refusal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """What an operator sets. The comment behind a field is its key in broker.conf. A level of 0 is off."""

    reserved_hours: int = 72  # fileReservedTime, counted from a segment's last change
    delete_hours: frozenset[int] = frozenset({4})  # deleteWhen, local time
    used_percent: int = 75  # diskMaxUsedSpaceRatio: over it old segments are deleted at any hour
    forced_percent: int = 85  # diskSpaceCleanForciblyRatio: over it segments are deleted at any age
    refused_percent: int = 90  # diskSpaceWarningLevelRatio: over it writes are refused
    may_force: bool = True  # cleanFileForciblyEnable
    batch_count: int = 10  # deleteFileBatchMax: segments deleted in one pass
    log_bytes_max: int = 0  # commitLogBytesMax
    free_bytes_min: int = 0  # diskFreeBytesMin

    def __post_init__(self) -> None:
        for name, (low, high) in (
            ("used_percent", USED_PERCENT_RANGE),
            ("forced_percent", FORCED_PERCENT_RANGE),
            ("refused_percent", REFUSED_PERCENT_RANGE),
        ):
            percent = getattr(self, name)
            object.__setattr__(self, name, min(max(percent, low), high) if percent else 0)


def decide(
    segments: Sequence[SegmentFacts],
    log_bytes: int,
    disks: Sequence[DiskFacts],
    now_ms: int,
    local_hour: int,
    settings: RetentionSettings,
    *,
    is_manual: bool = False,
) -> Decision:
    """Decide which segments are deleted in this pass, and whether writes are refused.

    ``segments``: from the oldest on, one more than ``batch_count`` at most; the last one given always stays.
    ``log_bytes``: size of the whole log. ``disks``: the log's first, then others that writes need. ``is_manual``: an
    operator asked, so the hour does not matter.
    """
    disk = disks[0]
    free_bytes_min = min(settings.free_bytes_min, disk.total_bytes // FREE_SHARE)
    settings = replace(settings, free_bytes_min=free_bytes_min)
    by_age = is_manual or local_hour in settings.delete_hours or disk.is_over(settings.used_percent)
    doomed: list[Doomed] = []
    freed = 0
    for segment in segments[: min(settings.batch_count, len(segments) - 1)]:
        age_ms = now_ms - segment.modified_ms
        if by_age and age_ms >= settings.reserved_hours * HOUR_MS:
            reason: Reason | None = Reason.AGE
        else:
            reason = _forced(log_bytes - freed, disk._replace(free_bytes=disk.free_bytes + freed), settings)
        if reason is None:
            break
        doomed.append(Doomed(segment.start, reason))
        freed += segment.size_bytes
    return Decision(tuple(doomed), _refusal(disks, settings, may_free=len(segments) > 1))


def _forced(log_bytes: int, disk: DiskFacts, settings: RetentionSettings) -> Reason | None:
    """Why a segment must be deleted at any age, once those before it are deleted; None when it need not."""
    if settings.log_bytes_max and log_bytes > settings.log_bytes_max:
        return Reason.LOG_SIZE
    if disk.free_bytes < settings.free_bytes_min:
        return Reason.FREE_BYTES
    if settings.may_force and disk.is_over(settings.forced_percent):
        return Reason.DISK_USED
    return None


def _refusal(disks: Sequence[DiskFacts], settings: RetentionSettings, *, may_free: bool) -> str | None:
    for disk in disks:
        if disk.is_over(settings.refused_percent):
            return (
                f"the store takes no writes: the disk of {disk.path} is {_percent(disk)} full ({_room(disk)}), over "
                f"diskSpaceWarningLevelRatio={settings.refused_percent}; make room or keep less (fileReservedTime, "
                f"commitLogBytesMax), sends are taken again by themselves; 0 switches this limit off"
            )
    # While there are segments to delete, deleting keeps the bytes free; after that, only refusing writes does.
    if disks[0].free_bytes < settings.free_bytes_min and not may_free:
        return (
            f"the store takes no writes: the disk of {disks[0].path} has {_room(disks[0])}, below "
            f"diskFreeBytesMin={settings.free_bytes_min}, and only the newest segment is left; make room or lower the "
            f"key, sends are taken again by themselves"
        )
    return None


def _percent(disk: DiskFacts) -> str:
    return f"{disk.used_bytes * 100 / disk.total_bytes:.1f} %"


def _room(disk: DiskFacts) -> str:
    return f"{format_bytes(disk.free_bytes)} free of {format_bytes(disk.total_bytes)}"
