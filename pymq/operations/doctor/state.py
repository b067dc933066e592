"""What the doctor knows of a cluster: the answers of its name servers and brokers, and why others are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pymq.model.route import BrokerData
from pymq.model.tables import TopicConfig
from pymq.operations.replica_view import BrokerView
from pymq.wire.bodies_admin import TopicLag
from pymq.wire.bodies_lites import BrokerLites

Lags = dict[str, TopicLag]  # by topic


@dataclass(slots=True)
class NameServer:
    """One name server's view. ``error`` says why it did not answer."""

    address: str
    brokers: dict[str, BrokerData] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    error: str = ""


class Skew(NamedTuple):
    """A broker's clock is between ``low_ms`` and ``high_ms`` ahead of this machine's; negative means behind."""

    low_ms: int
    high_ms: int

    @property
    def least_ms(self) -> int:
        """The difference that is certain; 0 when the clocks may be equal."""
        if self.low_ms <= 0 <= self.high_ms:
            return 0
        return self.low_ms if self.low_ms > 0 else self.high_ms


class Port(NamedTuple):
    """A port of a broker. ``error`` says why it can't be connected from here, empty when it can."""

    name: str
    address: str
    error: str = ""


@dataclass(slots=True)
class Broker:
    """One registered broker; ``view`` has its status and runtime table. None stands for what it did not answer."""

    view: BrokerView
    config: dict[str, str] | None = None
    topics: dict[str, TopicConfig] | None = None
    skew: Skew | None = None
    ports: list[Port] = field(default_factory=list)
    lites: BrokerLites | None = None  # of a master that has parents of lite topics

    @property
    def is_rocketmq(self) -> bool:
        """Whether it is certainly no PyMQ broker."""
        status = self.view.status
        return status is not None and status.protocol_version == 0

    @property
    def label(self) -> str:
        """``broker-a``, or ``broker-a:1`` for a slave with the id 1."""
        return self.view.name if self.view.is_master else f"{self.view.name}:{self.view.broker_id}"

    @property
    def answers(self) -> bool:
        return self.view.status is not None

    def figure(self, key: str) -> float | None:
        """Return a number of the runtime table, None when the broker doesn't report it."""
        return number(self.view.runtime.get(key))

    def setting(self, key: str) -> float | None:
        """Return a number of the configuration, None when the broker doesn't report it."""
        return number((self.config or {}).get(key))


@dataclass(slots=True)
class Group:
    """A consumer group. ``lags`` and ``later`` are its places at the begin and at the end of an observation.

    ``members`` is None when their number is not known; then ``error`` says why.

    ``differing``: topic -> selection -> number of members, for topics that members subscribe to differently; None when
    it is not known, then ``error`` says why.
    """

    name: str
    members: int | None = 0
    is_enabled: bool = True
    lite_parent: str = ""  # the topic whose lite topics it reads
    lags: Lags = field(default_factory=dict)
    later: Lags | None = None
    differing: dict[str, dict[str, int]] | None = None
    error: str = ""

    @property
    def lag(self) -> int:
        return sum(topic.lag for topic in self.lags.values())

    def taken(self) -> int | None:
        """Return how many messages the group committed during the observation.

        None without an observation, and when a broker does not report what groups have committed.
        """
        taken = 0
        for topic in self.lags.keys() & (self.later or {}).keys():
            before, after = self.lags[topic].committed, (self.later or {})[topic].committed
            if before is None or after is None:
                return None
            taken += after - before
        return None if self.later is None else taken


@dataclass(slots=True)
class ClusterState:
    """All of it at one time. ``observed_ms``: how long groups were observed, 0 for not at all."""

    now_ms: int
    name_servers: list[NameServer] = field(default_factory=list)
    brokers: list[Broker] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    places_unknown: dict[str, str] = field(default_factory=dict)  # address of a master -> why it didn't answer
    observed_ms: int = 0
    missing: dict[str, str] = field(default_factory=dict)  # brokers that the context names and none lists -> the reason
    ordered: dict[str, str] = field(default_factory=dict)  # topic -> its order configuration

    @property
    def answering(self) -> list[Broker]:
        return [broker for broker in self.brokers if broker.answers]

    @property
    def is_reachable(self) -> bool:
        """Whether any name server answered: without one nothing else is known."""
        return not all(server.error for server in self.name_servers)

    @property
    def masters(self) -> list[Broker]:
        return [broker for broker in self.brokers if broker.view.is_master]

    @property
    def is_complete(self) -> bool:
        """Whether every registered broker answered, so that what no broker has is nowhere."""
        return len(self.answering) == len(self.brokers)


def number(text: str | None) -> float | None:
    """Return the number that ``text`` begins with, None if there is none."""
    try:
        return float((text or "").split(" ")[0])
    except ValueError:
        return None
