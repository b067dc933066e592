"""Explores every crash point of a workload: each recorded moment, with each way to lose power or to die there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from xxhash import xxh32_intdigest

from pymq.store.disk.disk_snapshot import DiskSnapshot, Image
from tests.crash.checking import BrokenPromiseError, Checker, Served, verify
from tests.crash.driver import Moment
from tests.crash.losses import (
    DROP_ALL,
    KEEP_ALL,
    KEEP_ENTRIES,
    KEEP_PAGES,
    KEEP_SIZES,
    Loss,
    newest_pages,
    random_loss,
    reordered,
    torn,
)
from tests.crash.workloads import Workload, workload

RANDOM_COUNT = 3


class CrashPoint(NamedTuple):
    """One crash. Its text form replays it."""

    workload: str
    moment: int
    way: str
    seed: int

    def __str__(self) -> str:
        return f"{self.workload}:{self.moment}:{self.way}:{self.seed}"

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
        name, moment, way, seed = text.split(":")
        return cls(name, int(moment), way, int(seed))


@dataclass(slots=True)
class Tally:
    """Counts what a run did. ``faults``: crash points by kind, only those that really lost or tore something."""

    points: int = 0
    starts: int = 0
    images: int = 0
    runs: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        self.points += other.points
        self.starts += other.starts
        self.images += other.images
        self.runs += other.runs
        for way, count in other.faults.items():
            self.faults[way] = self.faults.get(way, 0) + count

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())

    def __str__(self) -> str:
        return (
            f"{self.points:,} crash points, faults really applied in {self.fault_count:,}, {self.images:,} different "
            f"disks, {self.starts:,} starts, {self.runs:,} recorded runs"
        )

    @property
    def ways(self) -> str:
        return ", ".join(f"{way} {count:,}" for way, count in sorted(self.faults.items()))


def _ways(
    before: DiskSnapshot | None, moment: Moment, after: DiskSnapshot | None, chance: random.Random
) -> Iterator[tuple[str, Image]]:
    """Yield every kind of crash at a moment between the disk states ``before`` and ``after``."""
    now = moment.snapshot
    kept = now.image()
    yield "kill", kept
    call, _, path = moment.call.partition(" ")
    if after is not None and call == "pwrite":
        partly = _partly_written(kept.files.get(path, b""), after.image().files.get(path, b""), chance)
        yield "kill-in-call", kept._replace(files={**kept.files, path: partly})
    newest = newest_pages(before, now) if before is not None else []
    losses: list[Loss] = [DROP_ALL, KEEP_ENTRIES, KEEP_SIZES, KEEP_PAGES, KEEP_ALL]
    losses += [random_loss(chance, f"random{n}") for n in range(RANDOM_COUNT)]
    if newest:
        losses.append(reordered(newest))
        losses.append(torn(newest, chance.randrange(len(newest))))
    for loss in losses:
        yield loss.name.rstrip("0123456789") if loss.name.startswith("torn") else loss.name, loss.of(now)


def _partly_written(old: bytes, new: bytes, chance: random.Random) -> bytes:
    """Return a file into which a write had put some of its bytes when the process died."""
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    stop = chance.randint(at, max(at, len(new.rstrip(b"\0"))))
    return new[:stop] + old[stop:]


def explore(work: Workload, seed: int, *, only: CrashPoint | None = None, stride: int = 1) -> Tally:
    """Crash a workload everywhere, or at one point. Raises BrokenPromiseError that names the point."""
    driver = work.recorded()
    moments = driver.moments
    checker = Checker(work.settings)
    tally = Tally(runs=1)
    known: dict[object, Served] = {}
    for number, moment in enumerate(moments):
        if (only is not None and number != only.moment) or number % stride:
            continue
        before, after = _neighbor(moments, number, number - 1), _neighbor(moments, number, number + 1)
        chance = random.Random(f"{work.name}:{number}:{seed}")
        for way, image in _ways(before, moment, after, chance):
            if only is None or way == only.way:
                point = CrashPoint(work.name, number, way, seed)
                _crash(point, moment, image, checker, known, tally)
    tally.images = len(known)
    tally.starts = checker.start_count
    return tally


def _neighbor(moments: list[Moment], number: int, other: int) -> DiskSnapshot | None:
    """Return the disk one call earlier or later, None when the power was lost between the two."""
    if not 0 <= other < len(moments) or moments[other].power != moments[number].power:
        return None
    return moments[other].snapshot


def _crash(
    point: CrashPoint, moment: Moment, image: Image, checker: Checker, known: dict[object, Served], tally: Tally
) -> None:
    """Crash and check. Does not start again on a known image: the result is the same, only the promise may differ."""
    key = (frozenset(image.files.items()), tuple(image.directories))
    promise = moment.promise
    killed = point.way.startswith("kill")
    try:
        served = known.get(key)
        if served is None:
            number = xxh32_intdigest(str(point).encode())
            served = known[key] = checker.probe(image, promise, moment.now_ms + 5_000, number)
        verify(served, promise, promise.acked_end if killed else promise.synced_end)
    except BrokenPromiseError as error:
        raise BrokenPromiseError(
            f"{error}\nin {point.workload}, crashed ({point.way}) before its call {moment.call!r}\n"
            f"replay: scripts/crash --replay {point}"
        ) from error
    tally.points += 1
    if point.way == "kill" or image.files != moment.snapshot.image().files:
        tally.faults[point.way] = tally.faults.get(point.way, 0) + 1


def replay(text: str) -> Tally:
    """Replay one crash point. Raises what it finds."""
    point = CrashPoint.parse(text)
    return explore(workload(point.workload), point.seed, only=point)
