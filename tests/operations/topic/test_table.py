"""All topics as rows, and the ends of all or of some."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pymq.client import MessageQueue
from pymq.client.admin import BrokerTarget
from pymq.client.admin.asking import Asking
from pymq.client.admin.rows import Rows
from pymq.errors import Refusal, RefusedError, UnreachableError
from pymq.model.tables import TopicConfig
from pymq.operations.topic.table import Ends, TopicTable, ends_of, ends_of_all, topic_table
from pymq.wire.bodies_admin import TopicOffset
from pymq.wire.bodies_rows import TopicEnds

A, B = BrokerTarget("a", "east", "a:1"), BrokerTarget("b", "east", "b:1")
ROWS = Rows({"orders": TopicEnds(stored=3, last_ms=7), "bills": TopicEnds()})


class TwoBrokers:
    """Two masters: the first gives all rows, the second takes a request for each topic."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.errors: dict[str, Exception] = {}
        asking = Asking(is_partial=True)
        self.cluster = SimpleNamespace(masters=self._masters, asking=asking)
        self.topics = SimpleNamespace(
            configs=self._configs, system_names=self._system_names, ends_at=self._ends_at, stats=self._stats
        )
        self.rows = SimpleNamespace(ends_of=self._ends_of)

    async def _masters(self) -> list[BrokerTarget]:
        return [A, B]

    async def _system_names(self) -> set[str]:
        return {"OWN"}

    async def _configs(self, address: str) -> dict[str, TopicConfig]:
        queues = 8 if address == A.address else 4
        names = ("orders", "bills", "OWN") if address == A.address else ("orders", "%DLQ%g")
        return {name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=8) for name in names}

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if what in self.errors:
            raise self.errors[what]

    async def _ends_of(self, address: str, names: list[str]) -> Rows[TopicEnds] | None:
        self._note(f"{', '.join(names)} of {address} at once")
        return ROWS if address == A.address else None

    async def no_rows(self, address: str, names: list[str]) -> None:
        return None

    async def _ends_at(self, address: str) -> Rows[TopicEnds]:
        self._note(f"all of {address}")
        return ROWS

    async def _stats(self, topic: str, targets: list[BrokerTarget]) -> dict[MessageQueue, TopicOffset]:
        self._note(f"{topic} of {targets[0].address}")
        if topic == "gone":
            return {}
        return {MessageQueue(topic, "b", 0): TopicOffset(min_offset=1, max_offset=5, last_update_timestamp=9)}


def run(admin: TwoBrokers, question: Any, *parts: Any) -> Any:
    return asyncio.run(question(admin, *parts))


def test_rows_have_settings_kinds_and_sums() -> None:
    admin = TwoBrokers()
    table: TopicTable = run(admin, topic_table)
    assert table.rows == [
        {"topic": "%DLQ%g", "kind": "dead-letters"},
        {"topic": "OWN", "kind": "system"},
        {"topic": "bills", "kind": "application"},
        {"topic": "orders", "kind": "application"},
    ]
    assert not admin.asked, "settings alone"
    both = Ends({"a": ROWS, "b": {"orders": TopicEnds(stored=4, last_ms=9)}})
    bills, orders = table.whole(table.rows[2:], both)
    assert orders["stored"] == 7 and orders["last_ms"] == 9
    assert orders["read_queues"] is None and orders["write_queues"] == 8 and orders["brokers"] == ["a", "b"]
    assert bills["stored"] == 0 and bills["last_ms"] is None
    assert table.with_ends(table.rows[3:], both) == [table.rows[3] | {"stored": 7, "last_ms": 9}]


def test_a_sum_of_some_brokers_is_not_shown_as_the_sum() -> None:
    table: TopicTable = run(TwoBrokers(), topic_table)
    (orders,) = table.with_ends(table.rows[3:], Ends({"a": ROWS}))
    assert orders["stored"] is None and orders["last_ms"] is None


def test_brokers_that_give_rows_are_not_asked_for_single_topics() -> None:
    admin = TwoBrokers()
    table = run(admin, topic_table)
    found: Ends = run(admin, ends_of, table, ["bills", "orders"])
    assert admin.asked == ["bills, orders of a:1 at once", "orders of b:1 at once", "orders of b:1"]
    assert found.by_broker == {"a": ROWS, "b": {"orders": TopicEnds(queues=1, end=5, stored=4, last_ms=9)}}
    admin.asked.clear()
    run(admin, ends_of_all)
    assert admin.asked == ["all of a:1", "all of b:1"]


def test_a_topic_that_may_not_be_seen_or_is_gone_is_unknown_alone() -> None:
    admin = TwoBrokers()
    table = TopicTable([(A, {name: TopicConfig(topic_name=name) for name in ("orders", "secret", "gone")})], ())
    admin.errors["secret of a:1"] = RefusedError(16, "no", "a:1")
    admin.rows.ends_of = admin.no_rows
    found: Ends = run(admin, ends_of, table, ["gone", "orders", "secret"])
    assert list(found.by_broker["a"]) == ["orders"] and not found.without


def test_brokers_that_refuse_or_are_away_are_told_apart() -> None:
    admin = TwoBrokers()
    admin.errors = {"all of a:1": RefusedError(16, "no", "a:1"), "all of b:1": UnreachableError("away")}
    found: Ends = run(admin, ends_of_all)
    assert not found.by_broker and list(found.without) == ["a"]
    assert admin.cluster.asking.unreached == {"b": "away"}


def test_a_broker_that_refuses_the_ends_of_some_topics_is_named() -> None:
    admin = TwoBrokers()
    table: TopicTable = run(admin, topic_table)
    admin.errors = {"bills, orders of a:1 at once": RefusedError(16, "no", "a:1")}
    found: Ends = run(admin, ends_of, table, ["bills", "orders"])
    assert list(found.by_broker) == ["b"] and list(found.without) == ["a"]


def test_a_broker_whose_topics_can_not_be_read_is_named_and_hides_no_other() -> None:
    admin = TwoBrokers()
    whole = admin.topics.configs

    async def configs(address: str) -> dict[str, TopicConfig]:
        if address == B.address:
            raise Refusal(1, "the body is not usable")
        return await whole(address)

    admin.topics.configs = configs
    table: TopicTable = run(admin, topic_table)
    assert [row["topic"] for row in table.rows] == ["OWN", "bills", "orders"]
    assert admin.cluster.asking.unreached == {"b": "what b:1 answers can't be read: the body is not usable"}
