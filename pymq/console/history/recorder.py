"""Recorder: asks one cluster in turn, with the console's own credentials, and keeps the figures of the last hour."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.client.admin.rows import Rows
from pymq.clock import Clock
from pymq.console.history.counted import HourCounts, Means
from pymq.console.history.pace import Pace
from pymq.console.history.pairs import Pairs, sum_by_topic
from pymq.console.history.rings import CLUSTER, POINT_MS, Kind, Measure, Rings, Subject, point_at
from pymq.errors import PymqError, RefusedError
from pymq.operations.auth.proof import Proof, proof_of
from pymq.operations.top.broker_tables import Part
from pymq.operations.top.rates import Figures, Rates
from pymq.operations.top.sample import BrokerSample, Sample, Sampler
from pymq.wire.bodies_rows import GroupLag, TopicEnds

log = logging.getLogger(__name__)

ROUND_MS: Final = POINT_MS
ENDS_MS: Final = 30_000
LAGS_MS: Final = 60_000
TIMED_MS: Final = 120_000  # since when messages wait, of one of the groups that are behind in thousands of queues
REFUSED_AGAIN_MS: Final = 60_000
PUT_AT_ONCE: Final = 1_000  # figures, before pages go on
REST_MIN_MS: Final = 1_000
JOINED_INTERVALS: Final = 2.5  # points are joined over one missing sample, and not over two
# RocketMQ's brokers report within how many milliseconds 99 % of the last sends were done.
_SEND_TIME: Final = "putLatency99"

# Measures of brokers, and where rows of brokers have them.
_OF_BROKERS: Final = {
    Measure.in_rate: "in",
    Measure.out_rate: "out",
    Measure.log_rate: "log_bytes",
    Measure.disk: "disk",
    Measure.slave_lag: "lag",
}

Row = dict[str, Any]


class Recorder:
    """Samples of one cluster: the newest rows of topics and groups, and the rings of the last hour.

    ``problem``: why there are no new samples, empty while there are; ``advice``: what to do then.
    """

    def __init__(
        self,
        make_admin: Callable[[], Admin],
        clock: Clock,
        rings: Rings | None = None,
        *,
        has_credentials: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``has_credentials``: its requests are signed."""
        self.rings = Rings() if rings is None else rings
        self.problem = ""
        self.advice = ""
        self.left_out = 0  # topics and groups without series, because the rings are full
        self.request_rounds = 0
        self.topics: dict[str, Figures] = {}  # of the newest sample
        self.groups: dict[str, Row] = {}  # rows of the newest sample as Rates gives them, with the time ``at_ms``
        self.system_topics: frozenset[str] = frozenset()
        self.took_ms: dict[Part, int] = {}  # how long the last answers took, by part
        self.at_ms: dict[Part, int] = {}  # when the newest row of each part came (monotonic ms)
        self._make_admin = make_admin
        self._clock = clock
        self.has_credentials = has_credentials
        self._sleep = sleep
        self._admin: Admin | None = None
        self._sampler: Sampler | None = None
        self._rates = Rates(keeps_trends=False)
        self._totals = Pace(ROUND_MS)
        self._paces = {Part.ends: Pace(ENDS_MS), Part.lags: Pace(LAGS_MS)}
        self._pairs = Pairs(clock)
        self._left_out = {Part.ends: 0, Part.lags: 0}
        self._sample = Sample()  # the newest
        self._counts = HourCounts(clock)

    async def run(self) -> None:
        """Sample until the task is cancelled."""
        while True:
            begun_ms, round_ms = self._clock.monotonic_ms(), ROUND_MS
            try:
                await self.round()
                if not self._has_begun and not self.problem:
                    round_ms = 0  # the first ends and lags come one soon after the other
            except Exception:
                log.exception("a sample of a cluster")
            spent_ms = self._clock.monotonic_ms() - begun_ms
            await self._sleep(max(REST_MIN_MS, round_ms - spent_ms) / 1000)

    async def close(self) -> None:
        """End the connections."""
        if self._admin is not None:
            await self._admin.close()

    async def round(self) -> None:
        """Ask for what is due: the brokers' totals, and the ends of topics or the lags of groups."""
        begun_ms = self._clock.monotonic_ms()
        if not self._totals.is_due(begun_ms):
            return
        part = next((part for part, pace in self._paces.items() if pace.is_due(begun_ms)), None)
        try:
            sampler = await self._open()
            by_topic = self._by_topic() if part is Part.lags else ()
            sample = await sampler.sample([] if part is None else [part], by_topic)
        except PymqError as error:
            if not self._is_refused([error]):
                self.problem, self.advice = f"the cluster does not answer: {error}", "pymq doctor finds out why."
            return
        if self._is_refused(sampler.refusals.values()):
            return
        self.problem = self.advice = ""
        self._note_times(sampler, part, begun_ms)
        self._sample = sample
        self._rates.add(sample, [] if part is None else [part])
        await self._record(sample, part)

    def watch(self, group: str, topic: str) -> None:
        """Note that someone looks at a group and one of its topics: its lags by topic are kept for a while."""
        self._pairs.watch(group, topic)

    async def counted(self, subject: Subject) -> Means:
        """Return what brokers counted themselves in the hour before someone first asked; empty while unknown."""
        return {} if self._admin is None else await self._counts.ask(self._admin, self._sample, subject)

    def _by_topic(self) -> list[str]:
        """Return the groups whose lags are wanted by topic."""
        return self._pairs.groups({name: row["lag"] for name, row in self.groups.items()})

    async def _open(self) -> Sampler:
        """Return the sampler. Raises UnreachableError when name servers are named by a server that does not answer."""
        if self._sampler is None:
            if self._admin is None:
                self._admin = self._make_admin()
            await self._admin.__aenter__()
            self._sampler = Sampler(self._admin, self._clock, timed_every_ms=TIMED_MS, counts_names=False)
        return self._sampler

    def _is_refused(self, errors: Iterable[PymqError]) -> bool:
        """Return whether the cluster does not let the console see it. Then stop for a while."""
        refusals = [error for error in errors if isinstance(error, RefusedError) and proof_of(error) is not None]
        if not refusals:
            return False
        error = refusals[0]
        self.problem = f"the cluster refuses the console's own requests: {error}"
        self.advice = (
            "Grant Get on Cluster:*, Topic:* and Group:* to the console's user."
            if self.has_credentials and proof_of(error) is not Proof.unproven
            else "Start the console with PYMQ_ACCESS_KEY and PYMQ_SECRET_KEY, or PYMQ_CREDENTIALS_FILE, of a user with "
            "Get on Cluster:*, Topic:* and Group:*."
        )
        self._totals.put_off(self._clock.monotonic_ms() + REFUSED_AGAIN_MS)
        return True

    def _note_times(self, sampler: Sampler, part: Part | None, begun_ms: int) -> None:
        ended_ms = self._clock.monotonic_ms()
        self.request_rounds += 1
        if part is None:
            self._totals.note(begun_ms, ended_ms)
            return
        self.took_ms[part] = ended_ms - begun_ms
        self._paces[part].note(begun_ms, ended_ms, rounds=sampler.rounds(part))
        if self._has_begun:
            self._totals.put_off(begun_ms + self._totals.interval_ms)

    @property
    def _has_begun(self) -> bool:
        """Whether each part was asked for."""
        return all(pace.has_begun for pace in self._paces.values())

    def ends(self) -> tuple[int, dict[str, Mapping[str, TopicEnds]]] | None:
        """Return the newest ends of topics by broker, and when the oldest came (monotonic ms); None while unknown."""
        return None if self._sampler is None else self._sampler.ends()

    def lags(self) -> tuple[int, Rows[GroupLag]] | None:
        """Return the newest lags of groups without system groups, likewise."""
        return None if self._sampler is None else self._sampler.lags()

    # -- into rings ----------------------------------------------------------------------------------------------

    async def _record(self, sample: Sample, part: Part | None) -> None:
        self.system_topics = sample.system_topics
        self._record_brokers(sample.brokers)
        if part is Part.ends:
            await self._record_topics()
        elif part is Part.lags:
            self._record_groups(sample)
            await self._record_readers()
            self.rings.forget_old(point_at(self._clock.monotonic_ms()))
        self.left_out = sum(self._left_out.values())

    def _record_brokers(self, found: list[BrokerSample]) -> None:
        joined = self._joined(self._totals)
        rows = self._rates.brokers()
        for one, row in zip(found, rows, strict=True):
            if not one.error:
                subject = Subject(Kind.broker, one.view.address)
                for measure, key in _OF_BROKERS.items():
                    self._put(subject, measure, one.at_ms, row[key], joined)
        newest_ms = max((one.at_ms for one in found), default=0)
        got = [row["in"] for row in rows if row["role"] == "master"], [row["out"] for row in rows]
        for measure, rates in zip((Measure.in_rate, Measure.out_rate), got, strict=True):
            if rates and None not in rates:  # the sum of some is not the sum
                self._put(CLUSTER, measure, newest_ms, sum(rates), joined)
        send_ms = [time for one in found if (time := _send_ms(one)) is not None]
        if send_ms:
            self._put(CLUSTER, Measure.send_ms, newest_ms, max(send_ms), joined)

    async def _record_topics(self) -> None:
        self.topics = self._rates.topic_figures()
        self._note_newest(Part.ends, (one.at_ms for one in self.topics.values()))
        busiest_first = sorted(self.topics.items(), key=lambda item: -(item[1].per_second or 0))
        self._left_out[Part.ends] = await self._put_topics(Measure.in_rate, self._paces[Part.ends], busiest_first)

    async def _record_readers(self) -> None:
        await self._put_topics(Measure.out_rate, self._paces[Part.lags], list(self._rates.reader_figures().items()))

    async def _put_topics(self, measure: Measure, pace: Pace, figures: Sequence[tuple[str, Figures]]) -> int:
        """Put the rates of topics, and let pages run now and then. Return the number of those without room."""
        joined, left_out = self._joined(pace), 0
        for at in range(0, len(figures), PUT_AT_ONCE):
            for name, one in figures[at : at + PUT_AT_ONCE]:
                left_out += not self._put(Subject(Kind.topic, name), measure, one.at_ms, one.per_second, joined)
            await asyncio.sleep(0)
        return left_out

    def _record_groups(self, sample: Sample) -> None:
        at_ms = _oldest((name, one.at_ms) for (name, _), one in sample.groups.items())
        self.groups = {row["name"]: row | {"at_ms": at_ms[row["name"]]} for row in self._rates.groups()}
        self._note_newest(Part.lags, at_ms.values())
        joined = self._joined(self._paces[Part.lags])
        self._record_pairs(sample, at_ms, joined)
        left_out = 0
        for row in sorted(self.groups.values(), key=lambda row: -(row["lag"] or 0)):
            subject = Subject(Kind.group, row["name"])
            has_room = self._put(subject, Measure.lag, at_ms[row["name"]], row["lag"], joined)
            self._put(subject, Measure.out_rate, at_ms[row["name"]], row["out"], joined)
            left_out += not has_room
        self._left_out[Part.lags] = left_out
        known = [row["lag"] for row in self.groups.values() if row["lag"] is not None]
        if at_ms:
            self._put(CLUSTER, Measure.lag, min(at_ms.values()), sum(known), joined)

    def _record_pairs(self, sample: Sample, at_ms: Mapping[str, int], joined: int) -> None:
        """Keep the lags by topic that count, of the groups that were asked for. A broker that is away leaves gaps."""
        assert self._admin is not None
        if self._admin.unreached or any(one.error for one in sample.brokers if one.view.is_master):
            return
        rows: dict[str, list[GroupLag]] = {}
        for (group, _), one in sample.groups.items():
            rows.setdefault(group, []).append(one.row)
        lags = {(group, topic): lag for group, parts in rows.items() for topic, lag in sum_by_topic(parts).items()}
        known = {(one.name, one.topic) for one in self.rings if one.kind is Kind.pair}
        for group, topic in self._pairs.chosen(lags, known):
            self._put(Subject(Kind.pair, group, topic), Measure.lag, at_ms[group], lags[group, topic], joined)

    def _note_newest(self, part: Part, times_ms: Iterable[int]) -> None:
        newest_ms = max(times_ms, default=None)
        if newest_ms is not None:
            self.at_ms[part] = newest_ms

    def _put(self, subject: Subject, measure: Measure, at_ms: int, value: float | None, joined: int) -> bool:
        """Put a figure of that time. An unknown one leaves the time to the next one. Return False without room."""
        if value is None:
            return True
        return self.rings.put(subject, measure, point_at(at_ms), value, joined_max=joined)

    @staticmethod
    def _joined(pace: Pace) -> int:
        return max(2, ceil(pace.interval_ms * JOINED_INTERVALS / POINT_MS))


def _oldest(times: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the least time by name: a sum is as old as its oldest part."""
    found: dict[str, int] = {}
    for name, at_ms in times:
        known = found.get(name)
        found[name] = at_ms if known is None else min(known, at_ms)
    return found


def _send_ms(one: BrokerSample) -> float | None:
    """Return within how many milliseconds a master did 99 % of its sends. PyMQ's brokers do not report it."""
    runtime = one.view.runtime
    if not one.view.is_master or "pymqVersion" in runtime:
        return None
    try:
        return float(runtime[_SEND_TIME])
    except (KeyError, ValueError):
        return None
