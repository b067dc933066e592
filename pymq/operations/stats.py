"""RocketMQ's statistics (request 315) and day totals (28), summed over brokers.

mqadmin's ``statsAll`` and ``clusterList -m`` show the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.asking import for_each
from pymq.errors import NotFoundError
from pymq.model.names import is_system_group, is_user_topic
from pymq.wire.bodies_admin import StatsData

IN, OUT, BACK = "in", "out", "back"

T = TypeVar("T")


class Windows(NamedTuple):
    """What went through in the last minute, hour and day, and a second of that minute."""

    per_second: float = 0.0
    minute: int = 0
    hour: int = 0
    day: int = 0

    def __add__(self, other: object) -> Windows:
        assert isinstance(other, Windows)
        return Windows(
            self.per_second + other.per_second,
            self.minute + other.minute,
            self.hour + other.hour,
            self.day + other.day,
        )

    def as_record(self) -> dict[str, Any]:
        return {"per_second": round(self.per_second, 2), "minute": self.minute, "hour": self.hour, "day": self.day}


def windows(data: StatsData | None) -> Windows:
    """Return the sums of a statistic. A longer window of RocketMQ is 0 until its second sample: the shorter counts."""
    if data is None:
        return Windows()
    minute = data.stats_minute.sum
    hour = max(minute, data.stats_hour.sum)
    return Windows(data.stats_minute.tps, minute, hour, max(hour, data.stats_day.sum))


async def topic_statistics(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a record per topic for what was sent, then two per group: what it got, and what it gave back, if any.

    Without names: all topics of applications. Raises NotFoundError for a topic that doesn't exist.
    """
    masters = await admin.cluster.masters()
    for name in names:
        await admin.topics.route(name)
    chosen = list(names) or [name for name in await admin.topics.names() if is_user_topic(name)]
    if not names:
        system = await admin.topics.system_names()
        chosen = [name for name in chosen if name not in system]
    readers = await _readers(admin, masters)
    groups = {topic: sorted(readers.get(topic, {}).items()) for topic in chosen}
    pairs = [f"{topic}@{group}" for topic in chosen for group, _ in groups[topic]]
    sent = await _sums(admin, masters, "TOPIC_PUT_NUMS", chosen)
    got = await _sums(admin, masters, "GROUP_GET_NUMS", pairs)
    back = await _sums(admin, masters, "SNDBCK_PUT_NUMS", pairs)
    records: list[dict[str, Any]] = []
    for topic in chosen:
        records.append({"topic": topic, "group": None, "direction": IN, **sent[topic].as_record(), "lag": None})
        for group, lag in groups[topic]:
            key, names_of = f"{topic}@{group}", {"topic": topic, "group": group}
            records.append({**names_of, "direction": OUT, **got[key].as_record(), "lag": lag})
            if back[key].day:
                records.append({**names_of, "direction": BACK, **back[key].as_record(), "lag": None})
    return records


async def _readers(admin: Admin, masters: Sequence[BrokerTarget]) -> dict[str, dict[str, int]]:
    """Return topic -> group -> lag."""
    found: dict[str, dict[str, int]] = {}
    for _, groups in await admin.cluster.asking.each(masters, admin.groups.all_topic_lags_at):
        for group, lags in groups.items():
            if is_system_group(group):
                continue
            for topic, lag in lags.items():
                of_topic = found.setdefault(topic, {})
                of_topic[group] = of_topic.get(group, 0) + lag.lag
    return found


async def _sums(admin: Admin, masters: Sequence[BrokerTarget], name: str, keys: Sequence[str]) -> dict[str, Windows]:
    """Return the sums of a statistic over brokers; PyMQ's send all keys at once, others are asked for each."""

    async def ask(address: str) -> dict[str, StatsData]:
        found = await admin.brokers.all_stats(address, name)
        if found is None:
            answers = await for_each(keys, lambda key: admin.brokers.stats(address, name, key))
            found = {key: data for key, data in zip(keys, answers, strict=True) if data is not None}
        return found

    answers = await admin.cluster.asking.each(masters, ask) if keys else []
    return {key: sum((windows(found.get(key)) for _, found in answers), Windows()) for key in keys}


async def broker_statistics(admin: Admin, name: str | None) -> list[dict[str, Any]]:
    """Return two records per master: what it took in and gave out, also today and yesterday by its own midnight.

    Raises NotFoundError for a name that no master has.
    """
    masters = await admin.cluster.masters()
    chosen = [target for target in masters if name in (None, target.name)]
    if not chosen:
        names = ", ".join(target.name for target in masters) or "none"
        raise NotFoundError(f"no broker {name!r} with a master: there are {names}")
    clusters = {target.address: target.cluster for target in chosen}

    async def ask(address: str) -> tuple[dict[str, str], StatsData | None, StatsData | None]:
        table = await admin.brokers.runtime_info(address)
        put = await admin.brokers.stats(address, "BROKER_PUT_NUMS", clusters[address])
        return table, put, await admin.brokers.stats(address, "BROKER_GET_NUMS", clusters[address])

    records = []
    for target, (table, put, got) in await admin.cluster.asking.each(chosen, ask):
        for direction, word, data in ((IN, "Put", put), (OUT, "Get", got)):
            today, yesterday = _days(table, word)
            records.append(
                {
                    "cluster": target.cluster,
                    "broker": target.name,
                    "direction": direction,
                    **windows(data).as_record(),
                    "today": today,
                    "yesterday": yesterday,
                }
            )
    return records


def _days(table: dict[str, str], word: str) -> tuple[int | None, int | None]:
    """Return what went through today and yesterday, by the totals at the last two midnights."""
    texts = (table.get(f"msg{word}Total{when}", "") for when in ("TodayNow", "TodayMorning", "YesterdayMorning"))
    now, today, yesterday = (int(text) if text.isdigit() else None for text in texts)
    return (
        None if now is None or today is None else now - today,
        None if today is None or yesterday is None else today - yesterday,
    )
