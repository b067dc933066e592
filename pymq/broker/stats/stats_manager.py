"""StatsManager: plain counters of what went in and out, and the rates that RocketMQ's tools ask for.

The data path only adds to the integers of a :class:`Meter`. Windows are computed from samples that :meth:`tick` takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from pymq.broker.stats.filter_stats import FilterFigures
from pymq.clock import Clock
from pymq.config import BrokerConfig

Key = TypeVar("Key", str, tuple[str, str])

MINUTE_MS = 60_000
_SAMPLE_PERIOD_MS = 1000
_MINUTE_STEP_MS, _MINUTE_SAMPLES = 10_000, 7
_HOUR_STEP_MS, _HOUR_SAMPLES = 600_000, 7
_DAY_STEP_MS, _DAY_SAMPLES = 3_600_000, 25
METERS_A_TICK = 10_000  # sampled at a time, in some 10 ms; more meters take several ticks
# Pairs of topic and group with a meter, for each of pulls, give-backs and dead letters: 30 MB, and 10 ms for their sum.
PAIR_METERS_MAX = 100_000
_RATE_WINDOWS_MS = (10_000, 60_000, 600_000)


class Sample(NamedTuple):
    """A meter's values at one time (monotonic ms)."""

    at_ms: int
    messages: int
    size_bytes: int
    calls: int


class RateWindow(NamedTuple):
    """What happened in a window: the sum, its rate per second, and the mean per call."""

    total: int = 0
    per_second: float = 0.0
    per_call: float = 0.0


class Meter:
    """Messages, bytes and calls since start. The data path adds to the three attributes directly."""

    __slots__ = ("_day", "_hour", "_minute", "calls", "count", "size_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self.calls = 0
        self._minute: deque[Sample] = deque(maxlen=_MINUTE_SAMPLES)
        self._hour: deque[Sample] = deque(maxlen=_HOUR_SAMPLES)
        self._day: deque[Sample] = deque(maxlen=_DAY_SAMPLES)

    def add(self, count: int, size_bytes: int) -> None:
        """Count one call that moved ``count`` messages of ``size_bytes`` bytes in all."""
        self.count += count
        self.size_bytes += size_bytes
        self.calls += 1

    def sample(self, at_ms: int) -> None:
        """Add the present values to each window whose step is over."""
        windows = ((self._minute, _MINUTE_STEP_MS), (self._hour, _HOUR_STEP_MS), (self._day, _DAY_STEP_MS))
        for window, step_ms in windows:
            if not window or at_ms - window[-1].at_ms >= step_ms:
                window.append(Sample(at_ms, self.count, self.size_bytes, self.calls))

    def windows(self, at_ms: int, *, of_bytes: bool) -> tuple[RateWindow, RateWindow, RateWindow]:
        """Return the last minute, hour and day, up to now; of bytes or of messages."""
        now = Sample(at_ms, self.count, self.size_bytes, self.calls)
        minute, hour, day = (_window(samples, now, of_bytes) for samples in (self._minute, self._hour, self._day))
        return minute, hour, day


class Totals(NamedTuple):
    """The whole broker at one time. ``missed`` counts pulls that found nothing."""

    at_ms: int
    put: int
    put_bytes: int
    got: int
    got_calls: int
    missed: int


class StatsManager:
    """All meters of a broker, made on first use, and today's and yesterday's totals."""

    def __init__(self, *, clock: Clock, config: BrokerConfig) -> None:
        self._clock = clock
        self._config = config
        self.boot_ms = clock.now_ms()
        self._boot_monotonic_ms = clock.monotonic_ms()
        self.topic_put: dict[str, Meter] = {}
        self.group_get: dict[tuple[str, str], Meter] = {}  # (topic, group)
        self.send_back: dict[tuple[str, str], Meter] = {}
        self.dead_letters: dict[tuple[str, str], Meter] = {}
        self.missed_pulls = 0
        self.filter_errors = 0  # messages that an expression could not be evaluated for
        self.filters = FilterFigures()
        self._retired_put = Meter()
        self._retired_get = Meter()
        self._broker_put = Meter()
        self._broker_get = Meter()
        for meter in (self._broker_put, self._broker_get):  # as in _made
            meter.sample(self._boot_monotonic_ms)
        self._totals: deque[Totals] = deque(maxlen=_RATE_WINDOWS_MS[-1] // _SAMPLE_PERIOD_MS + 1)
        self._minute = clock.now_ms() // MINUTE_MS
        self._today = self._local_date()
        self.put_today_morning = self.put_yesterday_morning = 0
        self.got_today_morning = self.got_yesterday_morning = 0
        self._unsampled: list[Meter] = []
        self._next_sample_ms = self._next_meters_ms = self._boot_monotonic_ms

    # -- counting ------------------------------------------------------------------------------------------------

    def put_meter(self, topic: str) -> Meter:
        """Return the meter of messages sent to a topic; callers may keep it until the topic is deleted."""
        return self.topic_put.get(topic) or self._made(self.topic_put, topic)

    def get_meter(self, topic: str, group: str) -> Meter:
        """Return the meter of messages that a group pulled from a topic."""
        return self.group_get.get((topic, group)) or self._made_pair(self.group_get, topic, group, self._retired_get)

    def message_put(self, topic: str, count: int, size_bytes: int) -> None:
        """Count a send of ``count`` messages."""
        self.put_meter(topic).add(count, size_bytes)

    def messages_got(self, group: str, topic: str, count: int, size_bytes: int) -> None:
        """Count a pull that was answered with ``count`` messages."""
        self.get_meter(topic, group).add(count, size_bytes)

    def message_sent_back(self, topic: str, group: str) -> None:
        """Count a message that a consumer gave back."""
        meter = self.send_back.get((topic, group)) or self._made_pair(self.send_back, topic, group, Meter())
        meter.add(1, 0)

    def message_dead(self, topic: str, group: str) -> None:
        """Count a message of ``topic`` that a group gave up: a dead letter."""
        meter = self.dead_letters.get((topic, group)) or self._made_pair(self.dead_letters, topic, group, Meter())
        meter.add(1, 0)

    def forget_topic(self, *topics: str) -> None:
        """Drop the meters of deleted topics; the broker's totals keep what they counted."""
        gone = frozenset(topics)
        _retire(self.topic_put, lambda key: key in gone, self._retired_put)
        _retire(self.group_get, lambda key: key[0] in gone, self._retired_get)
        for given_back in (self.send_back, self.dead_letters):
            _retire(given_back, lambda key: key[0] in gone, Meter())
        self.filters.forget(topics=gone)

    def forget_group(self, *groups: str) -> None:
        """Drop the meters of deleted groups."""
        gone = frozenset(groups)
        _retire(self.group_get, lambda key: key[1] in gone, self._retired_get)
        for given_back in (self.send_back, self.dead_letters):
            _retire(given_back, lambda key: key[1] in gone, Meter())
        self.filters.forget(groups=gone)

    # -- periodic ------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take samples once a second; call it at least that often."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_sample_ms:
            return
        self._next_sample_ms = now_ms + _SAMPLE_PERIOD_MS
        self._totals.append(self._totals_now())
        self._turn_of_day()
        if now_ms >= self._next_meters_ms and not self._unsampled:
            self._next_meters_ms = now_ms + _MINUTE_STEP_MS
            meters = [*self.topic_put.values(), *self.group_get.values(), *self.send_back.values()]
            self._unsampled = [*meters, self._broker_put, self._broker_get]
        for meter in self._unsampled[-METERS_A_TICK:]:
            meter.sample(now_ms)
        del self._unsampled[-METERS_A_TICK:]

    # -- questions -----------------------------------------------------------------------------------------------

    def view(self, name: str, key: str) -> tuple[RateWindow, RateWindow, RateWindow] | None:
        """Return minute, hour and day of a statistic by RocketMQ's name and key; None when there is none."""
        found = self._find(name, key)
        if found is None:
            return None
        if name.startswith("BROKER_"):
            self._totals_now()
        return found.windows(self._clock.monotonic_ms(), of_bytes=name.endswith("_SIZE"))

    def keys(self, name: str) -> list[str]:
        """Return the keys of a statistic by RocketMQ's name; empty when there is no such statistic."""
        match name:
            case "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE":
                return list(self.topic_put)
            case "GROUP_GET_NUMS" | "GROUP_GET_SIZE":
                return [f"{topic}@{group}" for topic, group in self.group_get]
            case "SNDBCK_PUT_NUMS":
                return [f"{topic}@{group}" for topic, group in self.send_back]
            case "BROKER_PUT_NUMS" | "BROKER_PUT_SIZE" | "BROKER_GET_NUMS" | "BROKER_GET_SIZE":
                return [self._config.broker_cluster_name]
        return []

    def put_per_second(self, topic: str) -> float:
        """Return messages a second sent to a topic, over the last minute."""
        meter = self.topic_put.get(topic)
        return 0.0 if meter is None else meter.windows(self._clock.monotonic_ms(), of_bytes=False)[0].per_second

    def got_per_second(self, topic: str, group: str) -> float:
        """Return messages a second that a group pulled from a topic, over the last minute."""
        meter = self.group_get.get((topic, group))
        return 0.0 if meter is None else meter.windows(self._clock.monotonic_ms(), of_bytes=False)[0].per_second

    def totals(self) -> Totals:
        """Return the broker's totals now."""
        return self._totals_now()

    def rates(self, value: Callable[[Totals], int], now: Totals) -> tuple[float, float, float]:
        """Return the rate per second of a member of the totals over 10 s, 1 min and 10 min (or since start).

        ``now``: what :meth:`totals` returned, which adds up the figures of all topics.
        """
        return (
            _rate(self._totals, now, value, 0),
            _rate(self._totals, now, value, 1),
            _rate(self._totals, now, value, 2),
        )

    def running_ms(self) -> int:
        """Return the time since start."""
        return self._clock.monotonic_ms() - self._boot_monotonic_ms

    def _made(self, table: dict[Key, Meter], key: Key) -> Meter:
        """Return a new meter. It starts with a sample of zero, so that its first second counts in every window."""
        meter = table[key] = Meter()
        meter.sample(self._clock.monotonic_ms())
        return meter

    def _made_pair(self, table: dict[tuple[str, str], Meter], topic: str, group: str, retired: Meter) -> Meter:
        """As :meth:`_made`. When there are too many, the pair that was made first begins again at its next message."""
        if len(table) >= PAIR_METERS_MAX:
            first = next(iter(table))
            _retire_one(table, first, retired)
        return self._made(table, (topic, group))

    def _find(self, name: str, key: str) -> Meter | None:
        topic, _, group = key.partition("@")
        cluster = self._config.broker_cluster_name
        match name:
            case "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE":
                return self.topic_put.get(key)
            case "GROUP_GET_NUMS" | "GROUP_GET_SIZE":
                return self.group_get.get((topic, group))
            case "SNDBCK_PUT_NUMS":
                return self.send_back.get((topic, group))
            case "BROKER_PUT_NUMS" | "BROKER_PUT_SIZE":
                return self._broker_put if key == cluster else None
            case "BROKER_GET_NUMS" | "BROKER_GET_SIZE":
                return self._broker_get if key == cluster else None
        return None

    def _totals_now(self) -> Totals:
        _sum(self.topic_put.values(), self._retired_put, self._broker_put)
        _sum(self.group_get.values(), self._retired_get, self._broker_get)
        put, got = self._broker_put, self._broker_get
        now_ms = self._clock.monotonic_ms()
        return Totals(now_ms, put.count, put.size_bytes, got.count, got.calls, self.missed_pulls)

    def _turn_of_day(self) -> None:
        # In every time zone a day begins with a minute: computing the date once a minute is enough.
        minute = self._clock.now_ms() // MINUTE_MS
        if minute == self._minute:
            return
        self._minute = minute
        today = self._local_date()
        if today == self._today:
            return
        self._today = today
        now = self._totals_now()
        self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, now.put
        self.got_yesterday_morning, self.got_today_morning = self.got_today_morning, now.got

    def _local_date(self) -> tuple[int, int, int]:
        local = self._clock.local_time()
        return local.year, local.month, local.day


def _retire(table: dict[Key, Meter], doomed: Callable[[Key], bool], into: Meter) -> None:
    for key in [key for key in table if doomed(key)]:
        _retire_one(table, key, into)


def _retire_one(table: dict[Key, Meter], key: Key, into: Meter) -> None:
    meter = table.pop(key)
    into.count += meter.count
    into.size_bytes += meter.size_bytes
    into.calls += meter.calls


def _sum(meters: Iterable[Meter], retired: Meter, into: Meter) -> None:
    count, size_bytes, calls = retired.count, retired.size_bytes, retired.calls
    for meter in meters:
        count += meter.count
        size_bytes += meter.size_bytes
        calls += meter.calls
    into.count, into.size_bytes, into.calls = count, size_bytes, calls


def _window(samples: deque[Sample], now: Sample, of_bytes: bool) -> RateWindow:
    if not samples:
        return RateWindow()
    first = samples[0]
    total = now.size_bytes - first.size_bytes if of_bytes else now.messages - first.messages
    calls = now.calls - first.calls
    elapsed_ms = now.at_ms - first.at_ms
    return RateWindow(total, total * 1000 / elapsed_ms if elapsed_ms else 0.0, total / calls if calls else 0.0)


def _rate(samples: deque[Totals], now: Totals, value: Callable[[Totals], int], window: int) -> float:
    start_ms = now.at_ms - _RATE_WINDOWS_MS[window]
    first = next((sample for sample in samples if sample.at_ms >= start_ms), None)
    if first is None or first.at_ms >= now.at_ms:
        return 0.0
    return (value(now) - value(first)) * 1000 / (now.at_ms - first.at_ms)
