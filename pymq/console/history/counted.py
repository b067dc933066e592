"""What brokers counted themselves in the last hour: means, for the time before the console's own figures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, NamedTuple

from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.console.history.rings import Kind, Measure, Subject
from pymq.errors import PymqError
from pymq.operations.asking.single_flight import SingleFlight
from pymq.operations.top.sample import BrokerSample, Sample
from pymq.wire.bodies_admin import StatsData

WAIT_S: Final = 1.0  # of a page that is opened, for brokers that answer late
AGAIN_MS: Final = 60_000  # from a failure to the next question
AT_ONCE: Final = 4  # subjects that are asked for
SUBJECTS_MAX: Final = 1_000
SPAN_MIN_MS: Final = 60_000  # a shorter mean says nothing of an hour
SPAN_MAX_MS: Final = 4_200_000  # brokers take a sample each ten minutes, and keep seven
_COUNT_MAX: Final = 2**63

_NAMES: Final = {Measure.in_rate: "BROKER_PUT_NUMS", Measure.out_rate: "BROKER_GET_NUMS"}
_OF_TOPICS: Final = "TOPIC_PUT_NUMS"
# Brokers count what groups got, which is not what they committed.
COUNTED: Final[Mapping[Kind, Sequence[Measure]]] = {
    Kind.topic: (Measure.in_rate,),
    Kind.broker: tuple(_NAMES),
    Kind.cluster: tuple(_NAMES),
}


class Mean(NamedTuple):
    """Messages a second, over ``span_ms`` that ended ``age_ms`` ago."""

    per_second: float
    span_ms: int
    age_ms: int = 0


Means = Mapping[Measure, Mean]
_Question = tuple[str, str, str]  # the broker's address, the statistic's name and key


class HourCounts:
    """Means of the subjects that were looked at. A subject is asked for once, but after a failure."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Subject, tuple[int, Means | None]] = {}  # when they came (monotonic ms); None: a failure
        self._flights: SingleFlight[Means] = SingleFlight()
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def ask(self, admin: Admin, sample: Sample, subject: Subject) -> Means:
        """Return the means of a subject, empty where a broker does not say them within :data:`WAIT_S`.

        ``sample``: says which brokers have the subject.
        """
        questions = _questions(sample, subject)
        if not questions:
            return {}
        now_ms = self._clock.monotonic_ms()
        known = self._known.get(subject)
        if known is None or (known[1] is None and now_ms - known[0] >= AGAIN_MS):
            try:
                async with asyncio.timeout(WAIT_S):
                    found = await self._flights.ask(subject, lambda: self._ask(admin, questions))
            except (PymqError, TimeoutError):
                known = self._keep(subject, None)
            else:
                known = self._keep(subject, found)
        at_ms, means = known
        age_ms = self._clock.monotonic_ms() - at_ms
        return {measure: mean._replace(age_ms=age_ms) for measure, mean in (means or {}).items()}

    def _keep(self, subject: Subject, means: Means | None) -> tuple[int, Means | None]:
        self._known.pop(subject, None)
        kept = self._known[subject] = self._clock.monotonic_ms(), means
        while len(self._known) > SUBJECTS_MAX:
            del self._known[next(iter(self._known))]
        return kept

    async def _ask(self, admin: Admin, questions: Mapping[Measure, Sequence[_Question]]) -> Means:
        async with self._gate:
            found: dict[Measure, Mean] = {}
            for measure, of_measure in questions.items():
                answers = await asyncio.gather(*(admin.brokers.stats(*question) for question in of_measure))
                if (mean := _sum(answers)) is not None:
                    found[measure] = mean
            return found


def _questions(sample: Sample, subject: Subject) -> dict[Measure, list[_Question]]:
    """Return what to ask for a subject; nothing where a broker is silent, because the sum of some is not the sum."""
    if subject.kind is Kind.topic:
        there = [one for one in sample.brokers if (subject.name, one.view.name) in sample.topics and one.view.is_master]
        asked = {Measure.in_rate: [(one.view.address, _OF_TOPICS, subject.name) for one in there]}
    elif subject.kind is Kind.broker:
        there = [one for one in sample.brokers if one.view.address == subject.name]
        asked = {measure: _of_brokers(name, there) for measure, name in _NAMES.items()}
    elif subject.kind is Kind.cluster:
        there = sample.brokers
        masters = [one for one in there if one.view.is_master]
        asked = {measure: _of_brokers(name, there) for measure, name in _NAMES.items()}
        asked[Measure.in_rate] = _of_brokers(_NAMES[Measure.in_rate], masters)
    else:
        return {}
    return {} if not there or any(one.error for one in there) else asked


def _of_brokers(name: str, there: Sequence[BrokerSample]) -> list[_Question]:
    return [(one.view.address, name, one.view.cluster) for one in there]


def _sum(answers: Sequence[StatsData | None]) -> Mean | None:
    """Return the mean of all brokers together, None where nothing was counted, or where a count can't be."""
    hours = [answer.stats_hour for answer in answers if answer is not None and answer.stats_hour.sum]
    if not hours or not all(0 < hour.sum < _COUNT_MAX and isfinite(hour.tps) and hour.tps > 0 for hour in hours):
        return None
    span_ms = max(min(SPAN_MAX_MS, hour.sum * 1000 / hour.tps) for hour in hours)
    per_second = sum(hour.tps for hour in hours)
    return Mean(per_second, round(span_ms)) if span_ms >= SPAN_MIN_MS and isfinite(per_second) else None
