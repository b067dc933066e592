"""Rings: the figures of the last hour, a point each ten seconds. A point that was not measured is NaN.

Points have numbers: those of :func:`point_at`, of a clock's monotonic milliseconds.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator
from enum import StrEnum
from math import nan
from typing import Final, NamedTuple

POINT_MS: Final = 10_000
POINTS: Final = 360
SERIES_MAX: Final = 20_000
SEEN_MAX: Final = 1_000  # subjects that were looked at last
_EMPTY: Final = array("d", [nan]) * POINTS


class Kind(StrEnum):
    """What a series is about."""

    topic = "topic"
    group = "group"
    broker = "broker"
    cluster = "cluster"
    pair = "pair"  # a group's topic


class Measure(StrEnum):
    """What a series counts."""

    in_rate = "in"  # messages a second
    out_rate = "out"  # messages a second: got by consumers; of a group and a topic, committed ones
    lag = "lag"  # messages
    send_ms = "send_ms"  # within which 99 % of sends were done
    log_rate = "log_bytes"  # bytes a second that a broker's log grows by
    disk = "disk"  # per cent of a broker's disk that is in use
    slave_lag = "behind_bytes"  # bytes of its master's log that a slave lacks


RATES: Final = frozenset({Measure.in_rate, Measure.out_rate, Measure.log_rate})


class Subject(NamedTuple):
    """One topic, group or broker, or the whole cluster; or a topic of a group.

    ``name`` of a broker: its address; of a pair: the group's.
    """

    kind: Kind
    name: str = ""
    topic: str = ""


CLUSTER: Final = Subject(Kind.cluster)
_GIVE_WAY: Final = (Kind.pair, Kind.topic, Kind.group)  # in this order
_ALWAYS_KEPT: Final = frozenset({Kind.cluster, Kind.broker})


def point_at(monotonic_ms: int) -> int:
    """Return the number of the point that a time belongs to."""
    return monotonic_ms // POINT_MS


class Ring:
    """The points of one series. ``last``: the number of the newest one."""

    __slots__ = ("_values", "last")

    def __init__(self, first: int) -> None:
        """``first``: the number of the first point that will be put."""
        self._values = _EMPTY[:]
        self.last = first - 1

    def put(self, point: int, value: float, *, joined_max: int = 1, is_rate: bool = False) -> None:
        """Set a point. One that is not newer than the last one changes nothing.

        A figure counts for the time since the last point, when that is at most ``joined_max`` points ago. Else the
        points between stay unknown, and so does a rate, which is an average over all of them.
        """
        step = point - self.last
        if step <= 0:
            return
        between = value if step <= joined_max else nan
        for each in range(max(self.last + 1, point - POINTS + 1), point):
            self._values[each % POINTS] = between
        self._values[point % POINTS] = between if is_rate and step > 1 else value
        self.last = point

    def points(self, last: int) -> list[float]:
        """Return the :data:`POINTS` points up to ``last``, the oldest first."""
        begin = (last + 1) % POINTS
        found = [*self._values[begin:], *self._values[:begin]]
        unknown = min(POINTS, max(0, last - self.last))
        found[POINTS - unknown :] = [nan] * unknown
        return found


class Rings:
    """The series of one cluster by subject and measure.

    At ``series_max``, a subject that someone looked at takes the place of the pair that was looked at the longest time
    ago, or of such a topic or group when there is none. So do groups, but of no other group. Other topics and pairs get
    no series.
    """

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self.series_max = series_max
        self.count = 0
        self._subjects: OrderedDict[Subject, dict[Measure, Ring]] = OrderedDict()  # the least seen first
        self._seen: OrderedDict[Subject, None] = OrderedDict()

    def __contains__(self, subject: Subject) -> bool:
        return subject in self._subjects

    def __iter__(self) -> Iterator[Subject]:
        return iter(list(self._subjects))

    def see(self, subject: Subject) -> None:
        """Note that someone looks at a subject."""
        if subject in self._subjects:
            self._subjects.move_to_end(subject)
        self._seen[subject] = None
        self._seen.move_to_end(subject)
        while len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)

    def put(self, subject: Subject, measure: Measure, point: int, value: float, *, joined_max: int = 1) -> bool:
        """Set a point as :meth:`Ring.put` does. Return False when there is no room for its series."""
        rings = self._subjects.get(subject)
        ring = None if rings is None else rings.get(measure)
        if ring is None:
            if not self._makes_room(subject):
                return False
            ring = self._subjects.setdefault(subject, {})[measure] = Ring(point)
            self.count += 1
        ring.put(point, value, joined_max=joined_max, is_rate=measure in RATES)
        return True

    def points(self, subject: Subject, measure: Measure, last: int) -> list[float] | None:
        """Return the points up to ``last``, the oldest first; None without a series."""
        ring = self._subjects.get(subject, {}).get(measure)
        return None if ring is None else ring.points(last)

    def forget_old(self, last: int) -> None:
        """Drop the subjects that have no point of the hour up to ``last``."""
        for subject, rings in list(self._subjects.items()):
            if all(last - ring.last >= POINTS for ring in rings.values()):
                self._drop(subject)

    def _makes_room(self, subject: Subject) -> bool:
        """Return whether there is room for one more series, of this subject."""
        while self.count >= self.series_max:
            least_seen = self._least_seen(subject)
            if least_seen is None:
                return False
            self._drop(least_seen)
        return True

    def _least_seen(self, newcomer: Subject) -> Subject | None:
        """Return whose place a newcomer takes, None when it takes none: that of a pair, a topic, or a group."""
        is_wanted = newcomer in self._seen or newcomer.kind in _ALWAYS_KEPT
        kinds = _GIVE_WAY if is_wanted else _GIVE_WAY[:-1] if newcomer.kind is Kind.group else ()
        for kind in kinds:
            for subject in self._subjects:
                if subject.kind is kind and subject != newcomer:
                    return subject
        return None

    def _drop(self, subject: Subject) -> None:
        self.count -= len(self._subjects.pop(subject))
