"""Lists of lite topics over several pages and brokers, also from a broker that lies."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.client.admin.asking import BrokerTarget
from pymq.errors import UsageError
from pymq.model.route import QueueData, TopicRoute
from pymq.operations.lite import lite_topics
from pymq.wire.bodies_lites import ParentTopicLites

PAGE = 1000


class FakeAdmin:
    """Brokers with so many lite topics. One that ``lies`` names a page of them wherever it is asked."""

    def __init__(self, counts: dict[str, int], *, lies: bool = False, names: bool = True) -> None:
        self.asked: list[tuple[str, int]] = []
        self._counts, self._lies, self._names = counts, lies, names
        self.topics = SimpleNamespace(route=self._route)
        self.cluster = SimpleNamespace(masters=self._masters)
        self.lites = SimpleNamespace(parent=self._parent)

    async def _route(self, topic: str) -> TopicRoute:
        queues = [QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6) for name in self._counts]
        return TopicRoute(queue_datas=queues, broker_datas=[])

    async def _masters(self) -> list[BrokerTarget]:
        return [BrokerTarget(name, "east", name) for name in (*self._counts, "another")]

    async def _parent(self, address: str, topic: str, start: int, count: int) -> ParentTopicLites:
        self.asked.append((address, start))
        total = self._counts[address]
        some = range(count) if self._lies else range(start, min(start + count, total))
        named: Any = [(f"l{number}", 1) for number in some] if self._names else None
        return ParentTopicLites(topic=topic, ttl=-1, lmq_num=total, lite_topic_count=total, pymq_lite_topics=named)


def listed(admin: FakeAdmin, prefix: str = "") -> list[str]:
    async def read() -> list[str]:
        return [row["lite_topic"] async for row in lite_topics(admin, "P", prefix)]  # type: ignore[arg-type]

    return asyncio.run(read())


def test_all_pages_of_all_brokers_of_the_parent_are_read() -> None:
    admin = FakeAdmin({"a": 2 * PAGE + 1, "b": PAGE})
    assert len(listed(admin)) == 3 * PAGE + 1
    assert admin.asked == [("a", 0), ("a", PAGE), ("a", 2 * PAGE), ("b", 0)]
    assert listed(admin, "l2000") == ["l2000"]


def test_a_broker_that_names_more_than_it_has_is_not_asked_for_ever() -> None:
    admin = FakeAdmin({"a": 1500}, lies=True)
    assert len(listed(admin)) == 2 * PAGE


def test_a_broker_that_names_none_is_refused_with_the_next_step() -> None:
    with pytest.raises(UsageError, match="pymq lite describe"):
        listed(FakeAdmin({"a": 3}, names=False))
    assert listed(FakeAdmin({"a": 0}, names=False)) == []
