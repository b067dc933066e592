"""The operator: makes topics and groups, hands the group over, fails it over, restarts what is dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pymq.errors import PymqError
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.clients import QUEUE_COUNT, TOPIC, ClientNode
from tests.simulation.remoting import run
from tests.simulation.timeline import SECOND

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster


class Operator(ClientNode):
    """One job at a time."""

    def __init__(self, name: str, host: str, *, cluster: Cluster, **common: Any) -> None:
        super().__init__(name, host, **common)
        self._cluster = cluster
        self._is_busy = False
        self.is_set_up = False

    def set_up(self) -> None:
        run(self._set_up())

    async def _set_up(self) -> None:
        address = self._cluster.brokers[0].address
        while not self.is_set_up:
            try:
                await self._make_topic(address, TOPIC, QUEUE_COUNT)
                for consumer in self._cluster.consumers:
                    await self._make_group(address, consumer.group)
            except PymqError:
                await self.sleep(SECOND)
            else:
                self.is_set_up = True

    async def _make_topic(self, address: str, topic: str, queue_count: int) -> None:
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queue_count),
            "writeQueueNums": str(queue_count), "perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false",
        }  # fmt: skip
        await self.client.invoke_ok(address, Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields, version=479))

    async def _make_group(self, address: str, group: str) -> None:
        body = msgspec.json.encode(SubscriptionGroupConfig(group_name=group))
        await self.client.invoke_ok(
            address, Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body, version=479)
        )

    def mend(self) -> None:
        return None

    def hand_over(self) -> bool:
        return False

    def fail_over(self) -> bool:
        return False

    def force(self) -> bool:
        return False

    def change_topics(self) -> bool:
        return False
