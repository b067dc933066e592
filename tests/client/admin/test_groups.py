"""Members of a group that subscribe differently, as PyMQ's brokers report it, and as Apache's members do."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pymq.client.admin.asking import Asking, BrokerTarget
from pymq.client.admin.groups import MEMBERS_ASKED_MAX, GroupAdmin
from pymq.errors import RefusedError
from pymq.wire.bodies_admin import Connection, ConsumerConnections, ConsumerRunningInfo
from pymq.wire.bodies_client import SubscriptionData

Differences = dict[str, dict[str, int]]


class Groups(GroupAdmin):
    """GroupAdmin for brokers and members that answer from tables."""

    def __init__(
        self, brokers: dict[str, Differences | None], members: dict[str, dict[str, str]] | None = None
    ) -> None:
        super().__init__(cast(Any, None), cast(Any, self), cast(Any, None))
        self.asking = Asking()
        self.brokers = brokers
        self.members = members or {}
        self.asked: list[str] = []

    async def masters(self) -> list[BrokerTarget]:
        return [BrokerTarget(name, "c", name) for name in self.brokers]

    async def connections(self, address: str, group: str) -> ConsumerConnections | None:
        connected = [Connection(client_id=one, client_addr="", language="JAVA", version=0) for one in self.members]
        return ConsumerConnections(connection_set=connected, pymq_differences=self.brokers[address])

    async def running_info(
        self, address: str, group: str, client_id: str, *, with_stacks: bool = False
    ) -> ConsumerRunningInfo:
        self.asked.append(client_id)
        topics = self.members[client_id]
        if not topics:
            raise RefusedError(1, "it is gone")
        wanted = [SubscriptionData(topic=topic, sub_string=text) for topic, text in topics.items()]
        return ConsumerRunningInfo(subscription_set=wanted)

    def found(self) -> Differences:
        return asyncio.run(self.differing_subscriptions("g"))


def test_pymqs_brokers_report_it() -> None:
    members = {"a": {"T": "A"}, "b": {"T": "B"}}
    one, two = {"T": {"A": 1, "B": 1}}, {"T": {"A": 2, "B": 1}, "U": {"*": 2, "-": 1}}
    assert Groups({"x": one, "y": two, "z": {}}, members).found() == two
    alike = Groups({"x": {}}, members)
    assert alike.found() == {} and not alike.asked


def test_members_are_asked_on_other_brokers() -> None:
    members = {
        "a": {"T": "B||A", "U": "*", "%RETRY%g": "*"},
        "b": {"T": "A || B", "U": "*"},
        "c": {"T": "A", "%RETRY%g": "*"},
        "gone": {},
    }
    assert Groups({"x": None}, members).found() == {"T": {"A || B": 2, "A": 1}, "U": {"*": 2, "-": 1}}
    del members["c"]
    assert Groups({"x": None}, members).found() == {}


def test_a_bounded_number_of_members_is_asked() -> None:
    groups = Groups({"x": None}, {f"{number}": {"T": "*"} for number in range(1000)})
    assert groups.found() == {} and len(groups.asked) == MEMBERS_ASKED_MAX
    single = Groups({"x": None}, {"a": {"T": "*"}})
    assert single.found() == {} and not single.asked
