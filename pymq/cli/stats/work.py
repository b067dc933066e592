"""The work of ``pymq stats``: RocketMQ's statistics (request 315) and day totals (28), summed over brokers.

mqadmin's ``statsAll`` and ``clusterList -m`` show the same figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from pymq.client.admin import Admin, BrokerTarget
from pymq.errors import NotFoundError
from pymq.model.message import MessageQueue
from pymq.model.names import is_system_group, is_user_topic
from pymq.wire.bodies_admin import ConsumeOffset, StatsData

AT_ONCE = 16  # topics; each takes a request for each of its groups at once
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
    """Returns the sums of a statistic. A longer window of RocketMQ is 0 until its second sample: the shorter counts."""
    if data is None:
        return Windows()
    minute = data.stats_minute.sum
    hour = max(minute, data.stats_hour.sum)
    return Windows(data.stats_minute.tps, minute, hour, max(hour, data.stats_day.sum))


async def topic_statistics(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a record per topic for what was sent, then two per group: what it got, and what it gave back, if any.

    Without names: all topics of applications. Raises NotFoundError for a topic that doesn't exist.
    """
    masters = await admin.cluster.masters()
    for name in names:
        await admin.topics.route(name)
    chosen = list(names) or [name for name in await admin.topics.names() if is_user_topic(name)]
    if not names:
        system = await admin.topics.system_names()
        chosen = [name for name in chosen if name not in system]
    groups = await _readers(admin, masters)
    found: list[dict[str, Any]] = []

    async def one(topic: str) -> list[dict[str, Any]]:
        return await _topic(admin, masters, topic, groups.get(topic, {}))

    for records in await _for_each(chosen, one):
        found += records
    return found


async def _readers(admin: Admin, masters: Sequence[BrokerTarget]) -> dict[str, dict[str, int]]:
    """Returns topic -> group -> lag."""
    found: dict[str, dict[str, int]] = {}
    answers = await admin.cluster.asking.each(masters, admin.brokers.group_offsets)
    for _, table in answers:
        for group, offsets in table.items():
            if not is_system_group(group):
                _add_lags(found, group, offsets)
    return found


def _add_lags(found: dict[str, dict[str, int]], group: str, offsets: dict[MessageQueue, ConsumeOffset]) -> None:
    for queue, at in offsets.items():
        lags = found.setdefault(queue.topic, {})
        lags[group] = lags.get(group, 0) + at.lag


async def _topic(
    admin: Admin, masters: Sequence[BrokerTarget], topic: str, groups: dict[str, int]
) -> list[dict[str, Any]]:
    sent = await _sum(admin, masters, "TOPIC_PUT_NUMS", topic)
    records = [{"topic": topic, "group": None, "direction": IN, **sent.as_record(), "lag": None}]
    for group, lag in sorted(groups.items()):
        got = await _sum(admin, masters, "GROUP_GET_NUMS", f"{topic}@{group}")
        records.append({"topic": topic, "group": group, "direction": OUT, **got.as_record(), "lag": lag})
        back = await _sum(admin, masters, "SNDBCK_PUT_NUMS", f"{topic}@{group}")
        if back.day:
            records.append({"topic": topic, "group": group, "direction": BACK, **back.as_record(), "lag": None})
    return records


async def _sum(admin: Admin, masters: Sequence[BrokerTarget], name: str, key: str) -> Windows:
    answers = await admin.cluster.asking.each(masters, lambda address: admin.brokers.stats(address, name, key))
    return sum((windows(data) for _, data in answers), Windows())


async def broker_statistics(admin: Admin, name: str | None) -> list[dict[str, Any]]:
    """Returns two records per master: what it took in and gave out, also today and yesterday by its own midnight.

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
    """Returns what went through today and yesterday, by the totals at the last two midnights."""
    texts = (table.get(f"msg{word}Total{when}", "") for when in ("TodayNow", "TodayMorning", "YesterdayMorning"))
    now, today, yesterday = (int(text) if text.isdigit() else None for text in texts)
    return (
        None if now is None or today is None else now - today,
        None if today is None or yesterday is None else today - yesterday,
    )


async def _for_each(items: Sequence[str], work: Callable[[str], Awaitable[T]]) -> list[T]:
    found: list[T] = []
    for at in range(0, len(items), AT_ONCE):
        found += await asyncio.gather(*map(work, items[at : at + AT_ONCE]))
    return found
