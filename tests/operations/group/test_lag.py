"""The lag of all groups: which waiting times are asked for one by one, when brokers did not say them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.client.admin.asking import Asking, BrokerTarget
from pymq.clock import ManualClock
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.group.lag import TIMES_ASKED_MAX, lag_of_all
from pymq.wire.bodies_admin import TopicLag

TOPICS = TIMES_ASKED_MAX + 3
TARGET = BrokerTarget("broker-a", "east", "10.0.0.1:10911")


class FakeAdmin:
    """One broker with a group that is behind by n messages in the topic t<n>, without times."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.only_cheap: list[bool] = []
        self.groups = SimpleNamespace(
            all_configs=self._configs, all_topic_lags_at=self._lags, waiting_since=self._since
        )
        self.cluster = SimpleNamespace(masters=self._masters, asking=Asking(is_partial=False))

    async def _configs(self) -> dict[str, Any]:
        return {"g": {"broker-a": SubscriptionGroupConfig(group_name="g")}}

    async def _masters(self) -> list[BrokerTarget]:
        return [TARGET]

    async def _lags(self, address: str, *, with_times: bool, only_cheap: bool) -> dict[str, dict[str, TopicLag]]:
        self.only_cheap.append(only_cheap)
        return {"g": {f"t{n}": TopicLag(queues=1, lag=n, committed=0) for n in range(TOPICS)}}

    async def _since(self, group: str, topic: str) -> dict[str, int]:
        self.asked.append(topic)
        return {topic: 1000}


@pytest.mark.parametrize("with_all_times", [False, True])
def test_the_largest_lags_are_asked_for_up_to_the_limit(with_all_times: bool) -> None:
    admin = FakeAdmin()
    asked = lag_of_all(admin, None, ManualClock(5000), with_all_times=with_all_times)  # type: ignore[arg-type]
    records = asyncio.run(asked)
    count = TOPICS - 1 if with_all_times else TIMES_ASKED_MAX
    expected = [f"t{n}" for n in range(TOPICS - 1, TOPICS - 1 - count, -1)]
    assert admin.asked == expected and admin.only_cheap == [not with_all_times]
    assert [record["topic"] for record in records if record["lag_ms"] is not None] == expected
    assert len(records) == TOPICS
