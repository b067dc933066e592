"""Samples made by hand, and the brokers that a sampler asks."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from pymq.client.admin.rows import Rows
from pymq.clock import ManualClock
from pymq.errors import UnreachableError
from pymq.model.message import MessageQueue
from pymq.model.route import BrokerData
from pymq.model.tables import TopicConfig
from pymq.operations.replica_view import BrokerView
from pymq.operations.top.rates import Rates
from pymq.operations.top.sample import BrokerSample, GroupSample, ReaderSample, Sample, TopicSample
from pymq.wire.bodies_admin import Connection, ConsumerConnections, TopicLag, TopicOffset
from pymq.wire.bodies_route import ClusterInfo
from pymq.wire.bodies_rows import GroupLag, GroupMembers, TopicEnds, TopicReaders


def sample(at_ms: int, *, put: int = 0, end: int = 0, committed: int = 0, lag: int = 0, **names: str) -> Sample:
    """Return a sample of a master that takes ``put`` messages, a slave, one topic and one group."""
    topic, group = names.get("topic", "orders"), names.get("group", "billing")
    master = BrokerView("east", "broker-a", 0, "h:1", runtime={"brokerVersionDesc": "V5_3_3"})
    slave = BrokerView("east", "broker-a", 1, "h:2")
    return Sample(
        [
            BrokerSample(master, at_ms, put, 2 * put, 100 * put, 0.5),
            BrokerSample(slave, at_ms, 0, 0, 100 * put - 50, 0.5),
        ],
        {(topic, "broker-a"): TopicSample(at_ms, end, 7), ("TBW102", "broker-a"): TopicSample(at_ms, 0, 0)},
        {(topic, "broker-a"): ReaderSample(at_ms, TopicReaders(groups=1, lag=lag, committed=committed, offsets=1))},
        {(group, "broker-a"): GroupSample(at_ms, group_row(committed, lag), 90_000 if lag else 0)},
        {group: 2},
        frozenset({"TBW102"}),
    )


def group_row(committed: int, lag: int, offsets: int = 1) -> GroupLag:
    return GroupLag(topics=1, lag=lag, committed=committed, offsets=offsets)


def rates(*samples: Sample) -> Rates:
    found = Rates()
    for one in samples:
        found.add(one)
    return found


class Brokers:
    """The parts of an Admin that a sampler uses: one master with topics, and a slave that does not answer.

    The master gives no rows, unless ``given`` has them; ``row_requests`` names those that it was asked for.
    """

    def __init__(self, topic_count: int = 3) -> None:
        self.rows = SimpleNamespace(
            **{name: partial(self._give_rows, name) for name in ("ends", "lags_and_readers", "members")}
        )
        self.given: dict[str, Any] = {}
        self.row_requests: list[str] = []
        self.unreached: dict[str, str] = {}
        self.asked: list[str] = []
        self.system_asked = 0
        self.end = 0
        self.topic_count = topic_count
        self.cluster = SimpleNamespace(info=self._info)
        self.brokers = SimpleNamespace(runtime_info=self._runtime)
        self.topics = SimpleNamespace(configs=self._configs, system_names=self._system, stats=self._stats)
        self.group_names = ["TOOLS_CONSUMER", "g"]
        self.asked_groups: list[str] = []
        self.answer_ms = 0
        self.clock = ManualClock(1_000_000)
        self.groups = SimpleNamespace(
            connections=self._connections,
            configs=self._group_configs,
            topic_lags_at=self._lags,
        )

    async def _give_rows(self, name: str, address: str, **_: Any) -> Any:
        self.row_requests.append(name)
        given = self.given.get(name)
        if isinstance(given, Exception):
            raise given
        return given

    def give_rows(self, *, lag: int = 0, committed: int = 0, consumed_ms: int | None = 0) -> None:
        """Answer as a PyMQ broker does: topic t0 and group g with two members."""
        sums: dict[str, Any] = {"lag": lag, "committed": committed, "offsets": 2}
        self.given = {
            "ends": Rows(t0=TopicEnds(queues=2, end=self.end, stored=self.end)),
            "lags_and_readers": (
                Rows(g=GroupLag(topics=1, consumed_ms=consumed_ms, **sums), TOOLS_CONSUMER=GroupLag(topics=1)),
                Rows(t0=TopicReaders(groups=1, **sums)),
            ),
            "members": Rows(g=GroupMembers(members=2)),
        }

    async def _info(self) -> ClusterInfo:
        data = BrokerData(cluster="east", broker_name="a", broker_addrs={0: "h:1", 1: "h:2"})
        return ClusterInfo(broker_addr_table={"a": data})

    async def _runtime(self, address: str) -> dict[str, str]:
        if address == "h:2":
            raise UnreachableError("no answer")
        return {"msgPutTotalTodayNow": str(self.end), "commitLogDiskRatio": "nonsense"}

    async def _group_configs(self, address: str) -> list[str]:
        return self.group_names

    async def _lags(self, address: str, group: str, *, with_times: bool) -> dict[str, TopicLag]:
        self.asked_groups.append(group)
        self.clock.advance(self.answer_ms)
        half = self.end // 2
        return {
            "t0": TopicLag(queues=2, lag=2 * (self.end - half), committed=2 * half, consumed_ms=1),
            "%RETRY%g": TopicLag(queues=1, committed=0),
        }

    async def _configs(self, address: str) -> dict[str, TopicConfig]:
        return {f"t{number}": TopicConfig(topic_name=f"t{number}") for number in range(self.topic_count)}

    async def _system(self) -> set[str]:
        self.system_asked += 1
        raise UnreachableError("no answer")

    async def _stats(self, topic: str, targets: Any) -> dict[MessageQueue, TopicOffset]:
        self.asked.append(topic)
        return {MessageQueue(topic, "a", 0): TopicOffset(min_offset=0, max_offset=self.end)}

    async def _connections(self, address: str, group: str) -> ConsumerConnections:
        return ConsumerConnections(connection_set=[Connection(client_id="one"), Connection(client_id="two")])
